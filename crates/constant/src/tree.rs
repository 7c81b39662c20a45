//! Broadcast trees by the earliest completion first.

use thiserror::Error;

/// Who hears from whom.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// (N) who sends to each host; the root's is itself.
    pub parent: Vec<usize>,
    /// (N) hosts in the order in which their transfers are begun, the root first.
    pub order: Vec<usize>,
}

/// A tree that cannot be.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TreeError {
    /// Weights that are no square, or a root outside it.
    #[error("{found} weights and root {root} are no square of hosts with a root in it")]
    Shape {
        /// How many weights there are.
        found: usize,
        /// The root asked for.
        root: usize,
    },
    /// A host that nobody can send to.
    #[error("no usable pair leads to host {0}")]
    Unreachable(usize),
}

/// Earliest completion first: of all transfers from a host that has the message to one that has not, always the one that
/// would end first (Bhat, Raghavendra, Prasanna 1999). Ties go to the sender and receiver of lower number.
///
/// `weights` is N x N, row = source: what one transfer takes; not finite = cannot be used.
///
/// # Errors
///
/// When the weights are no square, or some host cannot be reached.
pub fn ecef(weights: &[f64], root: usize) -> Result<Tree, TreeError> {
    let size = weights.len().isqrt();
    if size * size != weights.len() || root >= size {
        return Err(TreeError::Shape {
            found: weights.len(),
            root,
        });
    }
    let mut parent = vec![usize::MAX; size];
    parent[root] = root;
    let mut order = vec![root];
    let mut ready = vec![0.0; size];
    // Each sender's own best receiver; looked for again only when somebody else took it.
    let mut best = vec![usize::MAX; size];
    best[root] = nearest(weights, size, root, &parent);
    while order.len() < size {
        let mut first: Option<(f64, usize)> = None;
        for &sender in &order {
            if best[sender] == usize::MAX {
                continue;
            }
            let end = ready[sender] + weights[sender * size + best[sender]];
            if first.is_none_or(|(least, by)| end < least || (end <= least && sender < by)) {
                first = Some((end, sender));
            }
        }
        let Some((end, sender)) = first else {
            let left = parent.iter().position(|&by| by == usize::MAX);
            return Err(TreeError::Unreachable(left.unwrap_or(root)));
        };
        let receiver = best[sender];
        parent[receiver] = sender;
        (ready[sender], ready[receiver]) = (end, end);
        order.push(receiver);
        for &host in &order {
            if best[host] == receiver || host == receiver {
                best[host] = nearest(weights, size, host, &parent);
            }
        }
    }
    Ok(Tree { parent, order })
}

fn nearest(weights: &[f64], size: usize, sender: usize, parent: &[usize]) -> usize {
    let (mut least, mut at) = (f64::INFINITY, usize::MAX);
    for (receiver, (&weight, &by)) in weights[sender * size..][..size].iter().zip(parent).enumerate() {
        if by == usize::MAX && weight < least {
            (least, at) = (weight, receiver);
        }
    }
    at
}
