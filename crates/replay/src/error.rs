//! Errors of a replay.

use thiserror::Error;

/// Why a program cannot be replayed.
#[derive(Debug, Error, PartialEq)]
pub enum ReplayError {
    /// An operation names a rank, communicator or host that does not exist, or is otherwise invalid.
    #[error("rank {rank}: {problem}")]
    Operation {
        /// The rank whose operation is wrong.
        rank: u32,
        /// What is wrong.
        problem: String,
    },
    /// The ranks and their hosts do not fit together, or a number of the model is out of range.
    #[error("{0}")]
    Input(String),
    /// No rank can continue.
    #[error("the replay stops after {time_s:.6} s: rank {rank} waits for {what}")]
    Deadlock {
        /// When the last event happened.
        time_s: f64,
        /// The first rank that waits.
        rank: u32,
        /// What it waits for.
        what: String,
    },
    /// The replay needs more events than are allowed.
    #[error("the replay needs more than {0} events")]
    TooLong(u64),
}
