//! Shuffles, checked with Fig. 13 of the Orchestra paper and with the bound's definition.

#![allow(clippy::float_cmp, reason = "exact by construction")]

use std::sync::Arc;

use gavotte_net::{BitsPerSec, Group, Host, Network, NetworkParts, Sharing};
use gavotte_swarm::{Fabric, Path, shuffle};
use proptest::prelude::*;

fn bps(value: f64) -> BitsPerSec {
    BitsPerSec::new(value).expect("above zero")
}

/// Two receivers, each with `private` senders of one byte, and one sender of `private` bytes to each receiver.
fn figure_13(private: usize) -> (Fabric, Vec<(Path, f64)>) {
    let shared = 2 * private;
    let receivers = [shared + 1, shared + 2];
    let mut fabric = Fabric::uniform(shared + 3, bps(8.0));
    let mut flows = Vec::new();
    for (number, receiver) in receivers.into_iter().enumerate() {
        flows.extend((0..private).map(|at| (fabric.path(number * private + at, receiver), 1.0)));
        flows.push((fabric.path(shared, receiver), private as f64));
    }
    (fabric, flows)
}

#[test]
fn weighted_shuffles_take_what_the_paper_predicts() {
    for (private, seconds) in [(2, 4.0), (3, 6.0), (4, 8.0)] {
        let (fabric, flows) = figure_13(private);
        let (rates_bps, bound) = shuffle::rates(&fabric, &flows);
        assert!((bound.seconds - seconds).abs() < 1e-12);
        for ((_, bytes), rate) in flows.iter().zip(rates_bps) {
            assert!((8.0 * bytes / rate - seconds).abs() < 1e-12);
        }
    }
}

#[test]
fn racks_machines_and_pairs_bind_too() {
    let host = |h: usize| Host {
        name: format!("vm{h}"),
        machine: h.max(1),
        egress: bps(1000.0),
        ingress: BitsPerSec::UNLIMITED,
    };
    let mut rate_bps = vec![f64::INFINITY; 16];
    rate_bps[1] = 100.0;
    let rack = Group {
        name: "rack0".into(),
        members: vec![0, 1],
        up: bps(400.0),
        down: BitsPerSec::UNLIMITED,
        parent: None,
    };
    let network = Network::new(NetworkParts {
        hosts: (0..4).map(host).collect(),
        rate_bps,
        latency_s: Vec::new(),
        groups: vec![rack],
        sharing: Sharing::Groups,
    });
    let mut fabric = Fabric::network(Arc::new(network.expect("sound")));
    let flows = [(0, 2, 50.0), (1, 3, 100.0), (0, 1, 5.0), (2, 2, 9.0)];
    let flows: Vec<_> = flows.map(|(m, n, bytes)| (fabric.path(m, n), bytes)).into();
    let (shares, bound) = shuffle::rates(&fabric, &flows);
    assert_eq!(bound.seconds, 3.0);
    assert_eq!(fabric.link_name(bound.link.expect("limited")), "up link of rack0");
    assert_eq!(shares[2], 40.0 / 3.0);
    assert_eq!(shares[3], f64::INFINITY);
    // Within the machine only the pair's rate counts.
    let near = shuffle::bound(&fabric, [flows[2]]);
    assert_eq!(near.seconds, 0.4);
    assert_eq!(fabric.link_name(near.link.expect("limited")), "path from vm0 to vm1");
}

#[test]
fn nothing_to_send_takes_no_time() {
    let mut fabric = Fabric::uniform(2, bps(8.0));
    let path = fabric.path(0, 1);
    let (rates_bps, bound) = shuffle::rates(&fabric, &[(path, 0.0)]);
    assert_eq!((rates_bps, bound.seconds, bound.link), (vec![0.0], 0.0, None));
    assert_eq!(shuffle::rates(&fabric, &[]).1.link, None);
}

proptest! {
    #[test]
    fn the_slowest_link_is_full_and_none_overfull(
        flows in prop::collection::vec((0_usize..5, 0_usize..5, 1_u32..1000), 1..40),
        rates in prop::collection::vec(1_u32..9, 5),
    ) {
        let rates: Vec<_> = rates.into_iter().map(|rate| bps(f64::from(rate))).collect();
        let mut fabric = Fabric::ports(rates.clone(), rates);
        let flows: Vec<_> = flows.into_iter().map(|(m, n, bytes)| (fabric.path(m, n), f64::from(bytes))).collect();
        let (rates_bps, bound) = shuffle::rates(&fabric, &flows);
        let mut used = vec![0.0; fabric.rates_bps().len()];
        for ((path, _), rate) in flows.iter().zip(&rates_bps) {
            fabric.links(*path).iter().for_each(|&link| used[link as usize] += rate);
        }
        for (used, rate) in used.iter().zip(fabric.rates_bps()) {
            prop_assert!(*used <= rate * (1.0 + 1e-9));
        }
        let link = bound.link.expect("limited") as usize;
        prop_assert!(used[link] >= fabric.rates_bps()[link] * (1.0 - 1e-9));
    }
}
