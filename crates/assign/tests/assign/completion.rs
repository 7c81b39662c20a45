//! Completion times worked out by hand: which transfers load which links.

use crate::support::{MB, MBIT, bps, group, task, transfer, uniform};
use gavotte_assign::{Parts, Problem, ProblemError, Transfer};
use gavotte_net::Sharing;

/// Hosts 0 and 1 on one machine, 2 alone, 3 in another group, with one task for each host.
fn cluster(sharing: Sharing, transfers: Vec<Transfer>) -> Problem {
    let tasks = (0..4).map(|j| task(&format!("t{j}"), 1.0)).collect();
    let mut draft = uniform(tasks, transfers, 4, 1.0, 8.0 * MBIT);
    draft.network.hosts[1].machine = 0;
    for host in &mut draft.network.hosts {
        (host.egress, host.ingress) = (bps(4.0 * MBIT), bps(2.0 * MBIT));
    }
    draft.network.groups = vec![
        group("rack0", &[0, 1], MBIT, Some(2)),
        group("rack1", &[2], MBIT, Some(2)),
        group("row0", &[], 0.5 * MBIT, None),
    ];
    draft.network.sharing = sharing;
    draft.problem()
}

/// The seconds and the bottleneck's name, with task `j` on host `j`.
fn evaluated(problem: &Problem) -> (f64, String) {
    let completion = problem.evaluate(&problem.assignment(vec![0, 1, 2, 3]).expect("one task a host"));
    let link = completion
        .bottleneck()
        .map(|bottleneck| problem.network().link_name(bottleneck.link));
    (completion.seconds, link.unwrap_or_default())
}

#[test]
fn each_sharing_model_adds_links() {
    let far = vec![transfer(0, 3, MB)];
    assert_eq!(
        evaluated(&cluster(Sharing::Pipe, far.clone())),
        (1.0, "path from vm0 to vm3".into())
    );
    assert_eq!(
        evaluated(&cluster(Sharing::Hose, far.clone())),
        (4.0, "ingress of vm3".into())
    );
    assert_eq!(
        evaluated(&cluster(Sharing::Groups, far)),
        (16.0, "up link of row0".into())
    );
    let within_row = vec![transfer(0, 2, MB)];
    assert_eq!(
        evaluated(&cluster(Sharing::Groups, within_row)),
        (8.0, "up link of rack0".into())
    );
}

#[test]
fn hosts_of_one_machine_load_their_pair_only() {
    for sharing in [Sharing::Pipe, Sharing::Hose, Sharing::Groups] {
        let near = vec![transfer(0, 1, MB), transfer(0, 1, MB)];
        assert_eq!(evaluated(&cluster(sharing, near)), (2.0, "path from vm0 to vm1".into()));
    }
}

#[test]
fn egress_adds_up_over_targets_and_ingress_over_sources() {
    let spread = vec![transfer(0, 2, MB), transfer(0, 3, 2 * MB)];
    assert_eq!(
        evaluated(&cluster(Sharing::Hose, spread)),
        (8.0, "ingress of vm3".into())
    );
    let gather = vec![transfer(0, 3, MB), transfer(1, 3, MB), transfer(2, 3, MB)];
    assert_eq!(
        evaluated(&cluster(Sharing::Hose, gather)),
        (12.0, "ingress of vm3".into())
    );
}

#[test]
fn phases_run_one_after_the_other() {
    let later = Transfer {
        phase: 5,
        ..transfer(2, 3, 3 * MB)
    };
    let problem = cluster(Sharing::Pipe, vec![later, transfer(0, 3, MB)]);
    assert_eq!(evaluated(&problem), (4.0, "path from vm2 to vm3".into()));
    let completion = problem.evaluate(&problem.assignment(vec![0, 1, 2, 3]).expect("one task a host"));
    assert_eq!(
        completion.phases.iter().map(|phase| phase.phase).collect::<Vec<_>>(),
        [0, 5]
    );
}

#[test]
fn nonsense_is_refused_by_name() {
    let sound = || {
        uniform(
            vec![task("a", 1.0), task("b", 1.0)],
            vec![transfer(0, 1, MB)],
            2,
            1.0,
            MBIT,
        )
    };
    let refused = |spoil: &dyn Fn(&mut Parts)| {
        let mut draft = sound();
        spoil(&mut draft.parts);
        draft.checked().expect_err("nonsense").to_string()
    };
    assert!(refused(&|parts| parts.tasks[0].cpus = f64::INFINITY).contains("task `a` has inf cpus"));
    assert!(refused(&|parts| parts.tasks[0].hosts = Some(vec![2])).contains("allowed host of task `a` is 2"));
    assert!(refused(&|parts| parts.transfers[0].target = 2).contains("the target of transfer 0 is 2"));
    assert!(refused(&|parts| parts.transfers[0].target = 0).contains("task `a` to itself"));
    assert!(refused(&|parts| parts.capacity.truncate(1)).contains("has 1 entries"));
    let endless = |parts: &mut Parts| parts.transfers = vec![transfer(0, 1, u64::MAX), transfer(1, 0, 1)];
    assert!(refused(&endless).contains("2^64"));
    let mut nowhere = sound();
    nowhere.parts.tasks[1].hosts = Some(vec![]);
    assert_eq!(
        nowhere.checked().expect_err("nonsense"),
        ProblemError::NowhereAllowed("b".into())
    );
}
