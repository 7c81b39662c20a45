//! The bandwidth guarantees of one host: a thread that partitions hoses, allocates rates, shapes traffic, and exchanges
//! messages with the other hosts.
//!
//! `gavotte-limiter` makes the decisions, `gavotte-shaper` has the mechanisms. This module connects them with time and
//! a socket. Guarantees need no controller once they are set.

pub mod duty;
mod exchange;
mod incoming;
mod inside;
mod keeping;
pub mod orphan;
mod outgoing;
mod peer;
mod rest;
mod sockets;
mod standing;
mod status;
pub mod stored;
pub mod talk;
mod tenant;
mod unlisted;
mod watch;
mod windows;
mod wire;

pub use standing::{Guarantees, GuardError};
