//! The bounds of problems that are small enough to be checked by hand.

use crate::support::{Draft, bps, task, transfer, uniform};
use gavotte_assign::Problem;
use gavotte_net::{Seconds, Sharing};

#[test]
fn bound_is_tight_where_one_task_must_send_all() {
    let tasks = vec![task("a", 1.0), task("b", 1.0)];
    let draft = uniform(tasks, vec![transfer(0, 1, 1_000_000)], 2, 1.0, 8e6);
    assert!((draft.problem().bound_s() - 1.0).abs() < 1e-12);
}

/// A ring of equal tasks, each of which sends 1 MB to the next one. The hosts have 8 Mbit/s and hold three tasks.
fn ring_of(count: usize) -> Problem {
    let tasks = (0..count).map(|_| task("t", 1.0)).collect();
    let transfers = (0..count).map(|i| transfer(i, (i + 1) % count, 1_000_000)).collect();
    let mut draft = uniform(tasks, transfers, count, 3.0, f64::INFINITY);
    draft.network.sharing = Sharing::Hose;
    for host in &mut draft.network.hosts {
        (host.egress, host.ingress) = (bps(8e6), bps(8e6));
    }
    draft.problem()
}

#[test]
fn bound_by_sets_proves_what_stars_do_not() {
    // However tasks are grouped, 1 MB leaves each host: 1 s. A star of two tasks fits on a host and proves nothing.
    let problem = ring_of(12);
    assert!(problem.bound_s() < 1e-12);
    let bound_s = problem.sets_bound_s(Seconds(2.0), 10, 1_000_000, &|| false);
    assert!(bound_s > 0.98 && bound_s <= 1.0, "bound {bound_s} s");
}

/// Four hosts on two machines. A host's link of 1 Gbit/s to its neighbour hides that only 8 Mbit/s lead out of it. Each
/// of four tasks sends 1 MB to each of the next `partners` tasks.
fn on_two_machines(partners: usize) -> Problem {
    let mut draft = uniform((0..4).map(|_| task("t", 1.0)).collect(), Vec::new(), 4, 1.0, 1e9);
    draft.network.sharing = Sharing::Hose;
    for (number, host) in draft.network.hosts.iter_mut().enumerate() {
        (host.machine, host.egress, host.ingress) = (number / 2, bps(8e6), bps(8e6));
    }
    for one in 0..4 {
        let sent = (1..=partners).map(|step| transfer(one, (one + step) % 4, 1_000_000));
        draft.parts.transfers.extend(sent);
    }
    draft.problem()
}

#[test]
fn bound_looks_past_the_neighbours_on_a_machine() {
    // One of each task's three partners is on its machine. The other two are reached through the host's own cap: 2 s.
    let bound_s = on_two_machines(3).bound_s();
    assert!((bound_s - 2.0).abs() < 1e-9, "bound {bound_s} s");
}

#[test]
fn bound_by_sets_looks_at_a_machine_as_one_place() {
    // Each single task could have its one partner on the same machine, but not all tasks at once. 1 MB leaves each
    // machine, which has 16 Mbit/s.
    let problem = on_two_machines(1);
    assert!(problem.bound_s() < 0.1);
    let bound_s = problem.sets_bound_s(Seconds(4.0), 10, 1_000_000, &|| false);
    assert!(bound_s > 0.49 && bound_s <= 1.0, "bound {bound_s} s");
}

#[test]
fn bound_by_sets_leaves_light_edges_out_where_sets_are_too_many() {
    // The same ring among 60 tasks that all exchange single bytes: too many connected sets to list.
    let count = 60;
    let mut draft = uniform(
        (0..count).map(|_| task("t", 1.0)).collect(),
        Vec::new(),
        count,
        6.0,
        f64::INFINITY,
    );
    draft.network.sharing = Sharing::Hose;
    for host in &mut draft.network.hosts {
        (host.egress, host.ingress) = (bps(8e6), bps(8e6));
    }
    for one in 0..count {
        draft
            .parts
            .transfers
            .extend((1..count).map(|step| transfer(one, (one + step) % count, if step == 1 { 1_000_000 } else { 1 })));
    }
    let bound_s = draft.problem().sets_bound_s(Seconds(2.0), 10, 1_000_000, &|| false);
    assert!(bound_s > 0.98 && bound_s <= 1.0001, "bound {bound_s} s");
}

#[test]
fn bound_by_sets_counts_the_fast_pairs_under_pipe() {
    // Each host holds one task, so the four receivers of one task are behind four pairs, only one of which is fast.
    let mut draft = uniform((0..5).map(|_| task("t", 1.0)).collect(), Vec::new(), 5, 1.0, 8e6);
    draft.network.sharing = Sharing::Pipe;
    draft.network.rate_bps[1] = 1e9;
    draft
        .parts
        .transfers
        .extend((1..5).map(|target| transfer(0, target, 1_000_000)));
    let problem = draft.problem();
    assert!(problem.bound_s() < 0.3);
    let bound_s = problem.sets_bound_s(Seconds(2.0), 10, 1_000_000, &|| false);
    assert!(bound_s > 0.98 && bound_s <= 1.0, "bound {bound_s} s");
}

#[test]
fn bound_by_sets_needs_hosts_that_hang_together_under_pipe() {
    // Two pairs of hosts with fast links, and one ring of tasks that fits on neither pair alone.
    let tasks = (0..4).map(|_| task("t", 1.0)).collect();
    let transfers = (0..4).map(|i| transfer(i, (i + 1) % 4, 1_000_000)).collect();
    let mut draft = uniform(tasks, transfers, 4, 1.0, 8e6);
    draft.network.sharing = Sharing::Pipe;
    for (m, n) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
        draft.network.rate_bps[m * 4 + n] = 1e9;
    }
    let bound_s = draft.problem().sets_bound_s(Seconds(2.0), 10, 1_000_000, &|| false);
    assert!(bound_s > 0.98 && bound_s <= 1.0, "bound {bound_s} s");
}

/// Two groups of four hosts. Pairs within a group are fast. Between the groups, one pair is fast, and all others have
/// `between` bit/s.
fn two_groups(tasks: usize, between: f64) -> Draft {
    let mut draft = uniform((0..tasks).map(|_| task("t", 1.0)).collect(), Vec::new(), 8, 1.0, 1e9);
    draft.network.sharing = Sharing::Pipe;
    for (m, n) in (0..8_usize).flat_map(|m| (0..8_usize).map(move |n| (m, n))) {
        if m / 4 != n / 4 && m.abs_diff(n) != 7 {
            draft.network.rate_bps[m * 8 + n] = between;
        }
    }
    draft
}

#[test]
fn bound_by_sets_finds_a_group_of_hosts_with_slow_pairs_to_all_others() {
    // Eight tasks in a cube, each of which sends 1 MB to three others. Each host has three fast pairs, so no single host
    // proves anything. But four transfers lead from any four of the tasks to the others, and one pair is fast.
    let mut draft = two_groups(8, 8e6);
    for (one, other) in (0..8).flat_map(|one| [1, 2, 4].map(move |bit| (one, one ^ bit))) {
        draft.parts.transfers.push(transfer(one, other, 1_000_000));
    }
    let bound_s = draft.problem().sets_bound_s(Seconds(2.0), 10, 1_000_000, &|| false);
    assert!(bound_s > 0.98 && bound_s <= 1.0, "bound {bound_s} s");
}

#[test]
fn bound_by_sets_lets_spare_hosts_stay_empty() {
    // A ring of four tasks fits in one group, so the slow pairs between the groups prove nothing.
    let mut draft = two_groups(4, 8e6);
    for (one, other) in (0..4).flat_map(|one| [1, 2].map(move |bit| (one, one ^ bit))) {
        draft.parts.transfers.push(transfer(one, other, 1_000_000));
    }
    let bound_s = draft.problem().sets_bound_s(Seconds(2.0), 10, 1_000_000, &|| false);
    assert!(
        bound_s <= 0.008,
        "bound {bound_s} s, but a placement in one group takes 0.008 s"
    );
}

#[test]
fn bound_by_sets_counts_what_all_tasks_on_a_host_exchange_together() {
    // 16 tasks in a cube of four dimensions fill eight hosts. For 1.11 s, the first host can exchange 1 MB with five hosts
    // and nothing with the two others. Two tasks that exchange bytes have six partners. Two that do not have four each: either
    // task could be there, but not both.
    let tasks = (0..16).map(|_| task("t", 1.0)).collect();
    let cube = (0..16).flat_map(|one: usize| [1, 2, 4, 8].map(move |bit| transfer(one, one ^ bit, 1_000_000)));
    let mut draft = uniform(tasks, cube.collect(), 8, 2.0, 1e9);
    draft.network.sharing = Sharing::Pipe;
    for other in 1..8 {
        let rate_bps = if other < 6 { 14.4e6 } else { 7.2e6 };
        (draft.network.rate_bps[other], draft.network.rate_bps[other * 8]) = (rate_bps, rate_bps);
    }
    let bound_s = draft.problem().sets_bound_s(Seconds(3.0), 10, 10_000_000, &|| false);
    assert!(bound_s > 1.09 && bound_s <= 1.1112, "bound {bound_s} s");
}
