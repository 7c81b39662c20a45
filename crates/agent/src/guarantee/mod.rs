//! Bandwidth guarantees of one host: a thread that partitions, allocates and shapes, and speaks with the other hosts.
//!
//! The decisions are `gavotte-limiter`'s, the mechanisms `gavotte-shaper`'s; here they meet, with time and a socket. No
//! controller is needed once the guarantees stand.

pub mod duty;
mod inside;
mod keeping;
pub mod orphan;
mod peer;
mod standing;
pub mod talk;
mod telling;
mod tenant;
mod wire;

pub use standing::{Guarantees, GuardError};
