//! The generated messages of `proto/gavotte/agents`; documented there.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

/// What a controller asks of an agent.
pub mod agents {
    tonic::include_proto!("gavotte.agents");
}

/// What agents say to each other on a data connection.
pub mod data {
    tonic::include_proto!("gavotte.data");
}

/// Version of the contract, which grows with every incompatible change.
pub const PROTOCOL: u32 = 6;

/// Longest message a frame may hold.
pub const MAX_FRAME_BYTES: usize = 65_536;
/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 16;
