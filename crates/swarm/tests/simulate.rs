//! Traces under policies: the paper's cases, bounds, and properties of all policies.

#![allow(clippy::float_cmp, reason = "exact by construction")]

use gavotte_net::BitsPerSec;
use gavotte_swarm::orders::{names, policy};
use gavotte_swarm::{Admission, Fabric, Listed, Trace, shuffle, simulate};
use proptest::prelude::*;

fn fabric(ports: usize) -> Fabric {
    Fabric::uniform(ports, BitsPerSec::new(8.0).expect("above zero"))
}

fn listed(arrival_s: f64, class: u32, flows: Vec<(u32, u32, f64)>) -> Listed {
    Listed {
        name: String::new(),
        arrival_s,
        class,
        weight: 1.0,
        deadline_s: f64::INFINITY,
        flows,
    }
}

fn trace(ports: u32, coflows: Vec<Listed>) -> Trace {
    let ports = (0..ports).map(|port| port.to_string()).collect();
    Trace { ports, coflows }.joined()
}

/// When each coflow finishes on ports of one byte per second.
fn finish_s(trace: &Trace, name: &str, step_s: f64) -> Vec<f64> {
    let policy = policy(name).expect("known");
    let outcome = simulate(
        trace,
        &*policy,
        Admission::Open,
        &mut fabric(trace.ports.len()),
        step_s,
        |_| true,
    );
    outcome.expect("not stopped").finish_s
}

fn near(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= within * expected, "{found} for {expected}");
    }
}

/// Fig. 13: two receivers, each with `private` senders of one unit, and one sender of `private` units to each receiver.
fn figure_13(private: u32) -> Trace {
    let shared = 2 * private;
    let own = (0..shared).map(|sender| (sender, shared + 1 + sender / private, 1.0));
    let both = [1, 2].map(|receiver| (shared, shared + receiver, f64::from(private)));
    trace(shared + 3, vec![listed(0.0, 0, own.chain(both).collect())])
}

#[test]
fn the_shuffles_of_fig_13_take_what_the_paper_predicts() {
    for (private, fair, weighted) in [(2, 5.0, 4.0), (3, 8.0, 6.0), (4, 11.0, 8.0)] {
        let trace = figure_13(private);
        near(&finish_s(&trace, "fair", 0.0), &[fair], 1e-12);
        near(&finish_s(&trace, "weighted", 0.0), &[weighted], 1e-12);
        near(&finish_s(&trace, "fifo", 0.0), &[weighted], 1e-12);
    }
}

/// Section 7.4: shuffles among thirty hosts, with equally many bytes between all pairs.
fn shuffle(arrival_s: f64, class: u32, bytes_a_host: f64) -> Listed {
    let pairs = (0..30).flat_map(|source| (0..30).map(move |target| (source, target, bytes_a_host / 30.0)));
    listed(arrival_s, class, pairs.collect())
}

#[test]
fn four_equal_shuffles_end_as_the_fluid_model_says() {
    let four = trace(30, (0..4).map(|_| shuffle(0.0, 0, 1.0)).collect());
    near(&finish_s(&four, "fair", 0.0), &[4.0; 4], 1e-9);
    near(&finish_s(&four, "weighted", 0.0), &[4.0; 4], 1e-9);
    near(&finish_s(&four, "fifo", 0.0), &[1.0, 2.0, 3.0, 4.0], 1e-9);
    near(&finish_s(&four, "fifo+", 0.0), &[1.099, 2.128, 3.093, 4.0], 1e-3);
    for name in ["scf", "sebf", "bssi"] {
        near(&finish_s(&four, name, 0.0), &[1.0, 2.0, 3.0, 4.0], 1e-9);
    }
}

#[test]
fn a_high_class_passes_a_low_one_that_loses_nothing() {
    let high = [10.0, 11.5, 13.0].map(|arrival_s| shuffle(arrival_s, 0, 1.0));
    let both = trace(30, [vec![shuffle(0.0, 1, 20.0)], high.to_vec()].concat());
    // Three coflows of one second each, and a twentieth for the low class; the links are always full.
    let third = 13.0 + 1.0 / 0.95;
    near(
        &finish_s(&both, "priority", 0.0),
        &[23.0, 10.0 + 1.0 / 0.95, 11.5 + 1.0 / 0.95, third],
        1e-9,
    );
    assert!(finish_s(&both, "fair", 0.0)[1] > 11.4);
}

#[test]
fn those_that_nothing_holds_back_are_done_on_arrival() {
    let quiet = trace(2, vec![listed(3.0, 0, vec![(0, 1, 0.0)]), listed(1.0, 0, Vec::new())]);
    near(&finish_s(&quiet, "sebf", 0.0), &[3.0, 1.0], 0.0);
    assert!(finish_s(&Trace::default(), "fair", 0.0).is_empty());
}

#[test]
fn one_can_stop_it() {
    let many = trace(
        2,
        (0..200).map(|at| listed(f64::from(at), 0, vec![(0, 1, 1.0)])).collect(),
    );
    let policy = policy("fair").expect("known");
    assert_eq!(
        simulate(&many, &*policy, Admission::Open, &mut fabric(2), 0.0, |_| false),
        None
    );
}

fn traces() -> impl Strategy<Value = Trace> {
    let flows = prop::collection::vec((0_u32..5, 0_u32..5, (1_u32..100).prop_map(f64::from)), 1..8);
    let coflow = (0_u32..20, 0_u32..3, flows).prop_map(|(at, class, flows)| listed(f64::from(at), class, flows));
    prop::collection::vec(coflow, 1..8).prop_map(|coflows| trace(5, coflows))
}

proptest! {
    /// Each coflow takes at least as long as alone. All coflows together take no longer than the slowest port that is
    /// never idle.
    #[test]
    fn nobody_is_faster_than_alone_and_no_policy_slower_than_one_after_the_other(trace in traces()) {
        let mut fabric = fabric(5);
        let alone: Vec<f64> = trace.coflows.iter().map(|coflow| {
            let flows: Vec<_> = coflow.flows.iter().map(|&(m, n, bytes)| (fabric.path(m as usize, n as usize), bytes)).collect();
            shuffle::bound(&fabric, flows).seconds
        }).collect();
        // Greedy schedules of ports with two directions take at most twice the optimum.
        let last_s = trace.coflows.iter().map(|coflow| coflow.arrival_s).fold(0.0, f64::max) + 2.0 * alone.iter().sum::<f64>();
        for name in names() {
            for (finish_s, (coflow, alone_s)) in finish_s(&trace, name, 0.0).iter().zip(trace.coflows.iter().zip(&alone)) {
                prop_assert!(finish_s - coflow.arrival_s >= alone_s * (1.0 - 1e-6), "{name}");
                prop_assert!(*finish_s <= last_s * (1.0 + 1e-6), "{name}: {finish_s} after {last_s}");
            }
        }
    }

    /// Neither the order of the lines nor that of equal ports changes the result.
    #[test]
    fn coflows_may_come_in_any_order(trace in traces()) {
        let mut late_first = trace.clone();
        late_first.coflows.sort_by(|a, b| b.arrival_s.total_cmp(&a.arrival_s));
        for name in ["fair", "weighted"] {
            let mut expected = finish_s(&trace, name, 0.0);
            let mut finished_s = finish_s(&late_first, name, 0.0);
            expected.sort_by(f64::total_cmp);
            finished_s.sort_by(f64::total_cmp);
            near(&finished_s, &expected, 1e-6);
        }
    }

    /// Shares are idle for at most one step, so each end of a flow costs at most one step.
    #[test]
    fn a_step_costs_little(trace in traces()) {
        let exact = finish_s(&trace, "fair", 0.0);
        let stepped = finish_s(&trace, "fair", 1e-6);
        near(&stepped, &exact, 1e-3);
    }
}
