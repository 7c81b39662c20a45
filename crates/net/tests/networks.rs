//! Networks: refused parts, links, and known rates.

use gavotte_net::{BitsPerSec, Exception, Group, Host, Link, Network, NetworkParts, Sharing, SparseParts};

const MBIT: f64 = 1e6;

fn bps(value: f64) -> BitsPerSec {
    BitsPerSec::new(value).expect("above zero")
}

/// Hosts 0 and 1 on one machine in rack 0 of row 0, 2 alone in rack 1 of the same row, 3 elsewhere.
fn parts() -> NetworkParts {
    let host = |h: usize| Host {
        name: format!("vm{h}"),
        machine: h.max(1),
        egress: bps(4.0 * MBIT),
        ingress: bps(2.0 * MBIT),
    };
    let group = |name: &str, members: &[usize], parent| Group {
        name: name.into(),
        members: members.to_vec(),
        up: bps(MBIT),
        down: bps(MBIT),
        parent,
    };
    NetworkParts {
        hosts: (0..4).map(host).collect(),
        rate_bps: vec![8.0 * MBIT; 16],
        latency_s: Vec::new(),
        groups: vec![
            group("rack0", &[0, 1], Some(2)),
            group("rack1", &[2], Some(2)),
            group("row0", &[], None),
        ],
        sharing: Sharing::Groups,
    }
}

#[test]
fn each_sharing_model_adds_links() {
    let names = |sharing, m, n| {
        let network = Network::new(NetworkParts { sharing, ..parts() }).expect("sound");
        let mut names = Vec::new();
        network.for_each_link(m, n, |link| names.push(network.link_name(link)));
        names
    };
    assert_eq!(names(Sharing::Pipe, 0, 3), ["path from vm0 to vm3"]);
    let hose = ["path from vm0 to vm3", "egress of vm0", "ingress of vm3"];
    assert_eq!(names(Sharing::Hose, 0, 3), hose);
    let out = [hose[0], hose[1], "up link of rack0", "up link of row0", hose[2]];
    assert_eq!(names(Sharing::Groups, 0, 3), out);
    let across = names(Sharing::Groups, 0, 2);
    assert_eq!(across[2..4], ["up link of rack0", "down link of rack1"]);
    for sharing in [Sharing::Pipe, Sharing::Hose, Sharing::Groups] {
        assert_eq!(names(sharing, 0, 1), ["path from vm0 to vm1"]);
        assert!(names(sharing, 2, 2).is_empty());
    }
}

#[test]
fn links_and_their_numbers_match() {
    let network = Network::new(parts()).expect("sound");
    for index in 0..network.link_count() {
        assert_eq!(network.link_index(network.link(index)), index);
    }
    assert_eq!(network.link(network.first_pair()), Link::Pair { source: 0, target: 0 });
}

#[test]
fn without_a_matrix_only_caps_and_groups_are_links() {
    let network = Network::new(NetworkParts {
        rate_bps: Vec::new(),
        ..parts()
    })
    .expect("sound");
    let mut names = Vec::new();
    network.for_each_link(0, 3, |link| names.push(network.link_name(link)));
    assert_eq!(
        names,
        ["egress of vm0", "up link of rack0", "up link of row0", "ingress of vm3"]
    );
    network.for_each_link(0, 1, |link| panic!("{link:?} within a machine"));
    assert_eq!((network.link_count(), network.paired()), (network.first_pair(), false));
    assert_eq!(network.known_rate(0, 3), None);
    assert_eq!(
        (network.members(2), network.holds(2, 2), network.holds(1, 0)),
        (&[0, 1, 2][..], true, false)
    );
    assert_eq!((network.colocated_count(0), network.colocated_count(3)), (2, 1));
}

#[test]
fn a_pair_as_fast_as_a_cap_never_decides() {
    let mut parts = parts();
    (parts.rate_bps[3], parts.rate_bps[2], parts.rate_bps[4]) = (MBIT, 2.0 * MBIT, f64::NAN);
    let network = Network::new(parts).expect("sound");
    let decides = |source, target| network.decides(Link::Pair { source, target });
    assert!(decides(0, 3) && decides(0, 1), "slower than both caps, and past them");
    assert!(!decides(0, 2) && !decides(1, 0), "as fast as a cap, and unknown");
    assert!(network.decides(Link::Egress(0)) && network.decides(Link::Up(2)));
}

#[test]
fn what_is_unknown_is_neither_unlimited_nor_near() {
    let mut parts = parts();
    (parts.rate_bps[1], parts.rate_bps[2]) = (f64::NAN, f64::INFINITY);
    parts.latency_s = vec![0.25; 16];
    parts.latency_s[1] = f64::NAN;
    let network = Network::new(parts).expect("sound");
    assert_eq!(network.known_rate(0, 1), None);
    assert_eq!(network.pair_rate(0, 1), BitsPerSec::UNLIMITED);
    assert_eq!(network.known_rate(0, 2), Some(BitsPerSec::UNLIMITED));
    assert_eq!((network.latency_s(0, 1), network.latency_s(0, 2)), (None, Some(0.25)));
    assert_eq!(
        (network.known_rate(1, 1), network.latency_s(1, 1)),
        (Some(BitsPerSec::UNLIMITED), Some(0.0))
    );
}

#[test]
fn mistakes_are_named() {
    let refused = |spoil: &dyn Fn(&mut NetworkParts)| {
        let mut parts = parts();
        spoil(&mut parts);
        Network::new(parts).expect_err("a mistake").to_string()
    };
    let wrong = "the rate from `vm0` to `vm1` is 0; it must be above zero bit/s (infinity means unlimited)";
    assert_eq!(refused(&|parts| parts.rate_bps[1] = 0.0), wrong);
    assert_eq!(
        refused(&|parts| parts.rate_bps.truncate(15)),
        "the rate matrix has 15 entries, but 16 are needed"
    );
    assert!(refused(&|parts| parts.latency_s = vec![0.0; 3]).starts_with("the latency matrix has 3 entries"));
    assert!(refused(&|parts| parts.latency_s = vec![-1.0; 16]).contains("from `vm0` to `vm1` is -1"));
    assert_eq!(refused(&|parts| parts.hosts.clear()), "there are no hosts");
    assert_eq!(
        refused(&|parts| parts.groups[1].members[0] = 4),
        "a member of group `rack1` is 4, but there are only 4"
    );
    assert_eq!(
        refused(&|parts| parts.groups[2].parent = Some(3)),
        "the parent of group `row0` is 3, but there are only 3"
    );
    assert_eq!(
        refused(&|parts| parts.groups[2].parent = Some(0)),
        "group `rack0` is its own ancestor"
    );
    let unknown = "star".parse::<Sharing>().expect_err("unknown").to_string();
    assert_eq!(unknown, "there is no sharing model `star`; use hose, pipe or groups");
    assert_eq!("hose".parse(), Ok(Sharing::Hose));
}

#[test]
fn buckets_are_on_the_way_between_machines() {
    let with = |bursts| Network::new(parts()).expect("sound").with_bursts(bursts);
    let burst = |depth: f64, peak: f64| Some((depth, bps(peak * MBIT)));
    let network = with(vec![burst(9e3, 8.0), burst(9e3, 8.0), burst(5e3, 4.1), burst(1e6, 8.0)]).expect("sound");
    let [out, into] = network.buckets(0, 2).expect("known");
    assert_eq!((out.depth_bytes, into.depth_bytes), (9e3, 5e3));
    assert_eq!((out.fill, into.fill), (bps(4.0 * MBIT), bps(2.0 * MBIT)));
    assert_eq!(out.peak, bps(8.0 * MBIT));
    // A peak at the fill rate is a burst that was too short to time.
    let [slow, _] = network.buckets(2, 0).expect("known");
    assert_eq!(slow.peak, BitsPerSec::UNLIMITED);
    // A megabyte is two seconds at this rate: a credit.
    assert_eq!(network.buckets(0, 3), None);
    assert_eq!(network.buckets(0, 1), None);
    assert_eq!(Network::new(parts()).expect("sound").buckets(0, 2), None);
    assert!(with(vec![None; 3]).is_err());
    assert!(with(vec![None, None, None, burst(-1.0, 8.0)]).is_err());
}

/// The parts without matrices: half a round trip of a host to its rack is `vm`'s number in ms, a rack adds 10 ms.
fn sparse() -> Network {
    let exception = |source, target, rate_bps, latency_s| Exception {
        source,
        target,
        rate_bps,
        latency_s,
    };
    let sparse = SparseParts {
        host_latency_s: vec![0.001, 0.002, 0.003, f64::NAN],
        group_latency_s: vec![0.01, 0.01, 0.1],
        exceptions: vec![
            exception(2, 0, 0.5 * MBIT, f64::NAN),
            exception(0, 3, f64::NAN, 0.5),
            exception(0, 1, 16.0 * MBIT, f64::NAN),
        ],
    };
    let network = Network::new(parts_without_matrix()).expect("sound");
    network.with_sparse(sparse).expect("sound")
}

#[test]
fn latencies_of_a_tree_add_up() {
    let network = sparse();
    let latency_s = |m, n| network.latency_s(m, n).map(|seconds| (seconds * 1e6).round() / 1e6);
    assert_eq!(latency_s(0, 1), Some(0.003));
    assert_eq!(latency_s(0, 2), Some(0.014), "left one rack, and stayed in the row");
    assert_eq!(latency_s(0, 3), Some(0.5), "an exception");
    assert_eq!(latency_s(1, 3), None, "unknown is not near");
    assert_eq!(latency_s(3, 3), Some(0.0));
}

#[test]
fn without_a_matrix_exceptions_are_links() {
    let network = sparse();
    let names = |m, n| {
        let mut names = Vec::new();
        network.for_each_link(m, n, |link| names.push(network.link_name(link)));
        names
    };
    assert_eq!(names(2, 0)[0], "path from vm2 to vm0");
    assert_eq!(names(2, 1)[0], "egress of vm2");
    assert_eq!(names(0, 1), ["path from vm0 to vm1"]);
    let rates = [(2, 0), (0, 3), (2, 1)].map(|(m, n)| network.known_rate(m, n));
    assert_eq!(rates, [Some(bps(0.5 * MBIT)), None, None]);
    assert_eq!(network.link_count(), network.first_pair() + 3);
    for index in 0..network.link_count() {
        assert_eq!(network.link_index(network.link(index)), index);
    }
    assert_eq!(
        network.link_index(Link::Pair { source: 1, target: 2 }),
        network.link_count()
    );
    assert!(network.decides(Link::Pair { source: 2, target: 0 }));
    assert!(!network.decides(Link::Pair { source: 0, target: 3 }));
}

#[test]
fn mistakes_in_a_tree_are_named() {
    let refused = |parts: SparseParts| {
        let network = Network::new(parts_without_matrix()).expect("sound");
        network.with_sparse(parts).expect_err("a mistake").to_string()
    };
    let few = SparseParts {
        host_latency_s: vec![0.0; 3],
        ..SparseParts::default()
    };
    assert_eq!(refused(few), "the latencies of hosts has 3 entries, but 4 are needed");
    let exception = |target, latency_s| SparseParts {
        exceptions: vec![Exception {
            source: 0,
            target,
            rate_bps: f64::NAN,
            latency_s,
        }],
        ..SparseParts::default()
    };
    assert_eq!(
        refused(exception(4, 0.1)),
        "a host of an exception is 4, but there are only 4"
    );
    assert_eq!(
        refused(exception(1, -0.1)),
        "the latency from `vm0` to `vm1` is -0.1; it must be from zero seconds, and finite"
    );
}

fn parts_without_matrix() -> NetworkParts {
    NetworkParts {
        rate_bps: Vec::new(),
        ..parts()
    }
}
