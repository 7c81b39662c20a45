//! Searches that start from minimum cuts.

use crate::support::{MB, MBIT, group, task, transfer, uniform};
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

#[test]
fn blocks_stay_on_hosts_of_their_number_and_give_way_where_they_do_not_fit() {
    let problem = ring(64, 16);
    // The ring goes through tasks 0, 7, 14, ...: its part of four neighbours is a block.
    let place_in_ring = |task: usize| (0..64).find(|number| number * 7 % 64 == task).expect("in the ring");
    let blocks: Vec<usize> = (0..64).map(|task| place_in_ring(task) / 4).collect();
    let laid = problem.lay_blocks(&blocks, 0, 2).expect("there is room");
    assert!((problem.evaluate(&laid).seconds - 1.0).abs() < 1e-9);
    let crowded = problem.lay_blocks(&[0; 64], 0, 2).expect("others have room");
    for host in 0..16 {
        assert_eq!(crowded.hosts().iter().filter(|&&at| at == host).count(), 4);
    }
}

#[test]
fn blocks_that_exchange_bytes_share_a_rack() {
    let sent = (0..4).map(|pair| transfer(pair, pair + 4, MB));
    let named = (0..8).map(|number| task(&format!("t{number}"), 1.0)).collect();
    let mut draft = uniform(named, sent.collect(), 8, 1.0, 8.0 * MBIT);
    draft.network.sharing = gavotte_net::Sharing::Groups;
    draft.network.groups = (0..4)
        .map(|rack| group(&format!("r{rack}"), &[2 * rack, 2 * rack + 1], MBIT, None))
        .collect();
    let problem = draft.problem();
    let apart = problem.assignment((0..8).collect()).expect("eight hosts");
    assert!(problem.evaluate(&apart).seconds > 1.5);
    let laid = problem
        .lay_blocks(&[0, 1, 2, 3, 4, 5, 6, 7], 0, 1)
        .expect("there is room");
    assert!((problem.evaluate(&laid).seconds - 1.0).abs() < 1e-9);
}

#[test]
fn the_graph_of_units_has_each_edge_twice_with_the_bytes_of_both_directions() {
    let named = (0..3)
        .map(|number| task(&format!("t{number}"), 1.0 + f64::from(number)))
        .collect();
    let sent = vec![transfer(0, 1, 5), transfer(1, 0, 7), transfer(2, 1, 3)];
    let graph = uniform(named, sent, 2, 4.0, MBIT).problem().unit_graph();
    assert_eq!(graph.first, [0, 1, 3, 4]);
    assert_eq!(graph.others, [1, 0, 2, 1]);
    assert_eq!(graph.bytes, [12.0, 12.0, 3.0, 3.0]);
    assert_eq!(graph.size, [1e9, 2e9, 3e9]);
    assert_eq!(graph.room, [4e9, 4e9]);
}
