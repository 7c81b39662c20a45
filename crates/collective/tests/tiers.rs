//! Trees of more ranks than have a list of their pairs.

use std::sync::Arc;

use gavotte_collective::{LISTED_RANKS, Ranks, Tree, TreeError, TreeOperation, binomial, fnf, time};
use gavotte_net::{BitsPerSec, Group, Host, Network, NetworkParts, Sharing, Volume};

const RACK_HOSTS: usize = 32;
const MANY: usize = LISTED_RANKS + 100;

/// Hosts of 8 Mbit/s that take turns in racks, each behind a link of this rate.
fn network(hosts: usize, up_bps: f64) -> Arc<Network> {
    let racks = hosts.div_ceil(RACK_HOSTS);
    let cap = BitsPerSec::new(8e6).unwrap();
    let up = BitsPerSec::new(up_bps).unwrap();
    let host = |machine: usize| Host {
        name: format!("h{machine}"),
        machine,
        egress: cap,
        ingress: cap,
    };
    let rack = |number: usize| Group {
        name: format!("r{number}"),
        members: (number..hosts).step_by(racks).collect(),
        up,
        down: up,
        parent: None,
    };
    let parts = NetworkParts {
        hosts: (0..hosts).map(host).collect(),
        rate_bps: vec![],
        latency_s: vec![],
        groups: (0..racks).map(rack).collect(),
        sharing: Sharing::Groups,
    };
    Arc::new(Network::new(parts).unwrap())
}

fn whole(bytes: f64) -> TreeOperation {
    TreeOperation {
        bytes,
        segments: 1,
        scatter: false,
    }
}

fn by_tiers(ranks: &Ranks, root: usize) -> Result<Tree, TreeError> {
    ranks.built(root, false, |costs, root| fnf(costs, root, Volume(1e6)))
}

#[test]
fn data_enters_each_rack_once() {
    let ranks = Ranks::new(network(MANY, 8e6), (0..MANY).collect()).unwrap();
    let tree = by_tiers(&ranks, 7).unwrap();
    assert_eq!((tree.root(), tree.hosts()), (7, MANY));
    let groups = MANY.div_ceil(RACK_HOSTS);
    let parents = tree.parents();
    let entering = (0..MANY)
        .filter(|&rank| rank % groups != parents[rank] % groups)
        .count();
    assert_eq!(entering, groups - 1);
    let tiers_s = ranks.tree_s(&tree, whole(1e6), false).unwrap();
    let by_rank_s = ranks.tree_s(&binomial(MANY, 7).unwrap(), whole(1e6), false).unwrap();
    assert!(tiers_s < by_rank_s / 2.0, "{tiers_s} s by tiers, {by_rank_s} s by rank");
    assert!(by_tiers(&ranks, MANY).is_err());
}

#[test]
fn costs_are_the_same_listed_and_computed() {
    // The ranks that both networks have are a few in the second, and many in the first.
    let network = network(MANY, 1e6);
    let many = Ranks::new(Arc::clone(&network), (0..MANY).collect()).unwrap();
    let few = Ranks::new(network, (0..100).collect()).unwrap();
    for (source, target) in [(0, 1), (0, 66), (66, 0), (99, 3), (5, 5)] {
        for back in [false, true] {
            let seconds = |ranks: &Ranks| ranks.costs(back).seconds(source, target, Volume(1e6));
            assert!((seconds(&many) - seconds(&few)).abs() < 1e-12);
        }
    }
}

#[test]
fn a_search_is_no_slower_than_its_starts() {
    let ranks = Ranks::new(network(MANY, 4e6), (0..MANY).collect()).unwrap();
    let operation = TreeOperation {
        segments: 16,
        ..whole(1e6)
    };
    let best = ranks.search(0, operation, false, 2000, 0).unwrap();
    let start_s = ranks.tree_s(&by_tiers(&ranks, 0).unwrap(), whole(1e6), false).unwrap();
    assert!(best.seconds <= start_s);
    assert_eq!(best.tree.hosts(), MANY);
}

#[test]
fn ranks_without_groups_are_cut() {
    let parts = network(MANY, 8e6);
    let flat = NetworkParts {
        hosts: parts.hosts().to_vec(),
        rate_bps: vec![],
        latency_s: vec![],
        groups: vec![],
        sharing: Sharing::Hose,
    };
    let ranks = Ranks::new(Arc::new(Network::new(flat).unwrap()), (0..MANY).collect()).unwrap();
    let tree = by_tiers(&ranks, 0).unwrap();
    assert_eq!(tree.order().len(), MANY);
}

/// A list of the costs of 10^10 pairs would take 160 GB.
#[test]
fn memory_grows_with_ranks_not_with_pairs() {
    const HOSTS: usize = 100_000;
    let ranks = Ranks::new(network(HOSTS, 8e6), (0..HOSTS).collect()).unwrap();
    let tree = binomial(HOSTS, 0).unwrap();
    assert!(time(ranks.costs(false), &tree, whole(1e6)).unwrap() > 1.0);
}

#[test]
fn an_unlimited_pair_is_refused_however_many_there_are() {
    let parts = network(MANY, 8e6);
    let mut hosts = parts.hosts().to_vec();
    hosts[3].egress = BitsPerSec::UNLIMITED;
    hosts[MANY - 1].ingress = BitsPerSec::UNLIMITED;
    let open = NetworkParts {
        hosts,
        rate_bps: vec![],
        latency_s: vec![],
        groups: vec![],
        sharing: Sharing::Hose,
    };
    let refused = Ranks::new(Arc::new(Network::new(open).unwrap()), (0..MANY).collect());
    let names = ("h3".to_owned(), format!("h{}", MANY - 1));
    assert!(matches!(&refused, Err(TreeError::UnknownPair(m, n)) if *m == names.0 && *n == names.1));
}
