//! Deadlines: what admission promises is kept under every policy.

use gavotte_net::BitsPerSec;
use gavotte_swarm::orders::{names, policy};
use gavotte_swarm::{Admission, Fabric, Listed, Outcome, Trace, simulate};
use proptest::prelude::*;

fn fabric(ports: usize) -> Fabric {
    Fabric::uniform(ports, BitsPerSec::new(8.0).expect("above zero"))
}

fn listed(arrival_s: f64, deadline_s: f64, flows: Vec<(u32, u32, f64)>) -> Listed {
    Listed {
        name: String::new(),
        arrival_s,
        class: 0,
        weight: 1.0,
        deadline_s,
        flows,
    }
}

fn trace(ports: u32, coflows: Vec<Listed>) -> Trace {
    let ports = (0..ports).map(|port| port.to_string()).collect();
    Trace { ports, coflows }.joined()
}

/// The outcome on ports of one byte per second.
fn run(trace: &Trace, name: &str, admission: Admission, step_s: f64) -> Outcome {
    let policy = policy(name).expect("known");
    let mut fabric = fabric(trace.ports.len());
    simulate(trace, &*policy, admission, &mut fabric, step_s, |_| true).expect("not stopped")
}

#[test]
fn a_promise_is_kept_next_to_an_earlier_coflow_that_would_go_first() {
    // 100 bytes without a deadline came first; 5 bytes are due after 10 s, so they need half of the port.
    let both = vec![
        listed(0.0, f64::INFINITY, vec![(0, 1, 100.0)]),
        listed(1.0, 10.0, vec![(0, 1, 5.0)]),
    ];
    let both = trace(2, both);
    let open = run(&both, "fifo", Admission::Open, 0.0);
    assert!((open.finish_s[1] - 105.0).abs() < 1e-6, "{open:?}");
    let kept = run(&both, "fifo", Admission::Refuse, 0.0);
    assert_eq!(kept.guaranteed, [false, true]);
    assert!((kept.finish_s[1] - 11.0).abs() < 1e-6, "{kept:?}");
    assert!((kept.finish_s[0] - 105.0).abs() < 1e-6, "{kept:?}");
}

#[test]
fn a_coflow_that_does_not_fit_is_refused_or_demoted() {
    // Both need six tenths of the port. Under EDF the second would take the first one's time, and both would be late.
    let both = trace(
        2,
        vec![
            listed(0.0, 10.0, vec![(0, 1, 6.0)]),
            listed(0.0, 9.9, vec![(0, 1, 6.0)]),
        ],
    );
    let refused = run(&both, "fair", Admission::Refuse, 0.0);
    assert_eq!(refused.guaranteed, [true, false]);
    assert!(
        (refused.finish_s[0] - 6.0).abs() < 1e-6 && refused.finish_s[1].is_nan(),
        "{refused:?}"
    );
    let demoted = run(&both, "fair", Admission::Demote, 0.0);
    assert_eq!(demoted.guaranteed, [true, false]);
    assert!(demoted.finish_s[0] <= 10.0 + 1e-6, "{demoted:?}");
    assert!((demoted.finish_s[1] - 12.0).abs() < 1e-6, "{demoted:?}");
}

#[test]
fn edf_serves_by_deadline() {
    let both = trace(
        2,
        vec![
            listed(0.0, 10.0, vec![(0, 1, 4.0)]),
            listed(0.0, 5.0, vec![(0, 1, 4.0)]),
        ],
    );
    let edf = run(&both, "edf", Admission::Open, 0.0);
    assert!(
        (edf.finish_s[1] - 4.0).abs() < 1e-6 && (edf.finish_s[0] - 8.0).abs() < 1e-6,
        "{edf:?}"
    );
}

fn traces() -> impl Strategy<Value = Trace> {
    let flows = prop::collection::vec((0_u32..5, 0_u32..5, (1_u32..100).prop_map(f64::from)), 1..8);
    let deadline_s = prop_oneof![Just(f64::INFINITY), 1.0..500.0, 1.0..100.0];
    let coflow = (0_u32..60, deadline_s, flows).prop_map(|(at, due, flows)| listed(f64::from(at), due, flows));
    prop::collection::vec(coflow, 1..10).prop_map(|coflows| trace(5, coflows))
}

proptest! {
    #[test]
    fn every_promise_is_kept_under_every_policy(trace in traces(), step_s in prop_oneof![Just(0.0), Just(1.5)]) {
        for name in names() {
            for admission in [Admission::Demote, Admission::Refuse] {
                let outcome = run(&trace, name, admission, step_s);
                for (at, coflow) in trace.coflows.iter().enumerate() {
                    let took_s = outcome.finish_s[at] - coflow.arrival_s;
                    if outcome.guaranteed[at] {
                        prop_assert!(took_s <= coflow.deadline_s * (1.0 + 1e-6), "{name}: {took_s} of {}", coflow.deadline_s);
                    } else if admission == Admission::Demote || coflow.deadline_s.is_infinite() {
                        prop_assert!(took_s.is_finite(), "{name}: never ends");
                    } else {
                        prop_assert!(took_s.is_nan(), "{name}: was refused and ran");
                    }
                }
            }
        }
    }
}
