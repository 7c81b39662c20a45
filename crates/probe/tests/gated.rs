//! The gated train's estimator on recorded trains, and on simulated token buckets with everything that goes wrong.

mod simulation;

use std::path::Path;
use std::time::Duration;

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
            let (_, report) = simulate(&path);
            let answer = report.answer.unwrap_or_else(|refusal| panic!("{path:?}: {refusal}"));
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

/// A path with a bucket of 1 MB before 200 Mbit/s, where `change` is all that goes wrong.
fn path(change: impl FnOnce(&mut Shaped)) -> Shaped {
    let mut path = Shaped {
        rate_bps: 2e8,
        bucket_bytes: 1e6,
        ..Shaped::default()
    };
    change(&mut path);
    path
}

#[test]
fn a_train_ends_when_its_receiver_has_enough() {
    let (end, report) = simulate(&path(|_| ()));
    assert_eq!(report.train.limit, Limit::Enough);
    assert!(!end.out_of_bytes && !end.out_of_time);
    // The bucket, 0.1 s of the rate, and what was under way in the end.
    assert!(u64::from(end.packets) * 1514 < 3_600_000, "{end:?}");
    let held = simulate(&path(|path| path.hold = Duration::from_millis(300))).0;
    assert!(u64::from(held.packets) * 1514 > 1_000_000 + 7_400_000, "{held:?}");
}

#[test]
fn a_train_ends_with_its_bytes_and_its_time() {
    let (end, report) = simulate(&path(|path| path.max_packets = 500));
    assert!(end.out_of_bytes && end.packets == 500);
    assert_eq!(report.train.limit, Limit::Bytes);
    assert_eq!(report.answer.unwrap().verdict, Verdict::BucketNotExhausted);
    let (end, report) = simulate(&path(|path| path.max_time = Duration::from_millis(20)));
    assert!(end.out_of_time);
    assert_eq!(report.train.limit, Limit::Time);
}

#[test]
fn a_sender_without_answers_goes_on_slowly() {
    let (end, report) = simulate(&path(|path| path.lost_acks = 1.0));
    assert!(end.out_of_time);
    // The first window, then a packet each 20 ms.
    assert!((173 + 45..=173 + 50).contains(&end.packets), "{end:?}");
    assert_eq!(report.train.arrivals.len(), end.packets as usize);
}

#[test]
fn a_dead_path_is_left_soon() {
    let (end, report) = simulate(&path(|path| path.loss = 1.0));
    assert!(end.out_of_time && end.packets < 1_000);
    assert_eq!(report.answer, Err(Refusal::Silent(0)));
}

#[test]
fn what_does_not_touch_the_queue_leaves_the_answer_as_it_is() {
    type Change = fn(&mut Shaped);
    let changes: [(&str, Change); 6] = [
        ("lost answers", |path| path.lost_acks = 0.5),
        ("lost packets", |path| path.loss = 0.001),
        ("overtaking", |path| path.reordered = 0.001),
        ("a slow receiver", |path| path.read_ns = 20_000.0),
        ("a small buffer", |path| path.buffer_packets = 20),
        ("a clock that is set a little", |path| {
            (path.step_at_ns, path.step_ns) = (25_000_000, 300_000);
        }),
    ];
    for (what, change) in changes {
        let path = path(change);
        let (_, report) = simulate(&path);
        let answer = report.answer.unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
        assert_eq!(answer.verdict, Verdict::PathLimited, "{what}");
        assert!(
            (answer.rate_bps / path.rate_bps - 1.0).abs() < 0.01,
            "{what}: {answer:?}"
        );
    }
}

#[test]
fn what_the_receivers_own_buffer_drops_is_not_lost_on_the_path() {
    let (end, report) = simulate(&path(|path| {
        path.buffer_packets = 12;
        path.read_ns = 40_000.0;
    }));
    let dropped = report.train.arrivals.last().unwrap().overflow;
    assert!(dropped > 20 && report.train.arrivals.len() < end.packets as usize);
    assert!(report.answer.is_ok_and(|answer| answer.loss < 1e-9), "{dropped}");
}

#[test]
fn a_clock_that_is_set_far_is_refused() {
    for step_ns in [-3_600_000_000_000, -1_000_000, 1_000_000, 3_600_000_000_000] {
        let (_, report) = simulate(&path(|path| (path.step_at_ns, path.step_ns) = (25_000_000, step_ns)));
        assert_eq!(report.answer, Err(Refusal::ClockStepped), "{step_ns} ns");
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
        reordered in prop_oneof![Just(0.0), 0.0..0.05],
        lost_acks in prop_oneof![Just(0.0), 0.0..0.5],
        stalls in 0.0..0.05,
        late_stamps in 0.0..0.02,
        read_ns in prop_oneof![Just(500.0), 500.0..10_000.0],
        buffer_packets in prop_oneof![Just(14_000usize), 16..500usize],
        step_at_ns in 0u64..100_000_000,
        step_ns in prop_oneof![Just(0), -600_000i64..600_000],
        seed: u64,
    ) {
        let path = Shaped {
            rate_bps: 1e6 * rate_mbps, bucket_bytes, queue_bytes, line_ns, jitter_ns, loss, reordered, lost_acks, stalls, late_stamps,
            read_ns, buffer_packets, step_at_ns, step_ns, seed, ..Shaped::default()
        };
        let (_, report) = simulate(&path);
        if let Ok(answer) = report.answer
            && answer.verdict == Verdict::PathLimited
        {
            // What is lost behind the shaper does not arrive.
            let least = path.rate_bps * (1.0 - path.loss);
            prop_assert!(answer.rate_bps > least * (1.0 - WRONG), "{:?}", answer);
            prop_assert!(answer.rate_bps < path.rate_bps * (1.0 + WRONG), "{:?}", answer);
        }
    }
}
