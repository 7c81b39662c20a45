//! Ranks on networks in which messages share links.

use std::sync::Arc;

use gavotte_collective::{Message, Ranks, Ring, RingOperation, Tree, TreeOperation, exchange};
use gavotte_net::{BitsPerSec, Group, Host, Network, NetworkParts, Sharing};

/// Hosts without known caps, their pairs in bit/s, and each host's rack behind links of `up_bps`.
fn network(rate_bps: Vec<f64>, rack: &[usize], up_bps: f64) -> Arc<Network> {
    let hosts = (0..rack.len()).map(|machine| Host {
        name: format!("h{machine}"),
        machine,
        egress: BitsPerSec::UNLIMITED,
        ingress: BitsPerSec::UNLIMITED,
    });
    let racks = rack.iter().max().map_or(0, |most| most + 1);
    let group = |number: usize| Group {
        name: format!("r{number}"),
        members: (0..rack.len()).filter(|&host| rack[host] == number).collect(),
        up: BitsPerSec::new(up_bps).unwrap(),
        down: BitsPerSec::new(up_bps).unwrap(),
        parent: None,
    };
    let parts = NetworkParts {
        hosts: hosts.collect(),
        rate_bps,
        latency_s: vec![],
        groups: (0..racks).map(group).collect(),
        sharing: Sharing::Groups,
    };
    Arc::new(Network::new(parts).unwrap())
}

fn on(network: &Arc<Network>, hosts: &[usize]) -> Ranks {
    Ranks::new(Arc::clone(network), hosts.to_vec()).unwrap()
}

#[test]
fn an_uplink_is_shared_by_those_that_send_at_once() {
    // 0 sends to 2 first, then to 1. When 1 has it, both 1 and 2 pass it on: 1 to 3 over the uplink, 2 within its own
    // rack.
    let network = network(vec![8e6; 16], &[0, 0, 1, 1], 8e6);
    let ranks = on(&network, &[0, 1, 2, 3]);
    let tree = Tree::new(0, vec![vec![1, 2], vec![3], vec![], vec![]]).unwrap();
    let operation = TreeOperation {
        bytes: 1e6,
        segments: 1,
        scatter: false,
    };
    // After 1 s both flows cross, each at half the uplink's rate. Processors take some microseconds for each message.
    assert!((ranks.tree_s(&tree, operation, false).unwrap() - 3.0).abs() < 1e-3);
    assert!((ranks.tree_s(&tree, operation, true).unwrap() - 3.0).abs() < 1e-3);
}

#[test]
fn ranks_of_a_host_share_its_caps_and_meet_in_memory() {
    let network = network(vec![8e6; 9], &[0, 1, 2], 1e12);
    let ring = RingOperation {
        bytes: 1e6,
        segments: 1,
        reduce: false,
    };
    let alone = on(&network, &[0, 1, 2])
        .ring_s(&Ring::by_rank(3).unwrap(), ring)
        .unwrap();
    assert!((alone - 2.0).abs() < 1e-3, "{alone}");
    // If neighbouring ranks are on one host, the ring crosses once, with three blocks. If they alternate, each host
    // sends two streams at once.
    let neighbouring = on(&network, &[0, 0, 1, 1])
        .ring_s(&Ring::by_rank(4).unwrap(), ring)
        .unwrap();
    let in_turn = on(&network, &[0, 1, 0, 1])
        .ring_s(&Ring::by_rank(4).unwrap(), ring)
        .unwrap();
    assert!((neighbouring - 3.0).abs() < 0.01, "{neighbouring}");
    assert!((in_turn - 6.0).abs() < 0.01, "{in_turn}");
}

#[test]
fn what_hangs_shares_the_way_in() {
    let network = network(vec![8e6; 9], &[0, 1, 2], 1e12);
    let ring = Ring::new(vec![0, 1], vec![vec![2], vec![]]).unwrap();
    let operation = RingOperation {
        bytes: 1e6,
        segments: 1,
        reduce: false,
    };
    // 0 receives from 1 and 2 at the same time. After its own block, it passes 2's block on to 1, and 1's down to 2.
    let seconds = on(&network, &[0, 1, 2]).ring_s(&ring, operation).unwrap();
    assert!((seconds - 4.0).abs() < 1e-3, "{seconds}");
}

#[test]
fn a_blocking_send_returns_early_only_if_it_is_small() {
    // 0 reaches 1 with 0.8 Mbit/s and 2 with 8: small blocks leave at the same time, large ones one after the other.
    let network = network(
        vec![0.0, 8e5, 8e6, 8e6, 0.0, 8e6, 8e6, 8e6, 0.0]
            .into_iter()
            .map(|bps| if bps > 0.0 { bps } else { f64::NAN })
            .collect(),
        &[0, 1, 2],
        1e12,
    );
    let ranks = on(&network, &[0, 1, 2]);
    let tree = Tree::new(0, vec![vec![1, 2], vec![], vec![]]).unwrap();
    // The large one returns when the socket has its last piece: 10 kB after 64 KiB and two pieces of 256 KiB.
    for (bytes, seconds) in [(60_000.0, 0.6), (600_000.0, 6.508)] {
        let operation = TreeOperation {
            bytes,
            segments: 1,
            scatter: false,
        };
        let found_s = ranks.tree_s(&tree, operation, false).unwrap();
        assert!((found_s - seconds).abs() < 1e-3, "{found_s}");
    }
}

#[test]
fn the_time_of_many_pieces_is_extrapolated() {
    let network = network(vec![8e6; 9], &[0, 1, 2], 1e12);
    let ranks = on(&network, &[0, 1, 2]);
    let chain = Tree::new(0, vec![vec![1], vec![2], vec![]]).unwrap();
    let seconds = |segments: u32| {
        let operation = TreeOperation {
            bytes: 100.0 * f64::from(segments),
            segments,
            scatter: false,
        };
        ranks.tree_s(&chain, operation, false).unwrap()
    };
    // 1,000 pieces of the chain are replayed, and 60,000 are not.
    let pace_s = (seconds(60_000) - seconds(1_000)) / 59_000.0;
    assert!((pace_s - 1e-4).abs() < 1e-6, "{pace_s}");
}

#[test]
fn nothing_known_is_an_error() {
    let network = network(vec![f64::NAN; 4], &[0, 1], 1e6);
    assert!(
        Ranks::new(Arc::clone(&network), vec![0, 1]).is_ok(),
        "the racks' links are known"
    );
    assert!(Ranks::new(Arc::clone(&network), vec![0, 7]).is_err());
    assert!(Ranks::new(network, vec![]).is_err());
}

#[test]
fn exchanges_help_and_stay_a_mapping() {
    // Two communicating tasks are on a slow pair; the fast pair is free.
    let mut rate_bps = vec![1.0; 16];
    (rate_bps[2 * 4 + 3], rate_bps[3 * 4 + 2]) = (10.0, 10.0);
    let network = network(rate_bps, &[0, 1, 2, 3], 1e12);
    let ranks = on(&network, &[0, 1, 2, 3]);
    let messages = [Message {
        source: 0,
        target: 1,
        bytes: 10.0,
    }];
    let mut hosts = exchange(&ranks, &messages, vec![0, 2], 100).unwrap();
    hosts.sort_unstable();
    assert_eq!(hosts, [2, 3]);
    assert!(exchange(&ranks, &messages, vec![0, 0], 100).is_err());
    assert!(exchange(&ranks, &messages, vec![0, 9], 100).is_err());
    assert!(exchange(&ranks, &messages, vec![0], 100).is_err());
}

#[test]
fn exchanges_bring_partners_into_one_rack() {
    // Four tasks communicate in pairs across one uplink that all of them share.
    let network = network(vec![8e6; 16], &[0, 0, 1, 1], 8e6);
    let ranks = on(&network, &[0, 1, 2, 3]);
    let messages = [(0, 2), (2, 0), (1, 3), (3, 1)].map(|(source, target)| Message {
        source,
        target,
        bytes: 1e6,
    });
    let hosts = exchange(&ranks, &messages, vec![0, 1, 2, 3], 100).unwrap();
    assert_eq!(hosts[0] / 2, hosts[2] / 2, "{hosts:?}");
    let at = messages.map(|each| Message {
        source: hosts[each.source],
        target: hosts[each.target],
        ..each
    });
    assert!((ranks.messages_s(&at, &[]).unwrap().0 - 1.0).abs() < 1e-6);
    assert!((ranks.messages_s(&messages, &[]).unwrap().0 - 2.0).abs() < 1e-6);
}
