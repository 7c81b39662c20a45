//! The sockets that trains and streams pass through: Linux calls that the standard library does not offer.
//!
//! Receive stamps are the kernel's (`SO_TIMESTAMPNS`). A packet without one has `stamp_ns == None`; a stamp taken
//! in user space is never put in its place, since on a busy host it is off by whole scheduling quanta.

mod control;
pub mod flow;
mod raw;
pub mod receiver;
pub mod route;
pub mod sender;
pub mod tcp;

use std::io;

use thiserror::Error;

/// A socket call that failed.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The operating system refused.
    #[error("{operation}: {source}")]
    System {
        /// What was being done.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A packet was longer than the path takes in one piece; it is never sent in fragments, whose loss
    /// and timing would not be the train's.
    #[error("a payload of {payload_bytes} bytes does not fit the path's MTU")]
    TooLong {
        /// UDP payload of the refused packet.
        payload_bytes: usize,
    },
    /// The congestion control is not there, or not for this user.
    #[error("congestion control `{name}` cannot be used here: {source}")]
    Congestion {
        /// Name that was asked for.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SocketError {
    fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }
}
