//! Paths through multi-rooted trees.

use std::collections::{BTreeMap, BTreeSet};

use gavotte_fluid::{FluidError, LinkId, Machine, Platform, Switch, Topology, TopologyParts, Uplink};
use gavotte_net::{BitsPerSec, Host};
use proptest::prelude::*;

use crate::support::bps;

/// A fat-tree of `k`-port switches (Al-Fares et al., SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches,
/// (k/2)^2 cores, k^3/4 hosts.
fn fat_tree(k: usize, seed: u64) -> TopologyParts {
    let half = k / 2;
    let cores = half * half;
    let up = |parent| Uplink {
        parent,
        up: bps(1e9),
        down: bps(1e9),
        latency_s: 0.0,
    };
    let mut switches: Vec<Switch> = (0..cores)
        .map(|c| Switch {
            name: format!("core{c}"),
            uplinks: Vec::new(),
        })
        .collect();
    for pod in 0..k {
        for a in 0..half {
            let uplinks = (0..half).map(|c| up(a * half + c)).collect();
            switches.push(Switch {
                name: format!("agg{pod}.{a}"),
                uplinks,
            });
        }
        let first = switches.len() - half;
        for e in 0..half {
            let uplinks = (0..half).map(|a| up(first + a)).collect();
            switches.push(Switch {
                name: format!("edge{pod}.{e}"),
                uplinks,
            });
        }
    }
    let edge = |h: usize| cores + (h / cores) * k + half + (h % cores) / half;
    let machine = |h| Machine {
        name: format!("m{h}"),
        switch: edge(h),
        rate: bps(1e9),
        machine_rate: BitsPerSec::UNLIMITED,
    };
    let host = |h| Host {
        name: format!("h{h}"),
        machine: h,
        egress: BitsPerSec::UNLIMITED,
        ingress: BitsPerSec::UNLIMITED,
    };
    let hosts = k * cores;
    TopologyParts {
        switches,
        machines: (0..hosts).map(machine).collect(),
        hosts: (0..hosts).map(host).collect(),
        latency_s: Vec::new(),
        seed,
    }
}

fn names(topology: &Topology, source: usize, target: usize, label: u64) -> Vec<String> {
    let mut path: Vec<LinkId> = Vec::new();
    topology.route(source, target, label, &mut path);
    path.retain(|&link| topology.rate(link).is_limited());
    path.into_iter().map(|link| topology.link_name(link)).collect()
}

#[test]
fn equal_ways_are_used_about_equally() {
    let topology = Topology::new(fat_tree(4, 1)).expect("sound");
    let (near, pod, far) = (
        names(&topology, 0, 1, 0),
        names(&topology, 0, 2, 0),
        names(&topology, 0, 15, 0),
    );
    assert_eq!((near.len(), pod.len(), far.len()), (2, 4, 6));
    let mut counts: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for label in 0..4000 {
        *counts.entry(names(&topology, 0, 15, label)).or_default() += 1;
    }
    assert_eq!(counts.len(), 4, "one way through each core");
    for (way, count) in counts {
        // The standard deviation is 27.
        assert!((850..1150).contains(&count), "{count} of 4000 flows take {way:?}");
    }
}

#[test]
fn the_seed_moves_flows() {
    let way = |seed| names(&Topology::new(fat_tree(4, seed)).expect("sound"), 0, 15, 7);
    assert_eq!(way(3), way(3));
    let ways: BTreeSet<_> = (0..40).map(way).collect();
    assert_eq!(ways.len(), 4);
}

#[test]
fn two_links_to_one_switch_are_two_ways() {
    let mut parts = TopologyParts::racks(2, 2, bps(1e9), bps(1e9));
    let second = parts.switches[0].uplinks[0];
    parts.switches[0].uplinks.push(second);
    let topology = Topology::new(parts).expect("sound");
    let used: BTreeSet<LinkId> = (0..50)
        .flat_map(|label| {
            let mut path = Vec::new();
            topology.route(0, 1, label, &mut path);
            path
        })
        .collect();
    assert_eq!(used.len(), 4 + 2 + 1, "hosts and NICs, two ways up, one down");
}

#[test]
fn broken_hierarchies_are_named() {
    let mut parts = TopologyParts::racks(4, 2, bps(1e9), bps(1e9));
    parts.switches[1].uplinks.clear();
    let error = Topology::new(parts.clone()).expect_err("two roots");
    let expected = FluidError::Unreachable {
        source_switch: "rack0".into(),
        target_switch: "rack1".into(),
    };
    assert_eq!(error, expected);
    parts.switches[2].uplinks = vec![Uplink {
        parent: 0,
        up: bps(1.0),
        down: bps(1.0),
        latency_s: 0.0,
    }];
    let error = Topology::new(parts.clone()).expect_err("a circle");
    assert!(matches!(error, FluidError::Circle(_)), "{error}");
    parts.switches[2].uplinks[0].parent = 3;
    let error = Topology::new(parts).expect_err("no switch 3").to_string();
    assert_eq!(error, "the parent of switch `core` is 3, but there are only 3");
}

proptest! {
    #[test]
    fn ways_are_shortest_and_go_up_then_down(source in 0_usize..54, target in 0_usize..54, label in any::<u64>()) {
        let topology = Topology::new(fat_tree(6, 9)).expect("sound");
        let way = names(&topology, source, target, label);
        let hops = match (source, target) {
            (s, t) if s == t => 0,
            (s, t) if s / 3 == t / 3 => 2,
            (s, t) if s / 9 == t / 9 => 4,
            _ => 6,
        };
        prop_assert_eq!(way.len(), hops);
        let switch_links: Vec<&String> = way.iter().filter(|name| name.starts_with("link")).collect();
        for (place, pair) in switch_links.windows(2).enumerate() {
            let end = pair[0].rsplit(' ').next().unwrap_or_default();
            prop_assert!(pair[1].starts_with(&format!("link from {end} ")), "{:?} breaks at {}", way, place);
        }
        let downs = switch_links.iter().map(|name| name.contains(" down to ")).collect::<Vec<_>>();
        prop_assert!(downs.is_sorted());
    }
}
