//! The sockets of trains and streams, with Linux calls that the standard library lacks.
//!
//! Receive timestamps are the kernel's (`SO_TIMESTAMPNS`). A packet without one has `stamp_ns == None`. A timestamp
//! from user space never replaces it, since it is wrong by whole scheduling quanta on a busy host.

mod clock;
mod control;
pub mod flow;
pub mod path;
mod raw;
pub mod receiver;
pub mod route;
pub mod sender;
pub mod tcp;

use std::io;

use thiserror::Error;

/// Why a socket call failed.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The operating system refused the call.
    #[error("{operation}: {source}")]
    System {
        /// The operation that failed.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The packet is too long for the path's MTU. Packets are never fragmented: the loss and timing of fragments would
    /// not be the train's.
    #[error("a payload of {payload_bytes} bytes does not fit the path's MTU")]
    TooLong {
        /// UDP payload of the refused packet in bytes.
        payload_bytes: usize,
    },
    /// The host does not have the congestion control, or this user may not use it.
    #[error("congestion control `{name}` cannot be used here: {source}")]
    Congestion {
        /// The requested name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

impl SocketError {
    /// Whether the host has the congestion control, but this user may not use it.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Congestion { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    fn system(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { operation, source }
    }
}
