//! Trees of the paper, trees worked out by hand, and properties of all trees.

use gavotte_collective::{Costs, Eager, Tree, TreeError, TreeOperation, begun, binomial, ecef, fnf, search, time};
use gavotte_net::Volume;
use proptest::prelude::*;

fn weights(rows: &[&[f64]]) -> Costs {
    let hosts = rows.len();
    Costs::new(hosts, rows.concat(), vec![0.0; hosts * hosts]).unwrap()
}

/// Host i is Machine i + 1 of Fig. 1. The paper's text gives the first choices and the longest paths, its picture the
/// weights. These weights are small integers that agree with the text.
fn figure_1(first_to_third: f64) -> Costs {
    weights(&[
        &[0.0, 2.0, first_to_third, 5.0, 6.0, 3.0],
        &[2.0, 0.0, 5.0, 5.0, 4.0, 3.0],
        &[first_to_third, 5.0, 0.0, 7.0, 3.0, 2.0],
        &[5.0, 5.0, 7.0, 0.0, 1.0, 1.0],
        &[6.0, 4.0, 3.0, 1.0, 0.0, 1.0],
        &[3.0, 3.0, 2.0, 1.0, 1.0, 0.0],
    ])
}

/// The sum of the weights to the farthest host, as in the figure.
fn longest_path(costs: &Costs, tree: &Tree) -> f64 {
    let parents = tree.parents();
    let mut path = vec![0.0; tree.hosts()];
    for &host in &tree.order()[1..] {
        path[host] = path[parents[host]] + costs.seconds(parents[host], host, Volume(0.0));
    }
    path.into_iter().fold(0.0, f64::max)
}

#[test]
fn figure_1a() {
    let costs = figure_1(1.0);
    let tree = fnf(&costs, 0, Volume(0.0)).unwrap();
    // Machine 1 sends to 3; then 1 to 2 and 3 to 6; then 1 to 4 and 3 to 5.
    assert_eq!(tree.children(0), [2, 1, 3]);
    assert_eq!(tree.children(2), [5, 4]);
    assert!((longest_path(&costs, &tree) - 5.0).abs() < 1e-12);
}

#[test]
fn figure_1b() {
    let costs = figure_1(4.0);
    let tree = fnf(&costs, 0, Volume(0.0)).unwrap();
    assert_eq!(tree.children(0), [1, 5, 2]);
    assert_eq!(tree.children(1), [4, 3]);
    assert!((longest_path(&costs, &tree) - 7.0).abs() < 1e-12);
}

#[test]
fn binomial_is_mpichs() {
    let tree = binomial(8, 0).unwrap();
    assert_eq!(tree.children(0), [4, 2, 1]);
    assert_eq!(tree.children(4), [6, 5]);
    assert_eq!(tree.children(6), [7]);
    let turned = binomial(6, 4).unwrap();
    assert_eq!(turned.children(4), [2, 0, 5]);
    assert_eq!(turned.children(2), [3]);
    assert_eq!(turned.children(0), [1]);
}

#[test]
fn a_chain_in_segments() {
    // Three equal links with 1 s per byte and 0.5 s latency: 4 segments of 1 byte pass down a chain of 4 hosts.
    let costs = Costs::new(4, vec![0.5; 16], vec![1.0; 16]).unwrap();
    let chain = Tree::from_parents(0, &[0, 0, 1, 2], &[0, 1, 2, 3]).unwrap();
    let operation = TreeOperation {
        bytes: 4.0,
        segments: 4,
        scatter: false,
    };
    // A host sends the next segment while the one before is under way.
    assert!((time(&costs, &chain, operation).unwrap() - (3.0 * 1.5 + 3.0 * 1.0)).abs() < 1e-12);
    // Unsplit, each link carries 4 bytes; scattered, the links carry 12, 8 and 4.
    let whole = TreeOperation {
        segments: 1,
        ..operation
    };
    assert!((time(&costs, &chain, whole).unwrap() - 13.5).abs() < 1e-12);
    let scatter = TreeOperation { scatter: true, ..whole };
    assert!((time(&costs, &chain, scatter).unwrap() - (12.5 + 8.5 + 4.5)).abs() < 1e-12);
}

#[test]
fn no_trees() {
    for (children, said) in [
        (vec![vec![1], vec![0]], "reached twice"),
        (vec![vec![], vec![]], "not reached"),
        (vec![vec![7], vec![]], "no host 7"),
    ] {
        assert!(Tree::new(0, children).unwrap_err().to_string().contains(said));
    }
    assert!(Tree::new(3, vec![vec![]]).is_err());
    assert!(Tree::from_parents(0, &[0, 5], &[0, 1]).is_err());
    assert!(Tree::from_parents(0, &[0, 0], &[0]).is_err());
    assert!(Costs::new(2, vec![0.0; 4], vec![0.0, f64::NAN, 1.0, 0.0]).is_err());
    assert!(Costs::new(2, vec![0.0; 3], vec![0.0; 4]).is_err());
    assert!(binomial(4, 4).is_err());
    assert!(binomial(0, 0).is_err());
}

fn random_costs() -> impl Strategy<Value = (Costs, usize)> {
    (1_usize..14).prop_flat_map(|hosts| {
        let matrix = |most: f64| prop::collection::vec(0.0..most, hosts * hosts);
        (matrix(0.01), matrix(1e-6), 0..hosts)
            .prop_map(move |(alpha_s, per_byte_s, root)| (Costs::new(hosts, alpha_s, per_byte_s).unwrap(), root))
    })
}

/// The time when each host has each segment, event by event: host by host in order, segment by segment, child by child.
fn replayed(costs: &Costs, tree: &Tree, operation: TreeOperation) -> f64 {
    let (pieces, sizes) = (operation.segments as usize, tree.sizes());
    let mut arrived_s = vec![vec![0.0_f64; pieces]; tree.hosts()];
    let mut end = 0.0_f64;
    for host in tree.order() {
        let mut free = 0.0_f64;
        for (piece, came) in arrived_s[host].clone().into_iter().enumerate() {
            free = free.max(came);
            for &child in tree.children(host) {
                let blocks = if operation.scatter { sizes[child] as f64 } else { 1.0 };
                free += costs.busy_s(host, child, Volume(operation.bytes / pieces as f64 * blocks));
                arrived_s[child][piece] = free + costs.latency_s(host, child);
            }
        }
        end = end.max(arrived_s[host][pieces - 1]);
    }
    end
}

proptest! {
    #[test]
    fn the_closed_form_is_the_replay(
        (costs, root) in random_costs(), bytes in 0.0..1e6, segments in 1_u32..9, scatter: bool, most_children in 1_usize..4,
    ) {
        let operation = TreeOperation { bytes, segments, scatter };
        for tree in [
            binomial(costs.hosts(), root).unwrap(),
            fnf(&costs, root, Volume(bytes)).unwrap(),
            ecef(&costs, root, Volume(bytes), Eager { most_children, ..Eager::default() }).unwrap(),
            ecef(&costs, root, Volume(bytes), Eager { look_ahead: true, ..Eager::default() }).unwrap(),
        ] {
            let (closed, event) = (time(&costs, &tree, operation).unwrap(), replayed(&costs, &tree, operation));
            prop_assert!((closed - event).abs() <= 1e-9 * event.max(1.0), "{closed} {event}");
        }
    }

    #[test]
    fn the_search_never_loses_to_what_it_starts_from(
        (costs, root) in random_costs(), bytes in 0.0..1e6, scatter: bool, seed: u64,
    ) {
        let operation = TreeOperation { bytes, segments: 8, scatter };
        let answer = search(&costs, root, operation, 2000, seed).unwrap();
        prop_assert!(answer.segments >= 1 && answer.segments <= 8);
        prop_assert_eq!(answer.tree.root(), root);
        let again = time(&costs, &answer.tree, TreeOperation { segments: answer.segments, ..operation }).unwrap();
        prop_assert!((again - answer.seconds).abs() <= 1e-12 * again.max(1.0));
        for tree in [binomial(costs.hosts(), root).unwrap(), fnf(&costs, root, Volume(bytes)).unwrap()] {
            let whole = time(&costs, &tree, TreeOperation { segments: 1, ..operation }).unwrap();
            prop_assert!(answer.seconds <= whole * (1.0 + 1e-12));
        }
        let twin = search(&costs, root, operation, 2000, seed).unwrap();
        prop_assert_eq!(answer.tree, twin.tree);
    }

    #[test]
    fn transfers_begin_once_their_sender_has_the_message(
        entries in prop::collection::vec(0.1..10.0_f64, 1..100), root in 0..10_usize,
    ) {
        let size = entries.len().isqrt();
        let costs = Costs::new(size, entries[..size * size].to_vec(), vec![0.0; size * size]).unwrap();
        let tree = ecef(&costs, root % size, Volume(0.0), Eager::default()).unwrap();
        let (order, parent) = (begun(&costs, &tree, Volume(0.0)).unwrap(), tree.parents());
        let mut known = vec![false; size];
        known[root % size] = true;
        prop_assert_eq!(order[0], root % size);
        for &host in &order[1..] {
            prop_assert!(known[parent[host]] && !known[host]);
            known[host] = true;
        }
        prop_assert!(known.iter().all(|known| *known));
        prop_assert_eq!(Tree::from_parents(root % size, &parent, &order).unwrap(), tree);
    }

    #[test]
    fn a_chain_keeps_its_limit((costs, root) in random_costs(), most_children in 1_usize..4) {
        let tree = ecef(&costs, root, Volume(1e6), Eager { most_children, ..Eager::default() }).unwrap();
        prop_assert!((0..costs.hosts()).all(|host| tree.children(host).len() <= most_children));
    }
}

#[test]
fn a_tree_says_whom_it_cannot_reach() {
    let no = f64::INFINITY;
    let costs = weights(&[&[no, 1.0, no], &[1.0, no, no], &[no, no, no]]);
    assert_eq!(
        ecef(&costs, 0, Volume(0.0), Eager::default()),
        Err(TreeError::Unreachable(2))
    );
    let look_ahead = Eager {
        look_ahead: true,
        ..Eager::default()
    };
    assert_eq!(ecef(&costs, 0, Volume(0.0), look_ahead), Err(TreeError::Unreachable(2)));
    let operation = TreeOperation {
        bytes: 1.0,
        segments: 4,
        scatter: false,
    };
    assert_eq!(
        search(&costs, 0, operation, 100, 0).unwrap_err(),
        TreeError::Unreachable(2)
    );
}

#[test]
fn what_cannot_be_used_is_not_even_for_nothing() {
    let costs = Costs::new(
        3,
        vec![0.0; 9],
        vec![0.0, f64::INFINITY, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0],
    )
    .unwrap();
    assert!(costs.seconds(0, 1, Volume(0.0)).is_infinite());
    let operation = TreeOperation {
        bytes: 1.0,
        segments: 4,
        scatter: false,
    };
    let answer = search(&costs, 0, operation, 100, 0).unwrap();
    assert_eq!(answer.tree.parents(), [0, 2, 0]);
}

#[test]
fn the_earliest_completion_goes_first() {
    // 0 sends to 1 in 1 s. Then 1 sends to 2 in 1 s, which would take 0 3 s.
    let far = 9.0;
    let costs = weights(&[&[far, 1.0, 3.0], &[far, far, 1.0], &[far, far, far]]);
    let tree = ecef(&costs, 0, Volume(0.0), Eager::default()).unwrap();
    assert_eq!(
        (tree.parents(), begun(&costs, &tree, Volume(0.0)).unwrap()),
        (vec![0, 0, 1], vec![0, 1, 2])
    );
}
