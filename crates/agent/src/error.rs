//! Why a probe or a transfer failed. The text goes to the controller as the `error` of its reply.

use std::io;
use std::time::Duration;

use gavotte_probe::sockets::SocketError;
use gavotte_probe::train::ShapeError;
use thiserror::Error;

use crate::budget::BudgetError;
use crate::frames::FrameError;
use crate::handshake::HandshakeError;

/// Making a connection to a peer.
pub const CONNECT: &str = "connect to the peer";
/// Waiting for its challenge.
pub const GREET: &str = "hear from the peer";
/// Waiting for its welcome.
pub const READY: &str = "wait for the peer to be ready";

/// A probe or a transfer that did not come to its end.
#[derive(Debug, Error)]
pub enum WorkError {
    /// Not an enrolled peer of the run.
    #[error("`{0}` is not an enrolled peer")]
    UnknownPeer(String),
    /// The request makes no sense.
    #[error("{0}")]
    Request(String),
    /// The session's bytes are used up.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// The train's parameters are out of range.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The two agents did not come to terms.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// A frame did not pass.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A socket option or a train's socket failed.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A connection failed.
    #[error("{operation}: {source}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A deadline passed.
    #[error("{operation}: not within {} s", limit.as_secs_f64())]
    Late {
        /// What was being done.
        operation: &'static str,
        /// How long it could take.
        limit: Duration,
    },
    /// The receiver says it failed.
    #[error("the receiver reports: {0}")]
    Receiver(String),
    /// Of a train, not two packets of any burst came at different times.
    #[error("the train gave no rate: {received} of {sent} packets came")]
    NoRate {
        /// Packets sent.
        sent: u64,
        /// Packets that came.
        received: u64,
    },
    /// A gated train gave no number that can be trusted.
    #[error("the train was refused: {0}")]
    Refused(String),
    /// The peer takes no connections any more.
    #[error("the other host has vanished: it takes no connections any more")]
    Vanished,
    /// The run goes on without this peer.
    #[error("`{peer}` was dropped: {reason}")]
    Dropped {
        /// Its name.
        peer: String,
        /// Why, as the controller says.
        reason: String,
    },
    /// The session was released or its time is over.
    #[error("the session is over")]
    Over,
}

impl WorkError {
    /// Whether the peer could not be reached: it took no connection, said nothing on it, or did not come to the round.
    /// A refusal is not that.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Late { operation, .. } => [CONNECT, GREET, READY].contains(operation),
            Self::Io { operation, source } => *operation == CONNECT || gave_no_sign(source),
            Self::Frame(FrameError::Io(source)) | Self::Handshake(HandshakeError::Frame(FrameError::Io(source))) => {
                gave_no_sign(source)
            }
            _ => false,
        }
    }

    /// Wraps an I/O error with what was being done.
    pub fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }
}

/// Whether a connection died because nothing came back ([`gavotte_probe::sockets::tcp::set_patience`]).
fn gave_no_sign(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

/// Runs `work` for at most `limit`.
///
/// # Errors
/// [`WorkError::Late`] when the limit passes first, else what `work` fails with.
pub async fn within<T, E: Into<WorkError>>(
    operation: &'static str,
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, WorkError> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(WorkError::Late { operation, limit }),
    }
}
