//! The links that a transfer loads, worked out by hand.

use gavotte_fluid::{FluidError, Machine, Platform, Topology, TopologyParts, Workload, rates, simulate};
use gavotte_net::{BitsPerSec, Group, Host, InputError, Network, NetworkParts, Sharing};

use crate::support::{Columns, MBIT, bps, small};

/// Hosts 0 and 1 on one machine, 2 alone, 3 in another rack.
fn network(sharing: Sharing) -> NetworkParts {
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
    let row = Group {
        up: bps(0.5 * MBIT),
        ..group("row0", &[], None)
    };
    let groups = vec![group("rack0", &[0, 1], Some(2)), group("rack1", &[2], Some(2)), row];
    NetworkParts {
        hosts: (0..4).map(host).collect(),
        rate_bps: vec![8.0 * MBIT; 16],
        latency_s: Vec::new(),
        groups,
        sharing,
    }
}

fn rate(sharing: Sharing, source: u32, target: u32) -> f64 {
    let network = Network::new(network(sharing)).expect("sound");
    rates(&network, Columns::of(&[(source, target, 1, 0.0)]).flows()).expect("sound")[0] / MBIT
}

#[test]
fn each_sharing_model_adds_links() {
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    close(rate(Sharing::Pipe, 0, 3), 8.0);
    close(rate(Sharing::Hose, 0, 3), 2.0);
    close(rate(Sharing::Groups, 0, 3), 0.5);
    close(rate(Sharing::Groups, 3, 0), 1.0);
    close(rate(Sharing::Groups, 0, 2), 1.0);
    for sharing in [Sharing::Pipe, Sharing::Hose, Sharing::Groups] {
        close(rate(sharing, 0, 1), 8.0);
        assert!(rate(sharing, 2, 2).is_infinite());
    }
}

#[test]
fn latency_comes_before_the_first_byte() {
    let parts = NetworkParts {
        latency_s: vec![0.25; 16],
        ..network(Sharing::Pipe)
    };
    let network = Network::new(parts).expect("sound");
    let columns = Columns::of(&[(0, 3, 1_000_000, 1.0), (2, 2, 5, 1.0)]);
    let outcome = simulate(&network, &Workload::new(columns.flows())).expect("sound");
    assert_eq!(outcome.finish_s, [2.25, 1.0]);
    let holder = outcome.holder[0].expect("the pair");
    assert_eq!(Platform::link_name(&network, holder), "path from vm0 to vm3");
    assert_eq!(outcome.holder[1], None);
}

/// Hosts a and b on machine m0 (5 Mbit/s inside, 3 Mbit/s NIC), c and d each on their own machine.
fn topology() -> TopologyParts {
    let mut parts = TopologyParts::racks(4, 2, bps(3.0 * MBIT), BitsPerSec::UNLIMITED);
    parts.machines[0] = Machine {
        machine_rate: bps(5.0 * MBIT),
        ..parts.machines[0].clone()
    };
    parts.hosts[1].machine = 0;
    parts.hosts[0] = Host {
        egress: bps(2.0 * MBIT),
        ..parts.hosts[0].clone()
    };
    parts.hosts[3] = Host {
        ingress: bps(1.0 * MBIT),
        ..parts.hosts[3].clone()
    };
    parts
}

#[test]
fn hosts_of_a_machine_share_its_nic_and_meet_inside() {
    let topology = Topology::new(topology()).expect("sound");
    let rate = |rows: &[(u32, u32)]| {
        let rows: Vec<_> = rows.iter().map(|&(source, target)| (source, target, 1, 0.0)).collect();
        let rates = rates(&topology, Columns::of(&rows).flows()).expect("sound");
        rates
            .into_iter()
            .map(|rate| (rate / 1e3).round() / 1e3)
            .collect::<Vec<_>>()
    };
    assert_eq!(rate(&[(0, 1), (1, 0)]), [5.0, 5.0], "each way and past the caps");
    assert_eq!(rate(&[(0, 1), (0, 1)]), [2.5, 2.5], "the pair's own rate");
    assert_eq!(rate(&[(0, 2)]), [2.0], "egress");
    assert_eq!(rate(&[(0, 2), (1, 3)]), [2.0, 1.0], "NIC and ingress");
    assert_eq!(rate(&[(0, 2), (1, 2)]), [1.5, 1.5], "NIC");
    let name = |source, target| {
        let mut path = Vec::new();
        topology.route(source, target, 0, &mut path);
        path.into_iter()
            .map(|link| topology.link_name(link))
            .collect::<Vec<_>>()
    };
    let whole = [
        "egress of h0",
        "NIC of m0, sending",
        "link from rack0 up to core",
        "link from core down to rack1",
        "NIC of m3, receiving",
        "ingress of h3",
    ];
    assert_eq!(name(0, 3), whole);
    assert_eq!(name(1, 0), ["path from h1 to h0"]);
    assert!(name(2, 2).is_empty());
}

#[test]
fn an_oversubscribed_uplink_is_shared_and_a_cap_leaves_room() {
    let mut columns = Columns::default();
    columns.push(0, 2, 1, 0.0, 3.0, f64::INFINITY);
    columns.push(1, 3, 1, 0.0, 1.0, f64::INFINITY);
    let rates_of = |columns: &Columns| rates(&small(4.0), columns.flows()).expect("sound");
    assert_eq!(rates_of(&columns), [3.0 * MBIT, MBIT]);
    columns.cap_bps[0] = MBIT;
    assert_eq!(rates_of(&columns), [MBIT, 3.0 * MBIT]);
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let mut columns = Columns::of(&[(0, 1, 1, 0.0), (0, 4, 1, 0.0)]);
    let error = |columns: &Columns| simulate(&small(4.0), &Workload::new(columns.flows())).expect_err("a mistake");
    assert_eq!(
        error(&columns).to_string(),
        "the target of flow 1 is 4, but there are only 4"
    );
    columns.target[1] = 0;
    columns.start_s[1] = f64::NAN;
    assert_eq!(
        error(&columns).to_string(),
        "start_s of flow 1 is NaN; it must be from zero, and finite"
    );
    columns.start_s[1] = 0.0;
    columns.weight[0] = 0.0;
    assert_eq!(
        error(&columns).to_string(),
        "the weight of flow 0 is 0; it must be from 0.001 to 1000"
    );
    columns.weight.pop();
    assert_eq!(
        error(&columns),
        FluidError::Input(InputError::Length {
            what: "the column `weight`",
            found: 1,
            expected: 2
        })
    );
}

/// A flow's arrival is delayed by its path's latency, which is zero between hosts of one machine.
#[test]
fn latencies_of_hosts_and_switches_add_up() {
    let mut parts = topology();
    parts.latency_s = vec![0.001, 0.002, 0.004, 0.008];
    parts.switches[0].uplinks[0].latency_s = 0.1;
    parts.switches[1].uplinks[0].latency_s = 0.2;
    parts.hosts[1].machine = 0;
    let network = Topology::new(parts.clone()).expect("a sound topology");
    for (source, target, expected_s) in [(0, 1, 0.0), (0, 2, 0.305), (2, 0, 0.305), (2, 3, 0.012)] {
        assert!((network.latency_s(source, target) - expected_s).abs() < 1e-12);
    }
    let columns = Columns::of(&[(0, 2, 250_000, 1.0)]);
    let outcome = simulate(&network, &Workload::new(columns.flows())).expect("a sound workload");
    assert!((outcome.finish_s[0] - 2.305).abs() < 1e-9);

    parts.latency_s[2] = f64::NAN;
    let error = Topology::new(parts.clone()).expect_err("no time").to_string();
    assert!(
        error.contains("the latency of host `h2` is NaN; it must be a finite number"),
        "{error}"
    );
    parts.latency_s.pop();
    let error = Topology::new(parts).expect_err("one is missing").to_string();
    assert_eq!(error, "the list of latencies has 3 entries, but 4 are needed");
}
