//! Cornets that are played over a network of racks with slow lines between them.

use gavotte_net::{BitsPerSec, Group, Host, Link, Network, NetworkParts, Sharing};

use gavotte_swarm::broadcast::ground::Ground;
use gavotte_swarm::broadcast::layout::Layout;
use gavotte_swarm::broadcast::mechanism::Mechanism;
use gavotte_swarm::broadcast::rehearsal::Rehearsal;

const RACKS: usize = 3;
const RECEIVERS: usize = 30;
const BYTES: u64 = 2_000_000;
const RATE_BPS: f64 = 4.8e6;

/// The source is in the first rack.
fn rack(host: usize) -> usize {
    host.saturating_sub(1) % RACKS
}

fn network() -> Network {
    let rate = BitsPerSec::new(RATE_BPS).unwrap();
    let host = |host: usize| Host {
        name: format!("h{host}"),
        machine: host,
        egress: rate,
        ingress: rate,
    };
    let group = |at: usize| Group {
        name: format!("rack{at}"),
        members: (0..=RECEIVERS).filter(|&host| rack(host) == at).collect(),
        up: rate,
        down: rate,
        parent: None,
    };
    Network::new(NetworkParts {
        hosts: (0..=RECEIVERS).map(host).collect(),
        rate_bps: vec![f64::NAN; (RECEIVERS + 1) * (RECEIVERS + 1)],
        latency_s: vec![],
        groups: (0..RACKS).map(group).collect(),
        sharing: Sharing::Groups,
    })
    .unwrap()
}

#[test]
fn racks_that_are_kept_to_halve_the_time() {
    let bound_s = 8.0 * BYTES as f64 / RATE_BPS;
    let network = network();
    let ground = Ground::new(&network, 0, &(1..=RECEIVERS).collect::<Vec<_>>()).unwrap();
    let layout = Layout::new(BYTES, Layout::block_bytes_for(BYTES)).unwrap();
    let (mut plain_s, mut kept_s) = (0.0, 0.0);
    for seed in 1..=5 {
        let one = vec![0; RECEIVERS + 1];
        plain_s += Rehearsal::new(&ground, layout, Mechanism::Cornet, one, seed).run() / 5.0;
        let racks = (0..=RECEIVERS).map(rack).collect();
        let mut kept = Rehearsal::new(&ground, layout, Mechanism::Topology, racks, seed);
        kept_s += kept.run() / 5.0;
        // Of two racks that pass blocks on to each other, each gets half of them from the first rack, so no line
        // carries a block twice.
        for rack in 0..RACKS {
            let left = kept.crossed_bytes(network.link_index(Link::Up(rack)));
            assert!(left <= 1.05 * BYTES as f64, "{rack}: {left}");
        }
    }
    assert!(
        kept_s <= 0.5 * plain_s,
        "{:.2} and {:.2} times the bound",
        kept_s / bound_s,
        plain_s / bound_s
    );
}
