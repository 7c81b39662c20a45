//! What the ranks of a job do.

use std::sync::Arc;

use crate::error::ReplayError;

/// A kind of collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of MPI")]
pub enum Kind {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Scan,
    Exscan,
    ReduceScatter,
    ReduceScatterBlock,
    Scatter,
    Scatterv,
    Gather,
    Gatherv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Neighbor,
}

impl Kind {
    /// The kind of this name, such as `allreduce`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "barrier" => Self::Barrier,
            "bcast" => Self::Bcast,
            "reduce" => Self::Reduce,
            "allreduce" => Self::Allreduce,
            "scan" => Self::Scan,
            "exscan" => Self::Exscan,
            "reduce_scatter" => Self::ReduceScatter,
            "reduce_scatter_block" => Self::ReduceScatterBlock,
            "scatter" => Self::Scatter,
            "scatterv" => Self::Scatterv,
            "gather" => Self::Gather,
            "gatherv" => Self::Gatherv,
            "allgather" => Self::Allgather,
            "allgatherv" => Self::Allgatherv,
            "alltoall" => Self::Alltoall,
            "alltoallv" => Self::Alltoallv,
            "neighbor" => Self::Neighbor,
            _ => return None,
        })
    }
}

/// A collective operation, as one rank calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    /// The kind.
    pub kind: Kind,
    /// The communicator's index in [`Program::communicators`].
    pub communicator: u32,
    /// The root's place in the communicator; 0 without a root.
    pub root: u32,
    /// Bytes of the vector; of one block where ranks have blocks; of the rank's own block where blocks differ.
    pub bytes: u64,
    /// Bytes by member (by target of a neighbour exchange) where blocks differ; empty where they do not, or are unknown here.
    pub counts: Vec<u64>,
    /// World ranks from which a neighbour exchange receives.
    pub sources: Vec<u32>,
    /// World ranks to which it sends.
    pub targets: Vec<u32>,
    /// The request of a nonblocking call.
    pub request: Option<u32>,
}

/// An operation of a rank. Copies are cheap.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Computing between two calls.
    Compute {
        /// Mean time in seconds.
        mean_s: f64,
        /// Variance of the time in square seconds.
        variance_s2: f64,
    },
    /// The begin of a send.
    Isend {
        /// The receiving rank.
        peer: u32,
        /// Bytes of the message.
        bytes: u64,
        /// Its tag.
        tag: i32,
        /// Index of the communicator.
        communicator: u32,
        /// The request that completes when the sender may go on.
        request: u32,
        /// Whether it completes only after the receiver has a matching receive, whatever its size.
        synchronous: bool,
    },
    /// The begin of a receive.
    Irecv {
        /// The sending rank.
        peer: u32,
        /// The tag of the message.
        tag: i32,
        /// Index of the communicator.
        communicator: u32,
        /// The request that completes when the message has arrived.
        request: u32,
    },
    /// Waits until all these requests are complete. Unknown ones are.
    Wait(Arc<[u32]>),
    /// Gives up a receive that will match nothing.
    Cancel(u32),
    /// Combines this many bytes of a reduction with own ones.
    Combine(u64),
    /// A collective operation.
    Collective(Arc<Collective>),
    /// A sequence that is repeated.
    Loop {
        /// How often.
        count: u64,
        /// The sequence.
        body: Arc<[Op]>,
    },
}

/// The operations of all ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// By rank: its operations.
    pub ranks: Vec<Arc<[Op]>>,
    /// By communicator: the world rank of each member.
    pub communicators: Vec<Vec<u32>>,
}

impl Program {
    /// Checks that all ranks, communicators and times that operations name exist and are possible.
    ///
    /// # Errors
    /// [`ReplayError::Operation`] that names the first wrong operation's rank.
    pub fn check(&self) -> Result<(), ReplayError> {
        let ranks = self.ranks.len() as u32;
        for (number, members) in self.communicators.iter().enumerate() {
            if let Some(&rank) = members.iter().find(|&&rank| rank >= ranks) {
                let problem = format!("is in communicator {number}, but there are {ranks} ranks");
                return Err(ReplayError::Operation { rank, problem });
            }
        }
        for (rank, ops) in self.ranks.iter().enumerate() {
            self.check_ops(rank as u32, ops)?;
        }
        Ok(())
    }

    fn check_ops(&self, rank: u32, ops: &[Op]) -> Result<(), ReplayError> {
        let ranks = self.ranks.len() as u32;
        let wrong = |problem: String| Err(ReplayError::Operation { rank, problem });
        for op in ops {
            match op {
                Op::Compute { mean_s, variance_s2 }
                    if !((0.0..1e12).contains(mean_s) && (0.0..1e24).contains(variance_s2)) =>
                {
                    return wrong(format!("computes for {mean_s} s with variance {variance_s2} s2"));
                }
                Op::Isend { peer, .. } | Op::Irecv { peer, .. } if *peer >= ranks => {
                    return wrong(format!("names rank {peer} of {ranks} ranks"));
                }
                Op::Collective(call) => {
                    let Some(members) = self.communicators.get(call.communicator as usize) else {
                        return wrong(format!(
                            "names communicator {}, which does not exist",
                            call.communicator
                        ));
                    };
                    if !members.contains(&rank) {
                        return wrong(format!("is no member of communicator {}", call.communicator));
                    }
                    if call.root as usize >= members.len() {
                        return wrong(format!("names root {} of {} members", call.root, members.len()));
                    }
                    let named = call.sources.iter().chain(&call.targets);
                    if let Some(peer) = named.copied().find(|&peer| peer >= ranks) {
                        return wrong(format!("names rank {peer} of {ranks} ranks"));
                    }
                }
                Op::Loop { body, .. } => self.check_ops(rank, body)?,
                _ => {}
            }
        }
        Ok(())
    }
}
