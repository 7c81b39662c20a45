//! The gated train's estimator on recorded trains, and on simulated token buckets with everything that goes wrong.

mod simulation;

use std::path::Path;

use gavotte_probe::gated::{Limit, Refusal, Train, Verdict, enough, estimate, parse_trace, write_trace};
use proptest::prelude::*;
use simulation::{Path as Shaped, simulate};

/// What no answer that calls itself path-limited may be off by.
const WRONG: f64 = 0.03;

fn recorded() -> Vec<(String, Train)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "trace") {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            traces.push((name, parse_trace(&text).unwrap()));
        }
    }
    traces.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(traces.len() >= 15, "the recorded trains are missing");
    traces
}

fn number(word: &str, unit: &str) -> Option<f64> {
    word.strip_suffix(unit)?.parse().ok()
}

/// Rate in bit/s and bucket in bytes, for trains whose name tells them.
fn truth(name: &str) -> Option<(f64, f64)> {
    let mut words = name.split('_');
    let rate_bps = 1e6 * number(words.next()?, "mbit")?;
    Some((rate_bps, 1024.0 * number(words.next()?, "kb")?))
}

#[test]
fn recorded_buckets_are_told_to_a_percent() {
    for (name, train) in recorded() {
        let Some((rate_bps, bucket_bytes)) = truth(&name) else {
            continue;
        };
        let answer = estimate(&train).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        assert_eq!(answer.verdict, Verdict::PathLimited, "{name}");
        assert!((answer.rate_bps / rate_bps - 1.0).abs() < 0.002, "{name}: {answer:?}");
        assert!(answer.interval.low <= answer.rate_bps && answer.rate_bps <= answer.interval.high);
        assert!(enough(&train, &answer), "{name}: {answer:?}");
        if bucket_bytes > 500_000.0 {
            let depth = answer.bucket_bytes.unwrap();
            assert!(
                (depth / bucket_bytes - 1.0).abs() < 0.02,
                "{name}: {depth} of {bucket_bytes}"
            );
        }
        assert!(answer.peak_bps > rate_bps, "{name}: {answer:?}");
    }
}

#[test]
fn hosts_that_are_the_limit_are_not_taken_for_the_path() {
    let traces = recorded();
    for name in ["unshaped", "colocated"] {
        let (_, train) = traces.iter().find(|(found, _)| found == name).unwrap();
        let answer = estimate(train).unwrap();
        assert_eq!(answer.verdict, Verdict::BucketNotExhausted, "{name}");
        assert!(answer.interval.high.is_infinite() && answer.bucket_bytes.is_none());
        let train = Train {
            limit: Limit::Time,
            ..train.clone()
        };
        assert_eq!(estimate(&train).unwrap().verdict, Verdict::HostLimited, "{name}");
    }
}

#[test]
fn a_queue_shared_with_others_is_refused() {
    for (name, train) in recorded() {
        if name.starts_with("cross") {
            assert!(matches!(estimate(&train), Err(Refusal::Unsteady { .. })), "{name}");
        }
    }
}

#[test]
fn a_prefix_of_a_train_is_never_wrong() {
    for (name, train) in recorded() {
        let Some((rate_bps, _)) = truth(&name) else { continue };
        for cut in (0..train.arrivals.len()).step_by(97) {
            let mut part = train.clone();
            part.arrivals.truncate(cut);
            // A link's level before a deep bucket runs dry is settled only by going on, which is `enough`'s part.
            if let Ok(answer) = estimate(&part)
                && answer.verdict == Verdict::PathLimited
                && enough(&part, &answer)
            {
                assert!(
                    (answer.rate_bps / rate_bps - 1.0).abs() < WRONG,
                    "{name} at {cut}: {answer:?}"
                );
            }
        }
    }
}

/// Sets the receiver's clock by `step_ns` when a share of the train has come.
fn stepped(train: &Train, share: f64, step_ns: i64) -> Train {
    let mut train = train.clone();
    let from = (share * train.arrivals.len() as f64) as usize;
    for arrival in &mut train.arrivals[from..] {
        arrival.received_ns += step_ns;
    }
    train
}

#[test]
fn a_clock_that_is_set_meanwhile_never_makes_a_wrong_answer() {
    for (name, train) in recorded() {
        let Some((rate_bps, _)) = truth(&name) else { continue };
        // Of more than 0.5 ms the agent learns from its steady clock, and refuses.
        for step_ns in [200_000, 1_000_000, 10_000_000, 1_000_000_000, 3_600_000_000_000] {
            for sign in [1, -1] {
                for share in [0.0, 0.1, 0.3, 0.5, 0.7, 0.9] {
                    let train = stepped(&train, share, sign * step_ns);
                    let Ok(answer) = estimate(&train) else { continue };
                    if answer.verdict != Verdict::PathLimited {
                        continue;
                    }
                    assert!(
                        (answer.rate_bps / rate_bps - 1.0).abs() < WRONG,
                        "{name}, {} ns at {share}: {answer:?}",
                        sign * step_ns
                    );
                }
            }
        }
    }
}

#[test]
fn recorded_trains_survive_being_written() {
    for (name, train) in recorded() {
        assert_eq!(parse_trace(&write_trace(&train)), Ok(train), "{name}");
    }
}

#[test]
fn too_little_is_refused() {
    assert_eq!(estimate(&Train::default()), Err(Refusal::Silent(0)));
    let (_, mut train) = recorded().swap_remove(0);
    train.arrivals.truncate(20);
    assert_eq!(estimate(&train), Err(Refusal::Silent(20)));
}

#[test]
fn quiet_simulated_buckets_are_all_answered() {
    for rate_bps in [20e6, 100e6, 300e6, 900e6] {
        for bucket_bytes in [3_000.0, 32_768.0, 524_288.0, 2_000_000.0] {
            let path = Shaped {
                rate_bps,
                bucket_bytes,
                jitter_ns: 10_000.0,
                ..Shaped::default()
            };
            let answer = estimate(&simulate(&path)).unwrap_or_else(|refusal| panic!("{path:?}: {refusal}"));
            assert_eq!(answer.verdict, Verdict::PathLimited, "{path:?}");
            assert!((answer.rate_bps / rate_bps - 1.0).abs() < 0.003, "{path:?}: {answer:?}");
            let depth = answer.bucket_bytes.unwrap();
            assert!(
                (depth - bucket_bytes).abs() < 3_000.0 + 0.01 * bucket_bytes,
                "{path:?}: {depth}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_simulated_train_is_wrong_and_confident(
        rate_mbps in 10.0..1000.0,
        bucket_bytes in 0.0..1_500_000.0,
        queue_bytes in 20_000.0..3_000_000.0,
        line_ns in 1_000.0..9_000.0,
        jitter_ns in 0.0..60_000.0,
        loss in prop_oneof![Just(0.0), 0.0..0.05],
        stalls in 0.0..0.05,
        late_stamps in 0.0..0.02,
        seed: u64,
    ) {
        let path = Shaped { rate_bps: 1e6 * rate_mbps, bucket_bytes, queue_bytes, line_ns, jitter_ns, loss, stalls, late_stamps, seed };
        let train = simulate(&path);
        let answer = estimate(&train);
        if let Ok(answer) = answer
            && answer.verdict == Verdict::PathLimited
        {
            // What is lost behind the shaper does not arrive.
            let least = path.rate_bps * (1.0 - path.loss);
            prop_assert!(answer.rate_bps > least * (1.0 - WRONG), "{:?}", answer);
            prop_assert!(answer.rate_bps < path.rate_bps * (1.0 + WRONG), "{:?}", answer);
        }
    }
}
