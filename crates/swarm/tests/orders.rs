//! Policies: the properties of all, and those of each.

#![allow(clippy::float_cmp, reason = "exact by construction")]

use std::sync::Arc;

use gavotte_net::{BitsPerSec, Group, Host, Network, NetworkParts, Sharing};
use gavotte_swarm::Fabric;
use gavotte_swarm::orders::{Coflow, DClas, Flow, Policy, names, policy};
use proptest::prelude::*;

const PORTS: usize = 6;

fn bps(value: u32) -> BitsPerSec {
    BitsPerSec::new(f64::from(value)).expect("above zero")
}

/// Ports of several rates, or hosts on machines and in racks with their own links.
fn fabrics() -> impl Strategy<Value = Fabric> {
    let rates = || prop::collection::vec(1_u32..9, PORTS);
    let ports = (rates(), rates()).prop_map(|(out, into)| {
        let each = |rates: Vec<u32>| rates.into_iter().map(bps).collect();
        Fabric::ports(each(out), each(into))
    });
    let pairs = prop::collection::vec(
        prop_oneof![Just(f64::INFINITY), (1_u32..9).prop_map(f64::from)],
        PORTS * PORTS,
    );
    let hosts = (rates(), rates(), rates(), pairs).prop_map(|(out, into, up, rate_bps)| {
        let host = |h: usize| Host {
            name: format!("vm{h}"),
            machine: h.max(1),
            egress: bps(out[h]),
            ingress: bps(into[h]),
        };
        let rack = |r: usize| Group {
            name: format!("rack{r}"),
            members: vec![2 * r, 2 * r + 1],
            up: bps(up[r]),
            down: bps(up[r + 3]),
            parent: None,
        };
        let network = Network::new(NetworkParts {
            hosts: (0..PORTS).map(host).collect(),
            rate_bps,
            latency_s: Vec::new(),
            groups: (0..3).map(rack).collect(),
            sharing: Sharing::Groups,
        });
        Fabric::network(Arc::new(network.expect("sound")))
    });
    prop_oneof![ports, hosts]
}

/// A coflow before it is placed on a fabric: arrival, class, weight, bytes sent, and flows.
type Drawn = (u32, u32, f64, f64, Vec<(usize, usize, f64)>);

fn coflows() -> impl Strategy<Value = Vec<Drawn>> {
    let bytes = prop_oneof![(1_u32..50).prop_map(f64::from), 1e-3..1e13];
    let flows = prop::collection::vec((0..PORTS, 0..PORTS, bytes), 1..12);
    let sent = prop_oneof![Just(0.0), 0.0..1e12];
    let coflow = (
        0_u32..3,
        0_u32..3,
        prop::sample::select(vec![0.5, 1.0, 4.0]),
        sent,
        flows,
    );
    prop::collection::vec(coflow, 1..8)
}

fn on(fabric: &mut Fabric, drawn: &[Drawn]) -> Vec<Coflow> {
    let coflow = |(number, (arrival, class, weight, sent, flows)): (usize, &Drawn)| Coflow {
        number: number as u64,
        arrival_s: f64::from(*arrival),
        class: *class,
        weight: *weight,
        sent_bytes: *sent,
        due_s: f64::INFINITY,
        guaranteed: false,
        flows: flows
            .iter()
            .map(|&(source, target, left_bytes)| Flow {
                path: fabric.path(source, target),
                left_bytes,
            })
            .collect(),
    };
    drawn.iter().enumerate().map(coflow).collect()
}

fn used(fabric: &Fabric, coflows: &[Coflow], rates_bps: &[f64]) -> Vec<f64> {
    let mut used = vec![0.0; fabric.rates_bps().len()];
    for (flow, rate) in coflows.iter().flat_map(|coflow| &coflow.flows).zip(rates_bps) {
        fabric
            .links(flow.path)
            .iter()
            .for_each(|&link| used[link as usize] += rate);
    }
    used
}

fn by_name(name: &str) -> Box<dyn Policy> {
    policy(name).expect("known")
}

/// The rates of each coflow's flows.
fn split<'a>(coflows: &[Coflow], mut rates_bps: &'a [f64]) -> Vec<&'a [f64]> {
    let mut parts = Vec::new();
    for coflow in coflows {
        let (part, rest) = rates_bps.split_at(coflow.flows.len());
        parts.push(part);
        rates_bps = rest;
    }
    parts
}

/// The time that a coflow takes alone.
fn alone_s(fabric: &Fabric, coflow: &Coflow) -> f64 {
    gavotte_swarm::shuffle::bound(fabric, coflow.flows.iter().map(|flow| (flow.path, flow.left_bytes))).seconds
}

fn limited(fabric: &Fabric, flow: &Flow) -> bool {
    !fabric.links(flow.path).is_empty()
}

/// Whether each limited flow of a coflow has a rate above zero.
fn moves(fabric: &Fabric, coflow: &Coflow, rates_bps: &[f64]) -> bool {
    coflow
        .flows
        .iter()
        .zip(rates_bps)
        .all(|(flow, rate)| !limited(fabric, flow) || *rate > 0.0)
}

proptest! {
    #[test]
    fn no_link_is_overfull_and_each_flow_has_a_full_one(mut fabric in fabrics(), drawn in coflows()) {
        let coflows = on(&mut fabric, &drawn);
        for name in names() {
            let rates_bps = by_name(name).rates(&coflows, &fabric);
            let used = used(&fabric, &coflows, &rates_bps);
            for (used, rate) in used.iter().zip(fabric.rates_bps()) {
                prop_assert!(*used <= rate * (1.0 + 1e-6), "{name}: {used} of {rate}");
            }
            for (flow, rate) in coflows.iter().flat_map(|coflow| &coflow.flows).zip(&rates_bps) {
                let full = |&link: &u32| used[link as usize] >= fabric.rates_bps()[link as usize] * (1.0 - 1e-6);
                let held = fabric.links(flow.path).iter().any(full);
                prop_assert!(*rate >= 0.0 && (held || *rate == f64::INFINITY), "{name}: {flow:?} at {rate}");
            }
        }
    }

    /// The same coflows and flows in another order, on a fabric whose paths were created in another order.
    #[test]
    fn the_order_of_the_input_decides_nothing(
        (fabric, drawn, turned) in (fabrics(), coflows()).prop_flat_map(|(fabric, drawn)| {
            let places: Vec<usize> = (0..drawn.len()).collect();
            (Just(fabric), Just(drawn), Just(places).prop_shuffle())
        }),
    ) {
        let (mut one, mut other) = (fabric.clone(), fabric);
        let straight = on(&mut one, &drawn);
        let back: Vec<Drawn> = turned.iter().map(|&at| {
            let mut coflow = drawn[at].clone();
            coflow.4.reverse();
            coflow
        }).collect();
        let mut turned_over = on(&mut other, &back);
        for (coflow, &at) in turned_over.iter_mut().zip(&turned) {
            coflow.number = at as u64;
        }
        for name in names() {
            let rates_bps = by_name(name).rates(&straight, &one);
            let expected = split(&straight, &rates_bps);
            let found_bps = by_name(name).rates(&turned_over, &other);
            for (found, &at) in split(&turned_over, &found_bps).into_iter().zip(&turned) {
                for (found, expected) in found.iter().rev().zip(expected[at]) {
                    let near = (found - expected).abs() <= 1e-6 * expected.max(1e-3) || found == expected; // both may be infinite
                    prop_assert!(near, "{name}: {found} and {expected}");
                }
            }
        }
    }

    #[test]
    fn all_have_one_place_in_the_order_and_the_input_decides_none(
        mut fabric in fabrics(), drawn in coflows(), turn in 0_usize..8,
    ) {
        let coflows = on(&mut fabric, &drawn);
        let mut turned = coflows.clone();
        turned.rotate_left(turn % coflows.len());
        for name in names() {
            let numbers = |coflows: &[Coflow]| -> Vec<u64> {
                let order = by_name(name).order(coflows, &fabric);
                order.into_iter().map(|at| coflows[at].number).collect()
            };
            let order = numbers(&coflows);
            prop_assert_eq!(&order, &numbers(&turned), "{}", name);
            prop_assert_eq!(order.iter().collect::<std::collections::BTreeSet<_>>().len(), coflows.len());
        }
    }

    #[test]
    fn the_first_by_arrival_is_as_fast_as_alone(mut fabric in fabrics(), drawn in coflows()) {
        let coflows = on(&mut fabric, &drawn);
        let rates_bps = by_name("fifo").rates(&coflows, &fabric);
        let first = (0..coflows.len()).min_by_key(|&at| (coflows[at].arrival_s as u64, at)).expect("one");
        let seconds = alone_s(&fabric, &coflows[first]);
        for (flow, rate) in coflows[first].flows.iter().zip(split(&coflows, &rates_bps)[first]) {
            let enough = !limited(&fabric, flow) || *rate >= 8.0 * flow.left_bytes / seconds * (1.0 - 1e-9);
            prop_assert!(enough, "{flow:?} at {rate}");
        }
    }

    /// On one link, later coflows take nothing from earlier ones.
    #[test]
    fn one_link_serves_one_after_the_other(arrivals in prop::collection::vec(0_u32..4, 1..8)) {
        let mut fabric = Fabric::uniform(PORTS, bps(8));
        let drawn: Vec<Drawn> = arrivals.iter().map(|&arrival| (arrival, 0, 1.0, 0.0, vec![(0, 1, 3.0)])).collect();
        let coflows = on(&mut fabric, &drawn);
        let first = (0..arrivals.len()).min_by_key(|&at| (arrivals[at], at)).expect("one");
        let rates_bps = by_name("fifo").rates(&coflows, &fabric);
        for (at, rate) in rates_bps.iter().enumerate() {
            prop_assert_eq!(*rate > 0.0, at == first);
        }
    }

    #[test]
    fn none_starves_where_that_is_promised(mut fabric in fabrics(), drawn in coflows()) {
        let coflows = on(&mut fabric, &drawn);
        let rates = |name: &str| by_name(name).rates(&coflows, &fabric);
        for name in ["fair", "weighted", "fifo+"] {
            let rates_bps = rates(name);
            for (coflow, rates_bps) in coflows.iter().zip(split(&coflows, &rates_bps)) {
                prop_assert!(moves(&fabric, coflow, rates_bps), "{name}: {coflow:?} at {rates_bps:?}");
            }
        }
        // The first coflow of the lower classes, and the first of each queue.
        let highest = coflows.iter().map(|coflow| coflow.class).min().expect("one");
        let low = (0..coflows.len()).filter(|&at| coflows[at].class > highest);
        let low = low.min_by_key(|&at| (coflows[at].class, coflows[at].arrival_s as u64, at));
        let rates_bps = rates("priority");
        prop_assert!(low.is_none_or(|at| moves(&fabric, &coflows[at], split(&coflows, &rates_bps)[at])));
        let queue = |at: usize| (0..9).find(|&q| coflows[at].sent_bytes < 1e7 * 10_f64.powi(q)).unwrap_or(9);
        let rates_bps = rates("d-clas");
        for at in 0..coflows.len() {
            let before = |other: usize| {
                queue(other) == queue(at) && (coflows[other].arrival_s as u64, other) < (coflows[at].arrival_s as u64, at)
            };
            let first = !(0..coflows.len()).any(before);
            prop_assert!(!first || moves(&fabric, &coflows[at], split(&coflows, &rates_bps)[at]));
        }
    }
}

/// Coflows of one flow each from port 0, with the given bytes.
fn in_line(bytes: &[f64]) -> (Fabric, Vec<Coflow>) {
    let mut fabric = Fabric::uniform(PORTS, bps(8));
    let drawn: Vec<Drawn> = bytes
        .iter()
        .map(|&bytes| (0, 0, 1.0, 0.0, vec![(0, 1, bytes)]))
        .collect();
    let coflows = on(&mut fabric, &drawn);
    (fabric, coflows)
}

#[test]
fn the_least_goes_first() {
    let (fabric, coflows) = in_line(&[3.0, 1.0, 2.0]);
    for name in ["scf", "sebf", "bssi"] {
        assert_eq!(by_name(name).rates(&coflows, &fabric), [0.0, 8.0, 0.0], "{name}");
    }
    for name in ["fifo", "priority"] {
        assert_eq!(by_name(name).rates(&coflows, &fabric), [8.0, 0.0, 0.0], "{name}");
    }
}

#[test]
fn small_and_short_are_not_the_same() {
    let mut fabric = Fabric::uniform(PORTS, bps(8));
    // Six bytes in all over three ports, compared with four over one; they share port 0.
    let wide = (0, 0, 1.0, 0.0, vec![(0, 3, 2.0), (1, 4, 2.0), (2, 5, 2.0)]);
    let narrow = (0, 0, 1.0, 0.0, vec![(0, 1, 4.0)]);
    let coflows = on(&mut fabric, &[wide, narrow]);
    assert_eq!(by_name("scf").rates(&coflows, &fabric), [0.0, 8.0, 8.0, 8.0]);
    assert_eq!(by_name("sebf").rates(&coflows, &fabric), [8.0, 8.0, 8.0, 0.0]);
}

#[test]
fn weights_decide_the_order_of_bssi_and_the_shares_of_weighted() {
    let (fabric, mut coflows) = in_line(&[3.0, 1.0]);
    coflows[0].weight = 4.0;
    assert_eq!(by_name("bssi").rates(&coflows, &fabric), [8.0, 0.0]);
    let rates_bps = by_name("weighted").rates(&coflows, &fabric);
    assert!(
        (rates_bps[0] - 6.4).abs() < 1e-12 && (rates_bps[1] - 1.6).abs() < 1e-12,
        "{rates_bps:?}"
    );
}

#[test]
fn what_was_sent_sinks() {
    let (fabric, mut coflows) = in_line(&[3.0, 1.0]);
    coflows[0].sent_bytes = 9e6;
    let d_clas = DClas::default();
    let rates_bps = d_clas.rates(&coflows, &fabric);
    // Both are in the first queue, and therefore in order of arrival.
    assert_eq!(rates_bps, [8.0, 0.0]);
    assert!((d_clas.again_s(&coflows, &rates_bps) - 1e6).abs() < 1e-3);
    coflows[0].sent_bytes = 10e6;
    let rates_bps = d_clas.rates(&coflows, &fabric);
    assert!((rates_bps[0] - 8.0 * 9.0 / 19.0).abs() < 1e-9 && (rates_bps[1] - 8.0 * 10.0 / 19.0).abs() < 1e-9);
}

#[test]
fn there_is_no_other_policy() {
    assert!(policy("lifo").is_none());
    assert_eq!(names().count(), 10);
}
