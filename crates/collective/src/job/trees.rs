//! Operations along a tree, as `python/gavotte/mpi/operations.py` carries them out.

use std::collections::VecDeque;

use super::{Job, Request, pieces};
use crate::operation::TreeOperation;
use crate::tree::Tree;

/// Most pieces of a reduction on the way to one rank at the same time: `AHEAD` of `operations.py`.
const AHEAD: usize = 4;

impl Job {
    /// A broadcast, or a scatter.
    pub(crate) fn down(tree: &Tree, operation: TreeOperation) -> Self {
        let mut job = Self::new(tree.hosts());
        let (blocks, pieces) = (
            blocks(tree, operation),
            pieces(operation.bytes as u64, operation.segments),
        );
        let parents = tree.parents();
        let flat = operation.scatter && is_flat(tree) && operation.segments == 1;
        for (rank, &parent) in parents.iter().enumerate() {
            let coming: Vec<Request> = if rank == tree.root() {
                Vec::new()
            } else {
                pieces.iter().map(|_| job.receive(rank, parent)).collect()
            };
            for (number, (start, end)) in pieces.iter().enumerate() {
                job.wait(rank, coming.get(number..=number).unwrap_or_default());
                let bytes = |child: usize| (end - start) * blocks[child];
                if flat {
                    let going: Vec<Request> = tree
                        .children(rank)
                        .iter()
                        .map(|&child| job.begin_send(rank, child, bytes(child)))
                        .collect();
                    job.wait(rank, &going);
                    continue;
                }
                for &child in tree.children(rank) {
                    job.send(rank, child, bytes(child));
                }
            }
        }
        job
    }

    /// A gather. The order of children is that of a scatter, in reverse.
    pub(crate) fn gather(tree: &Tree, operation: TreeOperation) -> Self {
        let mut job = Self::new(tree.hosts());
        let (blocks, pieces) = (
            blocks(tree, operation),
            pieces(operation.bytes as u64, operation.segments),
        );
        let parents = tree.parents();
        for rank in 0..tree.hosts() {
            let coming: Vec<Vec<Request>> = pieces
                .iter()
                .map(|_| {
                    let children = tree.children(rank).iter().rev();
                    children.map(|&child| job.receive(rank, child)).collect()
                })
                .collect();
            for (requests, (start, end)) in coming.iter().zip(&pieces) {
                job.wait(rank, requests);
                if rank != tree.root() {
                    job.send(rank, parents[rank], (end - start) * blocks[rank]);
                }
            }
        }
        job
    }

    /// A reduction. A rank combines pieces in the order in which it posts receives.
    pub(crate) fn reduce(tree: &Tree, operation: TreeOperation) -> Self {
        let mut job = Self::new(tree.hosts());
        let (parents, pieces) = (tree.parents(), pieces(operation.bytes as u64, operation.segments));
        for (rank, &parent) in parents.iter().enumerate() {
            let children = tree.children(rank);
            let mut work = pieces.iter().flat_map(|_| children.iter().rev());
            let mut coming: VecDeque<Request> = VecDeque::new();
            for (start, end) in &pieces {
                for _ in children {
                    while coming.len() < AHEAD
                        && let Some(&child) = work.next()
                    {
                        coming.push_back(job.receive(rank, child));
                    }
                    let request = coming.pop_front();
                    job.wait(rank, request.as_slice());
                    job.combine(rank, end - start);
                }
                if rank != tree.root() {
                    job.send(rank, parent, end - start);
                }
            }
        }
        job
    }
}

/// Whether the root sends to all others directly.
fn is_flat(tree: &Tree) -> bool {
    tree.children(tree.root()).len() + 1 == tree.hosts()
}

/// By rank: the number of blocks that its parent sends to it or receives from it.
fn blocks(tree: &Tree, operation: TreeOperation) -> Vec<u64> {
    if operation.scatter {
        tree.sizes().into_iter().map(|ranks| ranks as u64).collect()
    } else {
        vec![1; tree.hosts()]
    }
}
