//! Rings worked out by hand, and properties of all rings.

use std::collections::HashMap;

use gavotte_collective::{Costs, Ring, RingOperation, ring_time, search_ring};
use gavotte_net::Volume;
use proptest::prelude::*;

/// Hosts limited by their own caps: a byte takes each sender a fixed time, whichever host receives it.
fn hoses(per_byte_s: &[f64]) -> Costs {
    let hosts = per_byte_s.len();
    let rows = per_byte_s.iter().flat_map(|&each| std::iter::repeat_n(each, hosts));
    Costs::new(hosts, vec![0.0; hosts * hosts], rows.collect()).unwrap()
}

const BLOCKS: RingOperation = RingOperation {
    bytes: 12.0,
    segments: 1,
    reduce: false,
};
const VECTORS: RingOperation = RingOperation { reduce: true, ..BLOCKS };

#[test]
fn a_plain_ring_takes_as_long_as_its_slowest_pair() {
    let costs = hoses(&[1.0, 2.0, 5.0, 1.0]);
    let ring = Ring::by_rank(4).unwrap();
    assert!((ring_time(&costs, &ring, BLOCKS).unwrap() - 3.0 * 12.0 * 5.0).abs() < 1e-9);
    assert!((ring_time(&costs, &ring, VECTORS).unwrap() - 6.0 * 3.0 * 5.0).abs() < 1e-9);
}

#[test]
fn a_host_that_hangs_sends_its_own_alone() {
    // The third host is a leaf of the first. The first sends two blocks around the ring and three down; the third sends
    // one up.
    let costs = hoses(&[1.0, 2.0, 5.0, 2.0]);
    let ring = Ring::new(vec![0, 1, 3], vec![vec![2], vec![], vec![]]).unwrap();
    assert_eq!((ring.order(), ring.parents()), (vec![0, 1, 3, 2], vec![0, 0, 0, 1]));
    // The third host's block arrives after 60 s. The first host passes it on twice (60 s up, 12 s for each further
    // hop). By then the last other block, host 1's by way of host 3, has arrived.
    let found_s = ring_time(&costs, &ring, BLOCKS).unwrap();
    assert!(found_s < 3.0 * 12.0 * 5.0, "{found_s}");
    assert!(found_s >= 60.0 + 12.0, "{found_s}");
    let plain_s = ring_time(&costs, &Ring::by_rank(4).unwrap(), VECTORS).unwrap();
    assert!(ring_time(&costs, &ring, VECTORS).unwrap() < plain_s);
}

#[test]
fn the_search_hangs_the_slow_from_the_fast() {
    let costs = hoses(&[1.0, 1.0, 9.0, 4.0, 1.0, 4.0]);
    for operation in [BLOCKS, VECTORS] {
        let answer = search_ring(
            &costs,
            RingOperation {
                segments: 4,
                ..operation
            },
            4000,
            3,
        )
        .unwrap();
        let plain_s = ring_time(&costs, &Ring::by_rank(6).unwrap(), operation).unwrap();
        assert!(!answer.ring.members().contains(&2), "{:?}", answer.ring);
        assert!(answer.seconds < 0.7 * plain_s, "{} {plain_s}", answer.seconds);
    }
}

#[test]
fn near_hosts_come_side_by_side() {
    // Two hosts of each machine are near each other; any ring that enters a machine twice has a longer mean.
    let machine = [0, 1, 2, 0, 1, 2];
    let pairs = (0..36).map(|at| if machine[at / 6] == machine[at % 6] { 0.01 } else { 1.0 });
    let costs = Costs::new(6, vec![0.0; 36], pairs.collect()).unwrap();
    let answer = search_ring(&costs, BLOCKS, 4000, 1).unwrap();
    let order = answer.ring.members();
    let entered = (0..order.len()).filter(|&at| machine[order[at]] != machine[order[(at + 1) % order.len()]]);
    assert_eq!(entered.count(), 3, "{order:?}");
}

#[test]
fn pairs_that_cannot_be_used_are_not() {
    let mut seconds = vec![1.0; 16];
    for at in [1, 6, 11, 12] {
        seconds[at] = f64::INFINITY;
    }
    let costs = Costs::new(4, seconds, vec![0.0; 16]).unwrap();
    assert!(search_ring(&costs, BLOCKS, 2000, 1).unwrap().seconds.is_finite());
    let none = Costs::new(2, vec![f64::INFINITY; 4], vec![0.0; 4]).unwrap();
    assert!(search_ring(&none, BLOCKS, 10, 1).is_err());
}

#[test]
fn no_rings() {
    assert!(Ring::new(vec![], vec![]).is_err());
    assert!(Ring::new(vec![0, 0], vec![vec![], vec![]]).is_err());
    assert!(Ring::new(vec![0, 2], vec![vec![], vec![]]).is_err());
    assert!(Ring::new(vec![0], vec![]).is_err());
    assert!(
        Ring::from_parents(&[0, 0, 1], &[0, 1, 2], 1).is_err(),
        "2 hangs from 1, which hangs"
    );
    assert!(Ring::from_parents(&[0, 0], &[0, 1], 3).is_err());
    assert!(Ring::from_parents(&[0, 0], &[0, 7], 1).is_err());
    assert!(ring_time(&hoses(&[1.0, 1.0]), &Ring::by_rank(3).unwrap(), BLOCKS).is_err());
    assert!(search_ring(&hoses(&[1.0]), RingOperation { bytes: -1.0, ..BLOCKS }, 1, 1).is_err());
}

fn random_ring() -> impl Strategy<Value = (Costs, Ring)> {
    (1_usize..9).prop_flat_map(|hosts| {
        let matrix = |most: f64| prop::collection::vec(0.0..most, hosts * hosts);
        let order = Just((0..hosts).collect::<Vec<_>>()).prop_shuffle();
        let above = prop::collection::vec(0..hosts, hosts);
        (matrix(0.01), matrix(1e-6), order, 1..=hosts, above).prop_map(
            move |(alpha_s, per_byte_s, order, members, above)| {
                let mut hung = vec![Vec::new(); members];
                for &host in &order[members..] {
                    hung[above[host] % members].push(host);
                }
                let costs = Costs::new(hosts, alpha_s, per_byte_s).unwrap();
                (costs, Ring::new(order[..members].to_vec(), hung).unwrap())
            },
        )
    })
}

/// A host, and its sends in order: (block, piece, receiver).
type Queue = (usize, Vec<(usize, usize, usize)>);

fn sent(ring: &Ring, pieces: usize) -> Vec<Queue> {
    let members = ring.members();
    let mut all = Vec::new();
    for (place, &member) in members.iter().enumerate() {
        let mut list = Vec::new();
        for step in 0..members.len() {
            let origin = (place + members.len() - step) % members.len();
            let group = std::iter::once(members[origin]).chain(ring.hung(origin).iter().copied());
            for block in group {
                for piece in 0..pieces {
                    if step + 1 < members.len() {
                        list.push((block, piece, members[(place + 1) % members.len()]));
                    }
                    let below = ring.hung(place).iter().filter(|&&host| host != block);
                    list.extend(below.map(|&host| (block, piece, host)));
                }
            }
        }
        all.push((member, list));
        for &host in ring.hung(place) {
            all.push((host, (0..pieces).map(|piece| (host, piece, member)).collect()));
        }
    }
    all
}

proptest! {
    #[test]
    fn the_evaluator_is_the_replay((costs, ring) in random_ring(), bytes in 0.0..1e6, segments in 1_u32..4) {
        let (hosts, pieces) = (ring.hosts(), segments as usize);
        let mut arrived_s: HashMap<(usize, usize, usize), f64> =
            (0..hosts).flat_map(|host| (0..pieces).map(move |piece| ((host, host, piece), 0.0))).collect();
        let mut queues = sent(&ring, pieces);
        for (_, list) in &mut queues {
            list.reverse();
        }
        let mut free = vec![0.0_f64; hosts];
        // Each host that has its next block sends it; the order in which hosts are processed does not matter.
        while queues.iter().any(|(_, list)| !list.is_empty()) {
            let mut moved = false;
            for (host, list) in &mut queues {
                while let Some(&(block, piece, to)) = list.last() {
                    let Some(&came) = arrived_s.get(&(*host, block, piece)) else { break };
                    free[*host] = free[*host].max(came) + costs.busy_s(*host, to, Volume(bytes / f64::from(segments)));
                    let arrives_s = free[*host] + costs.latency_s(*host, to);
                    prop_assert!(arrived_s.insert((to, block, piece), arrives_s).is_none(), "sent twice");
                    list.pop();
                    moved = true;
                }
            }
            prop_assert!(moved, "all wait for each other");
        }
        prop_assert_eq!(arrived_s.len(), hosts * hosts * pieces, "everybody has everything");
        let replayed = arrived_s.values().fold(0.0_f64, |most, &each| most.max(each));
        let predicted = ring_time(&costs, &ring, RingOperation { bytes, segments, reduce: false }).unwrap();
        prop_assert!((predicted - replayed).abs() <= 1e-9 * replayed.max(1.0), "{predicted} {replayed}");
    }

    #[test]
    fn the_search_never_loses_to_the_ring_by_rank(
        (costs, _) in random_ring(), bytes in 0.0..1e6, reduce: bool, seed: u64,
    ) {
        let operation = RingOperation { bytes, segments: 4, reduce };
        let answer = search_ring(&costs, operation, 400, seed).unwrap();
        let plain = ring_time(&costs, &Ring::by_rank(costs.hosts()).unwrap(), RingOperation { segments: 1, ..operation }).unwrap();
        prop_assert!(answer.seconds <= plain);
        let again = ring_time(&costs, &answer.ring, RingOperation { segments: answer.segments, ..operation }).unwrap();
        prop_assert!((again - answer.seconds).abs() <= 1e-12 * again);
        let twin = search_ring(&costs, operation, 400, seed).unwrap();
        prop_assert_eq!(&twin.ring, &answer.ring);
        let (parent, order) = (answer.ring.parents(), answer.ring.order());
        prop_assert_eq!(Ring::from_parents(&parent, &order, answer.ring.members().len()).unwrap(), answer.ring);
    }
}
