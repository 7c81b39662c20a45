//! Properties of every problem: bounds are below optima, placements feasible, and answers repeatable.

use crate::support::{Draft, MB, MBIT, bps, greedy_by_the_book, keeps_rules, optimum, task, transfer, uniform};
use gavotte_assign::{
    Assignment, Capacity, Greedy, Load, MaxHosts, MaxLatency, NO_ZONE, Parts, Policy, Problem, Quota, Rules, Search,
    Stores, Task, Transfer, policies,
};
use gavotte_net::{Group, Host, NetworkParts, Seconds, Sharing};
use proptest::prelude::*;

const ROUNDING: f64 = 1.0 + 1e-12;

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![8 => (1_u32..1000).prop_map(|rate| f64::from(rate) * 1e6), 1 => Just(f64::INFINITY)]
}

fn stores(below: u64) -> impl Strategy<Value = Stores> {
    (0..below, 0..below).prop_map(|(memory_bytes, storage_bytes)| Stores {
        memory_bytes,
        storage_bytes,
    })
}

fn tasks(count: usize, hosts: usize) -> impl Strategy<Value = Vec<Task>> {
    let only = prop_oneof![
        6 => Just(None),
        1 => proptest::sample::subsequence((0..hosts).collect::<Vec<_>>(), 1..=hosts).prop_map(Some),
    ];
    let task = (0_u32..9, stores(5), only).prop_map(|(halves, stores, hosts)| Task {
        name: "t".to_owned(),
        cpus: f64::from(halves) / 2.0,
        stores,
        hosts,
    });
    proptest::collection::vec(task, count)
}

fn transfers(tasks: usize) -> impl Strategy<Value = Vec<Transfer>> {
    let one = (0..tasks, 1..tasks.max(2), 0_u64..1_000_000, 0_u32..3).prop_map(move |(source, step, bytes, phase)| {
        Transfer {
            source,
            target: (source + step) % tasks,
            bytes,
            phase,
        }
    });
    proptest::collection::vec(one, if tasks < 2 { 0..1 } else { 0..9 })
}

fn hosts(count: usize) -> impl Strategy<Value = Vec<Host>> {
    let host = (0..count, rate(), rate()).prop_map(|(machine, egress_bps, ingress_bps)| Host {
        name: "vm".to_owned(),
        machine,
        egress: bps(egress_bps),
        ingress: bps(ingress_bps),
    });
    proptest::collection::vec(host, count)
}

fn capacity(hosts: usize) -> impl Strategy<Value = Vec<Capacity>> {
    let room = (1_u32..9, stores(20)).prop_map(|(halves, stores)| Capacity {
        cpus: f64::from(halves) / 2.0,
        stores,
    });
    proptest::collection::vec(room, hosts)
}

fn groups(hosts: usize) -> impl Strategy<Value = Vec<Group>> {
    let members = proptest::sample::subsequence((0..hosts).collect::<Vec<_>>(), 1..=hosts);
    let group = (members, rate(), rate(), any::<bool>());
    proptest::collection::vec(group, 0..3).prop_map(|drawn| {
        let build = |(g, (members, up_bps, down_bps, below)): (usize, (Vec<usize>, f64, f64, bool))| Group {
            name: format!("g{g}"),
            members,
            up: bps(up_bps),
            down: bps(down_bps),
            parent: (below && g > 0).then(|| g - 1),
        };
        drawn.into_iter().enumerate().map(build).collect()
    })
}

/// The price of a broken rule, or none.
fn price() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![2 => Just(None), 1 => (0_u32..400).prop_map(|millis| Some(f64::from(millis) / 1e3))]
}

/// Zones of hosts: each host alone, in one of two zones, and in one of two or in none.
fn zonings(hosts: usize) -> impl Strategy<Value = Vec<Vec<u32>>> {
    let zones = hosts.min(2) as u32;
    let every = proptest::collection::vec(0..zones, hosts);
    let some = proptest::collection::vec(prop_oneof![3 => 0..zones, 1 => Just(NO_ZONE)], hosts);
    (every, some).prop_map(move |(every, some)| vec![(0..hosts as u32).collect(), every, some])
}

/// Limits on what tasks need in zones. One with a price, or of room, has no least need.
fn quotas(tasks: usize, hosts: usize) -> impl Strategy<Value = Vec<Quota>> {
    let needs = proptest::collection::vec(0_u64..3, tasks);
    let most = proptest::collection::vec(0_u64..5, hosts.max(2));
    let least = prop_oneof![3 => Just(0_u64), 1 => Just(1_u64)];
    let quota = (0_usize..3, needs, most, least, price(), any::<bool>());
    let quota = quota.prop_map(move |(zoning, needs, mut most, least, price_s, room)| {
        most.truncate(if zoning == 0 { hosts } else { 2 });
        let room = (room && price_s.is_none()).then(|| "gpu".to_owned());
        Quota {
            zoning,
            needs: needs.into_iter().enumerate().collect(),
            most,
            least: if price_s.is_some() || room.is_some() { 0 } else { least },
            price_s,
            room,
        }
    });
    prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec(quota, 1..3)]
}

/// Rules over `tasks` tasks and `hosts` hosts; most kinds of rules are usually absent.
fn rules(tasks: usize, hosts: usize) -> impl Strategy<Value = Rules> {
    let group = || proptest::sample::subsequence((0..tasks).collect::<Vec<_>>(), 0..=tasks.min(3));
    let groups = || prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec(group(), 1..3)];
    let near = (0..tasks, 0..tasks, 1_u32..4, price()).prop_map(|(source, target, millis, price_s)| MaxLatency {
        source,
        target,
        seconds: f64::from(millis) / 1e3,
        price_s,
    });
    let near = prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec(near, 1..3)];
    let zoning = prop_oneof![Just(None), Just(Some(1_usize))];
    let limit = (group(), 1_usize..3, zoning, price()).prop_map(|(tasks, most, zoning, price_s)| MaxHosts {
        tasks,
        most,
        zoning,
        price_s,
    });
    let limits = prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec(limit, 1..3)];
    let several = (groups(), groups(), near, limits, zonings(hosts), quotas(tasks, hosts));
    several.prop_map(|(apart, together, max_latency, max_hosts, zonings, quotas)| Rules {
        apart,
        together,
        max_latency,
        max_hosts,
        max_price: None,
        zonings,
        quotas,
    })
}

fn loads(hosts: usize) -> impl Strategy<Value = Vec<Load>> {
    let load = (0..hosts, 0..hosts, 0_u64..1_000_000, 0_u32..3).prop_map(|(source, target, bytes, phase)| Load {
        source,
        target,
        bytes,
        phase,
    });
    prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec(load, 1..4)]
}

fn network(hosts_count: usize) -> impl Strategy<Value = NetworkParts> {
    let sharing = prop_oneof![Just(Sharing::Pipe), Just(Sharing::Hose), Just(Sharing::Groups)];
    let pairs = hosts_count * hosts_count;
    let rates = proptest::collection::vec(prop_oneof![9 => rate(), 1 => Just(f64::NAN)], pairs);
    let latency = prop_oneof![9 => (1_u32..5).prop_map(|millis| f64::from(millis) / 1e3), 1 => Just(f64::NAN)];
    let latencies = proptest::collection::vec(latency, pairs);
    (hosts(hosts_count), rates, latencies, groups(hosts_count), sharing).prop_map(
        |(hosts, rate_bps, latency_s, groups, sharing)| NetworkParts {
            hosts,
            rate_bps,
            latency_s,
            groups,
            sharing,
        },
    )
}

/// Up to `most_tasks` tasks on one to four hosts, with every feature of a problem.
fn draft(most_tasks: usize) -> impl Strategy<Value = Draft> {
    (1..=most_tasks, 1_usize..5).prop_flat_map(|(j, m)| {
        (
            tasks(j, m),
            transfers(j),
            network(m),
            capacity(m),
            rules(j, m),
            loads(m),
            proptest::bool::weighted(0.25),
        )
            .prop_map(|(tasks, transfers, network, capacity, rules, load, sparse)| Draft {
                network,
                sparse,
                parts: Parts {
                    tasks,
                    transfers,
                    capacity,
                    rules,
                    load,
                },
            })
    })
}

/// A search short enough for a test.
fn brief(threads: usize) -> Search<'static> {
    Search {
        steps: 8_000,
        threads,
        ..Search::default()
    }
}

/// The same problem with its hosts in another order: host `m` becomes `to[m]`.
fn renamed(draft: &Draft, to: &[usize]) -> Draft {
    let (count, old) = (to.len(), draft);
    let mut new = draft.clone();
    for (m, &m_new) in to.iter().enumerate() {
        new.network.hosts[m_new] = old.network.hosts[m].clone();
        new.parts.capacity[m_new] = old.parts.capacity[m];
        for (n, &n_new) in to.iter().enumerate() {
            let (at, at_new) = (m * count + n, m_new * count + n_new);
            new.network.rate_bps[at_new] = old.network.rate_bps[at];
            new.network.latency_s[at_new] = old.network.latency_s[at];
        }
    }
    for (row, row_old) in new.parts.rules.zonings.iter_mut().zip(&old.parts.rules.zonings) {
        for (m, &m_new) in to.iter().enumerate() {
            row[m_new] = row_old[m];
        }
    }
    for load in &mut new.parts.load {
        (load.source, load.target) = (to[load.source], to[load.target]);
    }
    let move_all = |hosts: &mut Vec<usize>| hosts.iter_mut().for_each(|host| *host = to[*host]);
    let groups = new.network.groups.iter_mut();
    groups.for_each(|group| move_all(&mut group.members));
    let tasks = new.parts.tasks.iter_mut();
    tasks.filter_map(|task| task.hosts.as_mut()).for_each(move_all);
    new
}

proptest! {
    #[test]
    fn exceptions_load_the_same_links_as_a_matrix(mut draft in draft(8), seed in any::<u64>()) {
        draft.sparse = false;
        let by_matrix = draft.clone().problem();
        draft.sparse = true;
        let problem = draft.problem();
        prop_assert_eq!(Greedy.place(&problem, seed), Greedy.place(&by_matrix, seed));
        if let Ok(found) = brief(1).run(&problem, seed, &[]) {
            let same = by_matrix.assignment(found.assignment.hosts().to_vec()).expect("room");
            prop_assert_eq!(problem.evaluate(&found.assignment), by_matrix.evaluate(&same));
        }
    }

    #[test]
    fn bound_is_never_above_the_optimum(draft in draft(5)) {
        let problem = draft.problem();
        let bound_s = problem.bound_s();
        if let Some(optimum_s) = optimum(&problem) {
            prop_assert!(bound_s <= optimum_s * ROUNDING, "bound {bound_s} s, optimum {optimum_s} s");
        }
    }

    #[test]
    fn bound_by_flows_is_between_the_stars_and_the_optimum(draft in draft(6), work in 0_u64..400) {
        let problem = draft.problem();
        if let Some(optimum_s) = optimum(&problem) {
            let bound_s = problem.flows_bound_s(work, &|| false);
            let volume_s = problem.volume_bound_s();
            prop_assert!(volume_s <= optimum_s * ROUNDING, "by volume {volume_s} s, optimum {optimum_s} s");
            prop_assert!(bound_s <= optimum_s * ROUNDING, "bound {bound_s} s, optimum {optimum_s} s");
            prop_assert!(bound_s >= problem.bound_s());
        }
    }

    // Equal tasks that all exchange something, hosts of a few cores, only caps: the case that the bound by flows is
    // for.
    #[test]
    fn bound_by_flows_of_small_graphs_is_never_above_the_optimum(
        bytes in proptest::collection::vec(1_u64..100_000_000, 14),
        rates in proptest::collection::vec(100.0..1100.0_f64, 4),
        cpus in 1_u32..5,
        tasks in 2_usize..8,
        mates in proptest::bool::ANY,
    ) {
        let ring = (0..tasks).flat_map(|one| [(one, (one + 1) % tasks), ((one + 2) % tasks, one)]);
        let transfers = ring.zip(&bytes).filter(|((one, other), _)| one != other);
        let transfers = transfers.map(|((one, other), &size)| transfer(one, other, size)).collect();
        let all = (0..tasks).map(|each| task(&format!("t{each}"), 1.0)).collect();
        let mut draft = uniform(all, transfers, 4, f64::from(cpus), f64::INFINITY);
        draft.network.sharing = Sharing::Hose;
        for (host, rate) in draft.network.hosts.iter_mut().zip(&rates) {
            (host.egress, host.ingress) = (bps(rate * MBIT), bps(rate * MBIT));
            host.machine = if mates { host.machine / 2 } else { host.machine };
        }
        let problem = draft.problem();
        if let Some(optimum_s) = optimum(&problem) {
            let bound_s = problem.flows_bound_s(1_000_000, &|| false).max(problem.volume_bound_s());
            prop_assert!(bound_s <= optimum_s * ROUNDING, "bound {bound_s} s, optimum {optimum_s} s");
        }
    }

    #[test]
    fn bound_by_sets_is_between_the_stars_and_the_optimum(draft in draft(6), slack in 1.0..4.0_f64) {
        let problem = draft.problem();
        if let Some(optimum_s) = optimum(&problem) {
            let bound_s = problem.sets_bound_s(Seconds(optimum_s * slack), 10, 50_000, &|| false);
            prop_assert!(bound_s <= optimum_s * ROUNDING, "bound {bound_s} s, optimum {optimum_s} s");
            prop_assert!(bound_s * ROUNDING >= problem.bound_s().min(optimum_s));
        }
    }

    // Hosts in two groups with slow pairs between them: the case that the bound by groups of hosts is for.
    #[test]
    fn bound_by_sets_of_two_groups_is_never_above_the_optimum(
        bytes in proptest::collection::vec(1_u64..5, 16),
        slow in proptest::collection::vec(1.0..6.0_f64, 36),
        tasks in 3_usize..7,
        cpus in 1_u32..3,
        hosts in 4_usize..6,
        slack in 1.0..2.0_f64,
    ) {
        let near = (0..tasks).flat_map(|one| [(one, (one + 1) % tasks), ((one + 2) % tasks, one)]);
        let transfers = near.zip(&bytes).filter(|((one, other), _)| one != other);
        let transfers = transfers.map(|((one, other), &size)| transfer(one, other, size * MB)).collect();
        let all = (0..tasks).map(|each| task(&format!("t{each}"), 1.0)).collect();
        let mut draft = uniform(all, transfers, hosts, f64::from(cpus), 100.0 * MBIT);
        draft.network.sharing = Sharing::Pipe;
        for (m, n) in (0..hosts).flat_map(|m| (0..hosts).map(move |n| (m, n))) {
            if m % 2 != n % 2 {
                draft.network.rate_bps[m * hosts + n] = slow[m * 6 + n] * MBIT;
            }
        }
        let problem = draft.problem();
        if let Some(optimum_s) = optimum(&problem) {
            let bound_s = problem.sets_bound_s(Seconds(optimum_s * slack), 10, 50_000, &|| false);
            prop_assert!(bound_s <= optimum_s * ROUNDING, "bound {bound_s} s, optimum {optimum_s} s");
        }
    }

    #[test]
    fn placements_are_feasible_repeatable_and_not_below_the_bound(draft in draft(12), seed in any::<u64>()) {
        let problem = draft.problem();
        let bound_s = problem.bound_s();
        for policy in policies() {
            let placed = policy.place(&problem, seed);
            prop_assert_eq!(&placed, &policy.place(&problem, seed));
            if let Ok(assignment) = placed {
                prop_assert!(problem.assignment(assignment.hosts().to_vec()).is_ok());
                // Greedy ignores rules, and the bound holds for placements that keep them.
                let kept = keeps_rules(&problem, assignment.hosts());
                prop_assert!(!kept || bound_s <= problem.evaluate(&assignment).seconds * ROUNDING);
            }
        }
    }

    #[test]
    fn every_policy_but_greedy_keeps_all_rules(draft in draft(10), seed in any::<u64>()) {
        let problem = draft.problem();
        for policy in policies().into_iter().filter(|policy| policy.name() != "greedy") {
            if let Ok(assignment) = policy.place(&problem, seed) {
                prop_assert!(keeps_rules(&problem, assignment.hosts()), "{}", policy.name());
            }
        }
    }

    #[test]
    fn search_keeps_all_rules_and_is_never_above_greedy(draft in draft(12), seed in any::<u64>()) {
        let problem = draft.problem();
        let greedy = Greedy.place(&problem, seed).ok().filter(|greedy| keeps_rules(&problem, greedy.hosts()));
        match brief(1).run(&problem, seed, &[]) {
            Ok(found) => {
                prop_assert!(problem.assignment(found.assignment.hosts().to_vec()).is_ok());
                prop_assert!(keeps_rules(&problem, found.assignment.hosts()));
                let found_s = problem.evaluate(&found.assignment).total_s();
                prop_assert!(problem.bound_s() <= found_s * ROUNDING);
                if let Some(greedy) = greedy {
                    prop_assert!(found_s <= problem.evaluate(&greedy).total_s());
                }
            }
            Err(_) => prop_assert!(greedy.is_none()),
        }
    }

    // The longest latency of any start that keeps the time is the one to beat.
    #[test]
    fn the_nearest_placement_keeps_rules_and_time(draft in draft(6), seed in any::<u64>(), slack in 1.0..3.0_f64) {
        let problem = draft.problem();
        let Ok(found) = brief(1).run(&problem, seed, &[]) else { return Ok(()) };
        let start = found.assignment.hosts().to_vec();
        let most_s = problem.evaluate(&found.assignment).total_s() * slack + 1e-9;
        let nearest = brief(1).nearest(&problem, seed, std::slice::from_ref(&start), most_s);
        prop_assert_eq!(&nearest, &brief(3).nearest(&problem, seed, std::slice::from_ref(&start), most_s));
        if let Some(hosts) = nearest {
            prop_assert!(keeps_rules(&problem, &hosts));
            prop_assert!(longest_s(&problem, &hosts) < longest_s(&problem, &start));
            let placed = problem.assignment(hosts).expect("room");
            prop_assert!(problem.evaluate(&placed).total_s() <= most_s * ROUNDING);
        }
    }

    #[test]
    fn search_does_not_depend_on_threads(draft in draft(10), seed in any::<u64>()) {
        let problem = draft.problem();
        prop_assert_eq!(brief(1).run(&problem, seed, &[]), brief(3).run(&problem, seed, &[]));
    }

    #[test]
    fn search_finds_the_optimum_of_small_problems(mut draft in draft(5), seed in any::<u64>()) {
        // With rules or little room, it is possible that no chain of feasible moves leads to the optimum.
        draft.parts.rules = Rules::default();
        for room in &mut draft.parts.capacity {
            (room.cpus, room.stores) = (8.0 + room.cpus, Stores::UNLIMITED);
        }
        let problem = draft.problem();
        let answer = brief(1).run(&problem, seed, &[]).ok();
        let answer_s = answer.map(|answer| problem.evaluate(&answer.assignment).seconds);
        prop_assert_eq!(answer_s, optimum(&problem));
    }

    #[test]
    fn no_single_move_beats_the_runner_up(draft in draft(5), seed in any::<u64>()) {
        let problem = draft.problem();
        let Ok(found) = brief(1).run(&problem, seed, &[]) else { return Ok(()) };
        let here_s = problem.evaluate(&found.assignment).total_s();
        if let Some(other) = problem.runner_up(&found.assignment) {
            let mut host_of = found.assignment.hosts().to_vec();
            for (task, host) in other.moves {
                host_of[task] = host;
            }
            prop_assert!(keeps_rules(&problem, &host_of));
            let moved = problem.assignment(host_of).expect("room");
            prop_assert_eq!(problem.evaluate(&moved).total_s().to_bits(), other.seconds.to_bits());
            prop_assert!(here_s <= other.seconds, "the search stopped above a move's {} s", other.seconds);
        }
    }

    #[test]
    fn greedy_goes_by_the_book(draft in draft(12)) {
        let problem = draft.problem();
        let placed = Greedy.place(&problem, 0).ok().map(Assignment::into_hosts);
        prop_assert_eq!(placed, greedy_by_the_book(&problem));
    }

    #[test]
    fn the_order_of_hosts_and_transfers_changes_no_time(
        draft in draft(8),
        order in Just([0_usize, 1, 2, 3]).prop_shuffle(),
        seed in any::<u64>(),
    ) {
        let to: Vec<usize> = order.into_iter().filter(|&host| host < draft.parts.capacity.len()).collect();
        let mut other = renamed(&draft, &to);
        other.parts.transfers.reverse();
        let (problem, other) = (draft.problem(), other.problem());
        let (one_s, other_s) = (problem.bound_s(), other.bound_s());
        prop_assert!(one_s.to_bits() == other_s.to_bits() || (one_s - other_s).abs() <= 1e-12 * one_s);
        for policy in policies() {
            if let Ok(assignment) = policy.place(&problem, seed) {
                let moved = assignment.hosts().iter().map(|&host| to[host]).collect();
                let moved = other.assignment(moved).expect("as feasible as before");
                let (one, other) = (problem.evaluate(&assignment), other.evaluate(&moved));
                prop_assert!((one.seconds - other.seconds).abs() <= 1e-12 * one.seconds);
            }
        }
    }
}

/// The longest latency between two tasks that exchange bytes.
fn longest_s(problem: &Problem, host_of: &[usize]) -> f64 {
    let sends = problem.transfers().iter().filter(|transfer| transfer.bytes > 0);
    let latency = |transfer: &Transfer| {
        let (m, n) = (host_of[transfer.source], host_of[transfer.target]);
        problem.network().latency_s(m, n).unwrap_or(f64::INFINITY)
    };
    sends.map(latency).fold(0.0, f64::max)
}

/// Tasks of one core in a grid, each of which sends equally much to its neighbours. The hosts' caps differ threefold.
fn grid(width: usize, hosts: usize, cpus: f64) -> Problem {
    let count = width * width;
    let right = (0..count).filter(|at| at % width + 1 < width).map(|at| (at, at + 1));
    let below = (0..count - width).map(|at| (at, at + width));
    let both = right
        .chain(below)
        .flat_map(|(one, other)| [transfer(one, other, MB), transfer(other, one, MB)]);
    let tasks = (0..count).map(|each| task(&format!("t{each}"), 1.0)).collect();
    let mut draft = uniform(tasks, both.collect(), hosts, cpus, f64::INFINITY);
    draft.network.sharing = Sharing::Hose;
    for (number, host) in draft.network.hosts.iter_mut().enumerate() {
        let cap = bps((300.0 + 600.0 * number as f64 / hosts as f64) * MBIT);
        (host.egress, host.ingress) = (cap, cap);
    }
    draft.problem()
}

#[test]
fn bound_by_flows_sees_what_stars_do_not() {
    let problem = grid(16, 32, 9.0);
    assert!(problem.bound_s() <= 0.0, "a task and its neighbours fit on a host");
    let answer = brief(1).run(&problem, 0, &[]).expect("there is room");
    let (bound_s, seconds) = (
        problem.flows_bound_s(10_000_000, &|| false),
        problem.evaluate(&answer.assignment).seconds,
    );
    assert!(bound_s > 0.3 * seconds, "{bound_s} s of {seconds} s");
    assert!(bound_s <= seconds);
    assert!(problem.flows_bound_s(10_000_000, &|| true) <= 0.0, "no time, no bound");
}

#[test]
fn bound_by_volume_is_the_optimum_where_equal_tasks_fill_equal_hosts() {
    let all = (0..24).map(|each| task(&format!("t{each}"), 1.0)).collect();
    let pairs = (0..24).flat_map(|one| (0..24).map(move |other| (one, other)));
    let transfers = pairs.filter(|(one, other)| one != other);
    let transfers = transfers.map(|(one, other)| transfer(one, other, 1_000_000)).collect();
    let mut draft = uniform(all, transfers, 6, 4.0, f64::INFINITY);
    draft.network.sharing = Sharing::Hose;
    for host in &mut draft.network.hosts {
        (host.egress, host.ingress) = (bps(100.0 * MBIT), bps(100.0 * MBIT));
    }
    let problem = draft.problem();
    // Four tasks on a host send to the twenty others; a single task would keep three partners.
    let optimum_s = 4.0 * 20.0 * 8e6 / 100e6;
    let bound_s = problem.volume_bound_s();
    assert!(
        (bound_s / optimum_s - 1.0).abs() < 1e-6,
        "{bound_s} s, optimum {optimum_s} s"
    );
    assert!(problem.bound_s() < 0.3 * optimum_s);
}

#[test]
fn search_at_scale_is_never_above_its_starts_and_does_not_depend_on_threads() {
    let problem = grid(16, 32, 9.0);
    // Blocks of 4 x 2, assigned to hosts in order.
    let blocks: Vec<usize> = (0..256).map(|at| at / 16 / 2 * 4 + at % 16 / 4).collect();
    let start = problem.assignment(blocks.clone()).expect("there is room");
    for steps in [100, 40_000] {
        let search = |threads| Search {
            steps,
            threads,
            ..Search::default()
        };
        let answer = search(1)
            .run(&problem, 3, std::slice::from_ref(&blocks))
            .expect("a start is known");
        assert!(problem.evaluate(&answer.assignment).seconds <= problem.evaluate(&start).seconds);
        assert_eq!(
            answer,
            search(2)
                .run(&problem, 3, std::slice::from_ref(&blocks))
                .expect("a start is known")
        );
    }
}

#[test]
fn a_long_search_does_not_depend_on_threads() {
    // The first has few steps for each temperature, and the last is one for which several placements are optimal.
    for (problem, steps) in [
        (grid(8, 16, 4.0), 60_000),
        (grid(8, 16, 4.0), 900_000),
        (grid(3, 4, 3.0), 1_000_000),
    ] {
        let search = |threads| Search {
            steps,
            threads,
            ..Search::default()
        };
        let answer = search(1).run(&problem, 5, &[]).expect("there is room");
        assert_eq!(answer, search(2).run(&problem, 5, &[]).expect("there is room"));
    }
}

#[test]
fn chains_at_different_temperatures_find_the_best_tiling() {
    // Sixteen hosts of four cores hold a grid of 8 x 8 best in squares of 2 x 2.
    let problem = grid(8, 16, 4.0);
    let squares: Vec<usize> = (0..64).map(|at| at / 8 / 2 * 4 + at % 8 / 2).collect();
    let best_s = problem
        .evaluate(&problem.assignment(squares).expect("there is room"))
        .total_s();
    let search = Search {
        steps: 2_000_000,
        ..Search::default()
    };
    let answer = search.run(&problem, 1, &[]).expect("there is room");
    assert!(problem.evaluate(&answer.assignment).total_s() <= best_s * 1.000_001);
}
