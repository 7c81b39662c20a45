//! The limits of long computations: they ask whether to stop, and count their work if there is no clock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Draft, MB, MBIT, optimum, task, transfer, uniform};
use gavotte_assign::Search;
use gavotte_net::Seconds;

/// All-to-all transfers of different sizes, whose placements are seldom a local optimum.
fn dense(tasks: usize, hosts: usize) -> Draft {
    let ways = (0..tasks).flat_map(|one| (0..tasks).map(move |other| (one, other)));
    let sent = |(one, other): (usize, usize)| transfer(one, other, (1 + (one * 7 + other * 13) % 29) as u64 * MB);
    let transfers = ways.filter(|(one, other)| one != other).map(sent).collect();
    let tasks = (0..tasks).map(|number| task(&format!("t{number}"), 1.0)).collect();
    let mut draft = uniform(tasks, transfers, hosts, 4.0, 100.0 * MBIT);
    for (m, rate) in draft.network.rate_bps.iter_mut().enumerate() {
        *rate = (1 + m * 31 % 17) as f64 * 10.0 * MBIT;
    }
    draft
}

#[test]
fn the_polish_after_a_search_counts_what_it_tries() {
    let problem = dense(40, 16).problem();
    let asked = AtomicU64::new(0);
    let late = || {
        asked.fetch_add(1, Ordering::Relaxed);
        false
    };
    let search = Search {
        steps: 1,
        threads: 1,
        late: &late,
        ..Search::default()
    };
    search.run(&problem, 0, &[]).unwrap();
    // The search allows half a million exchanges, and a move of a task considers at least 78.
    let tried = asked.load(Ordering::Relaxed);
    assert!((1..=500_000 / 78).contains(&tried), "{tried} moves tried");
}

#[test]
fn the_polish_ends_when_it_is_late() {
    let problem = dense(24, 8).problem();
    let asked = AtomicU64::new(0);
    let late = || asked.fetch_add(1, Ordering::Relaxed) >= 10;
    let search = Search {
        threads: 1,
        gone: &|| 1.0,
        late: &late,
        ..Search::default()
    };
    let answer = search.run(&problem, 0, &[]).unwrap();
    assert!(answer.stopped);
    // Once in the pass that the limit ends, and once in the next one.
    assert!(asked.load(Ordering::Relaxed) <= 12);
}

#[test]
fn a_signal_ends_the_search_of_a_large_problem_at_every_level() {
    let ring = |tasks: usize| (0..tasks).map(move |task| transfer(task, (task + 1) % tasks, MB));
    let tasks = (0..400).map(|number| task(&format!("t{number}"), 1.0)).collect();
    let problem = uniform(tasks, ring(400).collect(), 120, 4.0, 100.0 * MBIT).problem();
    let search = Search {
        steps: 1 << 62,
        threads: 1,
        gone: &|| f64::INFINITY,
        ..Search::default()
    };
    let answer = search.run(&problem, 0, &[]).unwrap();
    assert!(answer.steps < 1_000_000, "{} steps", answer.steps);
}

#[test]
fn the_bound_by_sets_looks_at_the_clock_while_it_lists_them() {
    let problem = dense(30, 12).problem();
    let asked = AtomicU64::new(0);
    let over = || {
        asked.fetch_add(1, Ordering::Relaxed);
        false
    };
    problem.sets_bound_s(Seconds(1e6), 1, 1, &over);
    // At least ten thousand sets are listed; the one round asks ten times.
    assert!(asked.load(Ordering::Relaxed) > 30);
    assert!((problem.sets_bound_s(Seconds(1e6), 10, 1_000_000, &|| true) - problem.bound_s()).abs() < 1e-9);
}

#[test]
fn few_placements_are_all_tried() {
    let quick = Search {
        steps: 1,
        threads: 1,
        ..Search::default()
    };
    let few = dense(5, 4).problem();
    let result = quick.run(&few, 0, &[]).unwrap();
    assert!(result.tried_all && !result.stopped);
    assert_eq!(Some(few.evaluate(&result.assignment).seconds), optimum(&few));
    assert!(!quick.run(&dense(12, 8).problem(), 0, &[]).unwrap().tried_all);
}
