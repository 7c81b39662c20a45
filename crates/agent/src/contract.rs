//! The messages generated from `proto/gavotte/agents`, which documents them.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

/// The messages between a controller and an agent.
pub mod agents {
    tonic::include_proto!("gavotte.agents");
}

/// The messages between two agents on a data connection.
pub mod data {
    tonic::include_proto!("gavotte.data");
}

/// Version of the contract. It grows with every incompatible change.
pub const PROTOCOL: u32 = 11;

/// Longest message of a frame in bytes.
pub const MAX_FRAME_BYTES: usize = 65_536;
/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 16;
