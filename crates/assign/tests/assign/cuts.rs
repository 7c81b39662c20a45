//! Searches that start from minimum cuts.

use crate::support::{MB, MBIT, task, transfer, uniform};
use gavotte_assign::{Problem, Search};

/// A ring of tasks of one core on hosts that are exactly full.
fn ring(tasks: usize, hosts: usize) -> Problem {
    let sent = (0..tasks).map(|number| transfer(number * 7 % tasks, (number + 1) * 7 % tasks, MB));
    let named = (0..tasks).map(|number| task(&format!("t{number}"), 1.0)).collect();
    let mut draft = uniform(named, sent.collect(), hosts, (tasks / hosts) as f64, 8.0 * MBIT);
    draft.network.sharing = gavotte_net::Sharing::Hose;
    for host in &mut draft.network.hosts {
        host.egress = crate::support::bps(8.0 * MBIT);
        host.ingress = host.egress;
    }
    draft.problem()
}

#[test]
fn full_hosts_get_neighbours_by_cuts_alone() {
    for (tasks, hosts, most_s) in [(64, 16, 1.0), (512, 64, 2.0), (3000, 375, 3.0)] {
        let problem = ring(tasks, hosts);
        let search = Search {
            steps: 1,
            ..Search::default()
        };
        let answer = search.run(&problem, 0, &[]).expect("there is room");
        let seconds = problem.evaluate(&answer.assignment).seconds;
        assert!(seconds <= most_s, "{tasks} tasks on {hosts} hosts: {seconds} s");
    }
}

#[test]
fn cuts_do_not_depend_on_threads() {
    let problem = ring(3000, 375);
    let search = |threads| Search {
        steps: 1000,
        threads,
        ..Search::default()
    };
    let one = search(1).run(&problem, 5, &[]).expect("there is room");
    assert_eq!(one, search(2).run(&problem, 5, &[]).expect("there is room"));
}
