//! Background traffic.

use gavotte_fluid::{Background, Pattern, Workload, simulate};

use crate::support::{Columns, MBIT, small};

fn source(pattern: Pattern) -> Background {
    Background {
        source: 0,
        target: 2,
        pattern,
        weight: 1.0,
        cap_bps: f64::INFINITY,
    }
}

#[test]
fn the_same_seed_gives_the_same_and_another_another() {
    let columns = Columns::of(&[(0, 1, 50_000_000, 0.0), (1, 2, 30_000_000, 1.0)]);
    let background = [
        source(Pattern::Poisson {
            per_s: 2.0,
            mean_bytes: 2e5,
        }),
        source(Pattern::OnOff {
            mean_on_s: 0.5,
            mean_off_s: 1.0,
        }),
    ];
    let run = |seed| {
        let workload = Workload {
            background: &background,
            seed,
            ..Workload::new(columns.flows())
        };
        simulate(&small(80.0), &workload).expect("sound")
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).finish_s, run(2).finish_s);
}

#[test]
fn poisson_flows_offer_the_load_they_say() {
    let columns = Columns::of(&[(3, 1, 2_000_000_000, 0.0)]);
    let background = [source(Pattern::Poisson {
        per_s: 5.0,
        mean_bytes: 1e5,
    })];
    let workload = Workload {
        background: &background,
        seed: 3,
        ..Workload::new(columns.flows())
    };
    let outcome = simulate(&small(80.0), &workload).expect("sound");
    let offered = 5.0 * 1e5 * outcome.end_s;
    let carried = outcome
        .links
        .iter()
        .map(|used| used.bytes)
        .fold(f64::INFINITY, f64::min);
    // 10,000 flows of exponential size: the standard error is 1.4 %.
    assert!((carried / offered - 1.0).abs() < 0.05, "{carried} of {offered} bytes");
}

#[test]
fn an_on_off_flow_halves_the_rest_while_it_is_on() {
    let columns = Columns::of(&[(0, 1, 1_000_000_000, 0.0)]);
    let background = [source(Pattern::OnOff {
        mean_on_s: 0.3,
        mean_off_s: 0.1,
    })];
    let workload = Workload {
        background: &background,
        seed: 5,
        ..Workload::new(columns.flows())
    };
    let outcome = simulate(&small(80.0), &workload).expect("sound");
    // On for 3/4 of the time: 1 MB/s x (1/4 + 3/8).
    assert!((outcome.end_s / 1600.0 - 1.0).abs() < 0.03, "{} s", outcome.end_s);
}

#[test]
fn a_cap_bounds_each_flow_of_a_source() {
    let columns = Columns::of(&[(0, 1, 1_000_000_000, 0.0)]);
    let background = [Background {
        cap_bps: 0.8 * MBIT,
        ..source(Pattern::OnOff {
            mean_on_s: 1e9,
            mean_off_s: 1e-9,
        })
    }];
    let workload = Workload {
        background: &background,
        ..Workload::new(columns.flows())
    };
    let outcome = simulate(&small(80.0), &workload).expect("sound");
    assert!((outcome.end_s - 1000.0 / 0.9).abs() < 1e-6, "{} s", outcome.end_s);
}

#[test]
fn background_alone_runs_to_the_end_asked_for() {
    let columns = Columns::of(&[(0, 1, u64::from(u32::MAX) << 20, 0.0)]);
    let background = [source(Pattern::Poisson {
        per_s: 50.0,
        mean_bytes: 1e5,
    })];
    let workload = Workload {
        background: &background,
        until_s: 10.0,
        ..Workload::new(columns.flows())
    };
    let outcome = simulate(&small(80.0), &workload).expect("sound");
    assert!(outcome.finish_s[0].is_nan());
    let egress = &outcome.links[0];
    assert!(
        (outcome.utilisation(egress) - 1.0).abs() < 1e-9,
        "the sender is busy all the time: {outcome:?}"
    );
    assert!((egress.busy_s - 10.0).abs() < 1e-9);
}
