//! The duration of an operation along a tree; the only evaluator of trees.

use gavotte_net::Volume;

use crate::costs::Costs;
use crate::error::TreeError;
use crate::operation::TreeOperation;
use crate::shape::Shape;
use crate::tree::Tree;

/// Seconds until the last host has all of its bytes.
///
/// 1. A host sends one message at a time, which occupies it for bytes/beta. The message arrives alpha later. A host may
///    receive at the same time.
/// 2. It sends the first segment to all its children in their order, then the second, each as soon as it has it.
/// 3. Segments then arrive at a steady pace, so no list of events is needed. Suppose a host gets its first segment at
///    `a` and then one every `p` seconds, and sending one segment to all its children takes `c`. Child k gets its first
///    segment at `a` + (the first k of those times) and then one every max(`p`, `c`).
///
/// # Errors
///
/// If the tree and the costs have different hosts, or if the bytes are invalid.
pub fn time(costs: &Costs, tree: &Tree, operation: TreeOperation) -> Result<f64, TreeError> {
    let operation = operation.check()?;
    let (hosts, found) = (costs.hosts(), tree.hosts());
    if found != hosts {
        let why = format!("it has {found}");
        return Err(TreeError::NoTree { hosts, why });
    }
    Ok(Shape::of(tree).timed(costs, operation).end_s)
}

/// All hosts in the order in which the transfers to them begin, the root first, for whole messages.
///
/// # Errors
///
/// The errors of [`time`].
pub fn begun(costs: &Costs, tree: &Tree, Volume(bytes): Volume) -> Result<Vec<usize>, TreeError> {
    time(
        costs,
        tree,
        TreeOperation {
            bytes,
            segments: 1,
            scatter: false,
        },
    )?;
    let mut order = tree.order();
    let mut begin_s = vec![f64::NEG_INFINITY; order.len()];
    let mut there_s = vec![0.0; order.len()];
    for &host in &order {
        let mut clock_s = there_s[host];
        for &child in tree.children(host) {
            begin_s[child] = clock_s;
            there_s[child] = clock_s + costs.seconds(host, child, Volume(bytes));
            clock_s += costs.busy_s(host, child, Volume(bytes));
        }
    }
    // Stable, so that parents stay before their children where a transfer takes no time.
    order.sort_by(|&a, &b| begin_s[a].total_cmp(&begin_s[b]));
    Ok(order)
}
