//! Flows of hosts with bandwidth guarantees.

use gavotte_fluid::{
    Flows, FluidError, Guarded, Guarding, Hose, Method, Order, Protection, Queues, Tenant, Topology, TopologyParts,
    Workload, simulate_guarded,
};
use gavotte_net::BitsPerSec;
use proptest::prelude::*;

const GIGABIT: f64 = 1e9;

/// A flow: source, target, bytes, start, cap in bit/s, and whether it is UDP.
type Flow = (u32, u32, u64, f64, f64, bool);

/// Hosts in two racks at 1 Gbit/s each, the first half in one rack, with 1 Gbit/s between the racks.
fn topology(hosts: usize) -> Topology {
    let rate = BitsPerSec::new(GIGABIT).expect("above zero");
    Topology::new(TopologyParts::racks(hosts, 2, rate, rate)).expect("a tree")
}

fn hoses(count: usize, bps: f64) -> Vec<Hose> {
    let hose = Hose {
        egress_bps: bps,
        ingress_bps: bps,
        ..Hose::NONE
    };
    vec![hose; count]
}

fn run(topology: &Topology, flows: &[Flow], hoses: &[Hose], tenants: &[Tenant], name: &str, until_s: f64) -> Guarded {
    run_with(topology, flows, hoses, tenants, name, until_s, Queues::default())
}

fn run_with(
    topology: &Topology,
    flows: &[Flow],
    hoses: &[Hose],
    tenants: &[Tenant],
    name: &str,
    until_s: f64,
    queues: Queues,
) -> Guarded {
    let known = Protection::named(name).expect("a protection");
    let column = |of: fn(&Flow) -> f64| flows.iter().map(of).collect::<Vec<f64>>();
    let (start_s, cap_bps) = (column(|flow| flow.3), column(|flow| flow.4));
    let source: Vec<u32> = flows.iter().map(|flow| flow.0).collect();
    let target: Vec<u32> = flows.iter().map(|flow| flow.1).collect();
    let bytes: Vec<u64> = flows.iter().map(|flow| flow.2).collect();
    let udp: Vec<bool> = flows.iter().map(|flow| flow.5).collect();
    let columns = Flows {
        source: &source,
        target: &target,
        bytes: &bytes,
        start_s: &start_s,
        cap_bps: Some(&cap_bps),
        ..Flows::default()
    };
    let workload = Workload {
        until_s,
        seed: 7,
        ..Workload::new(columns)
    };
    let guarding = Guarding {
        hoses,
        tenants,
        method: known.method,
        parameters: known.parameters,
        adapts: known.adapts,
        queues: Queues {
            drain: known.drain,
            ..queues
        },
        udp: Some(&udp),
        step_s: 0.001,
        window_s: 0.2,
    };
    simulate_guarded(topology, &workload, &guarding).expect("sound input")
}

fn deep(buffer_s: f64) -> Queues {
    Queues {
        buffer_s,
        ..Queues::default()
    }
}

fn bulk(source: u32, target: u32) -> Flow {
    (source, target, 1 << 40, 0.0, f64::INFINITY, false)
}

/// The mean rate of a pair from two seconds on, in bit/s.
fn later(done: &Guarded, source: usize, target: usize) -> f64 {
    let of = |pair: &&gavotte_fluid::PairUse| (pair.source, pair.target) == (source, target);
    let rates = &done.pairs.iter().find(of).expect("a pair").rates_bps[10..];
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// X (host 0) sends to Z (host n + 1), and n other hosts send to Y (host n + 2), all over one link with the given
/// queue.
fn many_to_one(senders: u32, name: &str, buffer_s: f64) -> (f64, f64) {
    let hosts = 2 * (senders as usize + 1);
    let (z, y) = (senders + 1, senders + 2);
    let mut flows = vec![bulk(0, z)];
    flows.extend((1..=senders).map(|sender| bulk(sender, y)));
    let done = run_with(
        &topology(hosts),
        &flows,
        &hoses(hosts, 450e6),
        &[],
        name,
        8.0,
        deep(buffer_s),
    );
    let others = (1..=senders)
        .map(|sender| later(&done, sender as usize, y as usize))
        .sum();
    (later(&done, 0, z as usize), others)
}

#[test]
fn one_keeps_its_guarantee_beside_many() {
    for name in ["auto", "ecn", "loss", "static"] {
        let (own, others) = many_to_one(50, name, 0.004);
        assert!(own > 0.95 * 450e6, "{name}: {own}");
        assert!(own + others > 0.88e9, "{name}: {own} and {others}");
    }
    let (own, _) = many_to_one(50, "none", 0.004);
    assert!(own < 100e6, "none: {own}");
}

/// Such a queue is full for seconds without a drop: only the waiting time of packets reveals it.
#[test]
fn a_deep_queue_that_drops_nothing_is_seen() {
    for (name, senders) in [("auto", 10), ("loss", 10), ("auto", 50), ("loss", 50)] {
        let (own, others) = many_to_one(senders, name, 0.05);
        assert!(own > 0.95 * 450e6, "{name}, {senders}: {own}");
        assert!(own + others > 0.88e9, "{name}, {senders}: {own} and {others}");
    }
}

#[test]
fn udp_above_its_guarantee_does_not_push_tcp_below_its_own() {
    let flows = [bulk(0, 2), (1, 3, 1 << 40, 0.0, 1.2e9, true)];
    for (name, least) in [("auto", 420e6), ("ecn", 441e6), ("loss", 420e6), ("static", 441e6)] {
        let done = run(&topology(4), &flows, &hoses(4, 450e6), &[], name, 6.0);
        let own = later(&done, 0, 2);
        assert!(own > least, "{name}: {own}");
    }
}

#[test]
fn two_share_the_rest_by_their_guarantees_and_fill_the_link() {
    // Where a short queue drops and neither marks nor delays, drops hit pairs at random: it takes longer without marks.
    for (name, buffer_s) in [("auto", 0.02), ("auto", 0.1), ("loss", 0.02), ("ecn", 0.004)] {
        let mut own = hoses(4, 45e6);
        for host in [1, 3] {
            (own[host].egress_bps, own[host].ingress_bps) = (90e6, 90e6);
        }
        let flows = [bulk(0, 2), bulk(1, 3)];
        let done = run_with(&topology(4), &flows, &own, &[], name, 20.0, deep(buffer_s));
        let (low, high) = (later(&done, 0, 2), later(&done, 1, 3));
        assert!((1.6..2.4).contains(&(high / low)), "{name}: {low} and {high}");
        assert!(low + high > 0.8e9, "{name}: {low} and {high}");
    }
}

/// Hosts at 100 Mbit/s instead, with queues of 20 ms to a quarter of a second that do not mark.
fn slow(hosts: usize) -> Topology {
    let rate = |bps| BitsPerSec::new(bps).expect("above zero");
    Topology::new(TopologyParts::racks(hosts, 2, rate(GIGABIT), rate(100e6))).expect("a tree")
}

#[test]
fn one_connection_keeps_its_guarantee_next_to_eight_in_any_unmarked_queue() {
    let mut flows = vec![bulk(0, 2)];
    flows.extend([bulk(1, 3); 8]);
    for buffer_s in [0.004, 0.02, 0.05, 0.25] {
        let done = run_with(&slow(4), &flows, &hoses(4, 45e6), &[], "auto", 8.0, deep(buffer_s));
        let own = &done.pairs[0];
        assert!(
            own.rates_bps[10..].iter().all(|&bps| bps > 0.95 * 45e6),
            "{buffer_s}: {own:?}"
        );
    }
}

/// Each of the hundred is seldom reported. If all of them grow between two reports, the queue is full for seconds.
#[test]
fn one_keeps_its_windows_next_to_a_hundred_slow_pairs() {
    let senders = 100;
    let (z, y) = (senders + 1, senders + 2);
    let mut flows = vec![bulk(0, z)];
    flows.extend((1..=senders).map(|sender| bulk(sender, y)));
    let hosts = 2 * (senders as usize + 1);
    let done = run_with(&slow(hosts), &flows, &hoses(hosts, 45e6), &[], "auto", 16.0, deep(0.05));
    let of_x = |pair: &&gavotte_fluid::PairUse| pair.source == 0;
    let rates = &done.pairs.iter().find(of_x).expect("a pair").rates_bps[10..];
    let met = rates.iter().filter(|&&bps| bps >= 0.95 * 45e6).count();
    assert!(met * 100 >= rates.len() * 95, "{met} of {}: {rates:?}", rates.len());
}

/// X sends 10 kB every 0.1 s while 23 others fill its way, each with 3.75 Mbit/s. Waits are those of the queue.
#[test]
fn short_flows_next_to_many_small_pairs_wait_little() {
    let (others, begin_s, count) = (23, 4.0, 150);
    let (z, y) = (others + 1, others + 2);
    let mut flows: Vec<Flow> = (1..=others).map(|other| bulk(other, y)).collect();
    flows.extend((0..count).map(|n| (0, z, 10_000, begin_s + 0.1 * f64::from(n), f64::INFINITY, false)));
    let count_hosts = 2 * (others as usize + 1);
    let mut own = hoses(count_hosts, 3.75e6);
    own[y as usize].ingress_bps = 86.25e6;
    let done = run_with(&slow(count_hosts), &flows, &own, &[], "auto", 20.0, deep(0.05));
    let outcome = &done.outcome;
    let short = others as usize..flows.len();
    let mut took_s: Vec<f64> = short
        .map(|flow| outcome.finish_s[flow] - outcome.start_s[flow])
        .collect();
    took_s.sort_by(f64::total_cmp);
    let (median_s, high_s) = (took_s[took_s.len() / 2], took_s[took_s.len() * 99 / 100]);
    assert!(median_s < 0.003 && high_s < 0.006, "{median_s} and {high_s}");
}

#[test]
fn a_late_joiner_has_its_guarantee_in_less_than_a_second() {
    for buffer_s in [0.02, 0.25] {
        let mut late = bulk(1, 3);
        late.3 = 4.0;
        let flows = [bulk(0, 2), late];
        let done = run_with(&slow(4), &flows, &hoses(4, 45e6), &[], "auto", 8.0, deep(buffer_s));
        let joined = &done.pairs[1].rates_bps[24..];
        assert!(joined.iter().all(|&bps| bps > 0.95 * 45e6), "{buffer_s}: {joined:?}");
    }
}

#[test]
fn a_pair_has_the_link_soon_after_a_competitor_left() {
    let mut short = bulk(1, 3);
    short.2 = 25_000_000;
    let flows = [bulk(0, 2), short];
    let done = run_with(&slow(4), &flows, &hoses(4, 45e6), &[], "auto", 12.0, deep(0.05));
    let left_s = done.outcome.finish_s[1];
    let rates = &done.pairs[0].rates_bps;
    let (first, from) = ((left_s / 0.2).ceil() as usize, ((left_s + 2.0) / 0.2).ceil() as usize);
    assert!(
        rates[first..from].iter().any(|&bps| bps > 0.95 * 100e6),
        "{left_s}: {rates:?}"
    );
    let mean = rates[from..].iter().sum::<f64>() / rates[from..].len() as f64;
    assert!(mean > 0.955 * 100e6, "{mean} from {left_s} on");
}

#[test]
fn the_falls_of_a_pair_alone_cost_it_little_of_its_link() {
    for buffer_s in [0.02, 0.05, 0.25] {
        let done = run_with(
            &slow(4),
            &[bulk(0, 2)],
            &hoses(4, 45e6),
            &[],
            "auto",
            20.0,
            deep(buffer_s),
        );
        let own = later(&done, 0, 2);
        assert!(own > 0.96 * 100e6, "{buffer_s}: {own}");
    }
}

#[test]
fn one_alone_fills_a_link_that_drops() {
    let done = run(&topology(4), &[bulk(0, 2)], &hoses(4, 450e6), &[], "loss", 12.0);
    let own = later(&done, 0, 2);
    assert!(own > 0.85e9, "{own}");
}

#[test]
fn a_limit_is_kept_and_a_tenant_shares_what_is_its_own() {
    let mut limited = hoses(4, 100e6);
    limited[0].egress_limit_bps = 200e6;
    let done = run(&topology(4), &[bulk(0, 2)], &limited, &[], "ecn", 4.0);
    let own = later(&done, 0, 2);
    assert!((150e6..=201e6).contains(&own), "{own}");

    // Hosts 0 and 1 share 400 Mbit/s. Only 0 sends, alongside other hosts with static guarantees.
    let tenant = Tenant {
        hosts: vec![0, 1],
        hose: Hose {
            egress_bps: 400e6,
            ingress_bps: 200e6,
            ..Hose::NONE
        },
    };
    let mut wide = hoses(4, 100e6);
    wide[2].ingress_bps = 900e6;
    let rate = |tenants: &[Tenant]| later(&run(&topology(4), &[bulk(0, 2)], &wide, tenants, "static", 4.0), 0, 2);
    assert!((rate(&[]) - 100e6).abs() < 5e6);
    assert!(rate(&[tenant]) > 250e6);
}

#[test]
fn a_short_flow_is_done_as_soon_as_without_guarantees() {
    let flows = [(0, 2, 20_000, 0.5, f64::INFINITY, false)];
    let took_s = |name| {
        run(&topology(4), &flows, &hoses(4, 450e6), &[], name, 5.0)
            .outcome
            .finish_s[0]
            - 0.5
    };
    assert!(took_s("ecn") <= took_s("none") + 0.0015);
}

#[test]
fn the_same_seed_gives_the_same() {
    let flows = [bulk(0, 2), bulk(1, 3), (1, 2, 3_000_000, 0.3, f64::INFINITY, false)];
    let once = || run(&topology(4), &flows, &hoses(4, 300e6), &[], "loss", 3.0);
    let (first, second) = (once(), once());
    assert_eq!(first.pairs, second.pairs);
    assert_eq!(first.outcome.links, second.outcome.links);
}

#[test]
fn an_order_is_not_taken() {
    let order = Order::none(0);
    let known = Protection::named("ecn").expect("a protection");
    let guarding = Guarding {
        hoses: &hoses(2, 1e6),
        tenants: &[],
        method: Method::Static,
        parameters: known.parameters,
        adapts: known.adapts,
        queues: Queues::default(),
        udp: None,
        step_s: 0.001,
        window_s: 0.2,
    };
    let workload = Workload {
        order: Some(&order),
        ..Workload::new(Flows::default())
    };
    let result = simulate_guarded(&topology(2), &workload, &guarding);
    assert!(matches!(result, Err(FluidError::Table(_))));
    let guarding = Guarding { hoses: &[], ..guarding };
    assert!(simulate_guarded(&topology(2), &Workload::new(Flows::default()), &guarding).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// All sent bytes arrive once, none earlier than its links can carry it, and no link carries more than its rate.
    #[test]
    fn bytes_are_conserved(
        flows in prop::collection::vec((0_u32..6, 0_u32..6, 1_u64..4_000_000, 0.0_f64..0.5), 1..20),
        name in prop::sample::select(vec!["none", "static", "seawall", "elasticswitch-loss", "loss", "ecn", "auto"]),
    ) {
        let flows: Vec<Flow> = flows.into_iter().map(|(s, t, bytes, at)| (s, t, bytes, at, f64::INFINITY, false)).collect();
        let done = run(&topology(6), &flows, &hoses(6, 100e6), &[], name, 60.0);
        for (flow, finish_s) in flows.iter().zip(&done.outcome.finish_s) {
            prop_assert!(finish_s.is_finite());
            let least_s = if flow.0 == flow.1 { 0.0 } else { flow.2 as f64 * 8.0 / GIGABIT };
            prop_assert!(*finish_s >= flow.3 + least_s - 0.001);
        }
        for link in &done.outcome.links {
            prop_assert!(link.bytes <= link.rate.bytes_per_s() * done.outcome.end_s * (1.0 + 1e-9));
        }
        let wanted: f64 = flows.iter().filter(|flow| flow.0 != flow.1).map(|flow| flow.2 as f64).sum();
        let come: f64 = done.pairs.iter().filter(|pair| pair.source != pair.target).map(|pair| {
            pair.rates_bps.iter().sum::<f64>() * 0.2 / 8.0
        }).sum();
        // The windows in flight at the end are not included.
        prop_assert!(come <= wanted + 200_000.0 * flows.len() as f64, "{come} of {wanted}");
    }
}
