//! The messages generated from `proto/gavotte/agents`, which documents them. `make proto` renews them.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

/// The messages between a controller and an agent.
pub mod agents {
    include!("../generated/agents.rs");
}

/// The messages between two agents on a data connection.
pub mod data {
    include!("../generated/data.rs");
}

/// Version of the contract. It grows with every incompatible change.
pub const PROTOCOL: u32 = 13;

/// Longest message of a frame in bytes.
pub const MAX_FRAME_BYTES: usize = 65_536;
/// Largest number of encrypted bytes of a record: a piece of 16 KiB with its header. A receiver uses a record when it has all
/// of it.
pub const MAX_RECORD_BYTES: usize = (16 << 10) + 16;
/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 16;
