//! The greedy placement's properties in the Choreo paper, and small cases worked out by hand.

use crate::support::{MB, MBIT, bps, optimum, task, transfer, uniform};
use gavotte_assign::{Greedy, PlaceError, Policy, Problem, policies, policy};
use gavotte_net::Sharing;

/// Figure 9: a ring of four one-core machines. Paths that the figure does not show are slow.
fn figure_9() -> Problem {
    let tasks = (1..=4).map(|j| task(&format!("J{j}"), 1.0)).collect();
    let transfers = vec![
        transfer(0, 1, 100 * MB),
        transfer(0, 2, 50 * MB),
        transfer(1, 3, 50 * MB),
    ];
    let mut draft = uniform(tasks, transfers, 4, 1.0, 0.1 * MBIT);
    for (m, n, rate) in [(0, 1, 1.0), (0, 2, 10.0), (1, 3, 8.0), (2, 3, 9.0)] {
        draft.network.rate_bps[m * 4 + n] = rate * MBIT;
        draft.network.rate_bps[n * 4 + m] = rate * MBIT;
    }
    draft.problem()
}

#[test]
fn greedy_is_not_optimal_in_figure_9() {
    let problem = figure_9();
    let greedy = Greedy.place(&problem, 0).expect("room for all");
    assert_eq!(
        greedy.hosts(),
        [0, 2, 1, 3],
        "J1 and J2 on the path of rate 10, J3 behind that of rate 1"
    );
    assert!((problem.evaluate(&greedy).seconds - 400.0).abs() < 1e-9);

    let best = problem.assignment(vec![2, 3, 0, 1]).expect("the paper's optimum");
    let best_s = problem.evaluate(&best).seconds;
    assert!((best_s - 800.0 / 9.0).abs() < 1e-9);
    assert_eq!(optimum(&problem), Some(best_s));
}

#[test]
fn greedy_puts_a_pair_on_one_host_if_it_fits() {
    let draft = uniform(
        vec![task("a", 2.0), task("b", 2.0)],
        vec![transfer(0, 1, MB)],
        3,
        4.0,
        MBIT,
    );
    let problem = draft.problem();
    let placed = Greedy.place(&problem, 0).expect("room for all");
    assert_eq!(placed.hosts(), [0, 0]);
    let completion = problem.evaluate(&placed);
    assert!(completion.seconds.abs() < f64::EPSILON);
    assert_eq!(completion.bottleneck(), None);
}

#[test]
fn both_tasks_of_a_pair_must_fit_together() {
    let draft = uniform(
        vec![task("a", 3.0), task("b", 3.0)],
        vec![transfer(0, 1, MB)],
        2,
        4.0,
        MBIT,
    );
    let problem = draft.problem();
    assert_eq!(Greedy.place(&problem, 0).expect("room for all").hosts(), [0, 1]);
}

/// A hub task that sends to four leaves. The hub's host has an egress of 10 and a path of 6 Mbit/s to each other host.
fn hub(sharing: Sharing) -> Problem {
    let tasks = (0..5).map(|j| task(&format!("t{j}"), 1.0)).collect();
    let transfers = (1..5).map(|j| transfer(0, j, (10 - j as u64) * MB)).collect();
    let mut draft = uniform(tasks, transfers, 3, 2.0, 6.0 * MBIT);
    draft
        .network
        .hosts
        .iter_mut()
        .for_each(|host| host.egress = bps(10.0 * MBIT));
    draft.network.sharing = sharing;
    draft.problem()
}

#[test]
fn hose_rates_fall_with_the_connections_out_of_a_host_and_pipe_rates_do_not() {
    let hose = hub(Sharing::Hose);
    let placed = Greedy.place(&hose, 0).expect("room for all");
    // t1 joins t0. After that all hosts are equal for each further task, since the tasks share one egress.
    assert_eq!(placed.hosts(), [0, 0, 1, 1, 2]);
    let bottleneck = hose.evaluate(&placed).bottleneck().expect("bytes cross");
    assert_eq!(hose.network().link_name(bottleneck.link), "path from vm0 to vm1");
    assert_eq!(bottleneck.bytes, 15 * MB);
    // Under the pipe model the second transfer on a path would get half of it.
    let pipe = Greedy.place(&hub(Sharing::Pipe), 0).expect("room for all");
    assert_eq!(pipe.hosts(), [0, 0, 1, 2, 1]);
}

#[test]
fn a_large_task_left_for_last_finds_no_host() {
    let tasks = vec![task("small-0", 1.0), task("small-1", 1.0), task("big", 2.0)];
    let mut draft = uniform(tasks, vec![transfer(0, 1, MB)], 2, 2.0, MBIT);
    draft.parts.capacity[1].cpus = 1.0;
    let error = Greedy.place(&draft.problem(), 0).expect_err("no room");
    let PlaceError::NoRoom { task, needs, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((task.as_str(), needs.as_str()), ("big", "2 cpus"));
}

#[test]
fn a_task_larger_than_every_host_is_told_apart() {
    for policy in policies() {
        let mut draft = uniform(vec![task("huge", 9.0)], vec![], 2, 4.0, MBIT);
        draft.parts.tasks[0].stores.memory_bytes = 5;
        draft.parts.tasks[0].stores.storage_bytes = 7;
        let error = policy.place(&draft.problem(), 1).expect_err("no room");
        let words = "task `huge` needs 9 cpus and 5 bytes of memory and 7 bytes of storage, more than any host it may use offers";
        assert_eq!(error.to_string(), words, "{}", policy.name());
    }
}

#[test]
fn baselines_follow_section_6() {
    let tasks = [2.0, 1.0, 2.0, 1.0].iter().map(|&cpus| task("t", cpus)).collect();
    let problem = uniform(tasks, vec![], 3, 3.0, MBIT).problem();
    let place = |name: &str| {
        policy(name)
            .expect("known")
            .place(&problem, 7)
            .expect("room")
            .into_hosts()
    };
    assert_eq!(place("round-robin"), [0, 1, 2, 0]);
    assert_eq!(place("min-machines"), [0, 0, 1, 1]);
    assert_eq!(place("random"), place("random"));
    assert!(policy("fastest").is_err_and(|error| error.known == "greedy, random, round-robin, min-machines"));
}

#[test]
fn thirds_of_a_core_fill_a_core() {
    let tasks = (0..6).map(|_| task("t", 1.0 / 3.0)).collect();
    let problem = uniform(tasks, vec![], 2, 1.0, MBIT).problem();
    assert_eq!(
        policy("min-machines")
            .expect("known")
            .place(&problem, 0)
            .expect("room")
            .hosts(),
        [0, 0, 0, 1, 1, 1]
    );
}

#[test]
fn a_pinned_task_keeps_its_room_and_pins_can_overbook() {
    let tasks: Vec<_> = (0..2).map(|j| task(&format!("t{j}"), 1.0)).collect();
    let mut draft = uniform(tasks, vec![], 2, 1.0, MBIT);
    draft.parts.tasks[1].hosts = Some(vec![0]);
    let problem = draft.clone().problem();
    for policy in policies() {
        let placed = policy.place(&problem, 3).expect("room for both");
        assert_eq!(placed.hosts(), [1, 0], "{}", policy.name());
    }
    draft.parts.tasks[0].hosts = Some(vec![0]);
    let problem = draft.problem();
    for policy in policies() {
        let error = policy.place(&problem, 3).expect_err("both on vm0");
        assert_eq!(
            error.to_string(),
            "host `vm0` has no room for task `t1`, which needs 1 cpus"
        );
    }
}
