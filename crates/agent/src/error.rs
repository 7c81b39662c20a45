//! Why a probe or a transfer failed. The text goes to the controller as the `error` of its reply.

use std::io;
use std::time::Duration;

use gavotte_probe::sockets::SocketError;
use gavotte_probe::train::ShapeError;
use thiserror::Error;

use crate::contract::agents::Failure;
use crate::contract::{MAX_FRAME_BYTES, NONCE_BYTES};

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
    /// The hold's bytes are used up.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// This host lacks a program.
    #[error("`{0}` is not installed on this host; install it")]
    Lacking(&'static str),
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
    /// A file of this host cannot be read or written.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it, in words.
        problem: String,
    },
    /// No job of that name.
    #[error("no broadcast with that id is under way here")]
    UnknownJob,
    /// A deadline passed.
    #[error("{operation}: timed out after {} s", limit.as_secs_f64())]
    Late {
        /// What was being done.
        operation: &'static str,
        /// How long it could take.
        limit: Duration,
    },
    /// The receiver says it failed.
    #[error("the receiver says: {0}")]
    Receiver(String),
    /// Of a train, not two packets of any burst came at different times.
    #[error("the train gave no rate: {received} of {sent} packets arrived")]
    NoRate {
        /// Packets sent.
        sent: u64,
        /// Packets that came.
        received: u64,
    },
    /// A gated train gave no number that can be trusted.
    #[error("the train was refused: {0}")]
    Refused(String),
    /// The peer's schedule is elsewhere.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// The peer takes no connections any more.
    #[error("the other host is gone: it no longer accepts connections")]
    Vanished,
    /// The run goes on without this peer.
    #[error("`{peer}` was dropped: {reason}")]
    Dropped {
        /// Its name.
        peer: String,
        /// Why, as the controller says.
        reason: String,
    },
    /// The hold was released or its time is over.
    #[error("the hold is over")]
    Over,
}

impl WorkError {
    /// What a controller decides by.
    pub fn failure(&self) -> Failure {
        match self {
            Self::UnknownPeer(_) | Self::Request(_) | Self::Shape(_) => Failure::Invalid,
            Self::File { .. } => Failure::File,
            Self::UnknownJob => Failure::UnknownJob,
            Self::Budget(_) => Failure::OverBudget,
            Self::Lacking(_) => Failure::Lacking,
            Self::Late { operation, .. } if [CONNECT, GREET, READY].contains(operation) => Failure::Unreachable,
            Self::Late { .. } => Failure::Late,
            Self::Io { operation, .. } if *operation == CONNECT => Failure::Unreachable,
            Self::Io { source, .. }
            | Self::Frame(FrameError::Io(source))
            | Self::Handshake(HandshakeError::Frame(FrameError::Io(source)))
                if gave_no_sign(source) =>
            {
                Failure::Unreachable
            }
            Self::Handshake(HandshakeError::Refused { failure, .. }) => *failure,
            Self::Handshake(HandshakeError::HungUp) | Self::Round(_) => Failure::Refused,
            Self::Socket(SocketError::Congestion { .. }) => Failure::Congestion,
            Self::Handshake(_) | Self::Frame(_) | Self::Io { .. } | Self::Socket(_) => Failure::Broken,
            Self::Receiver(_) => Failure::Receiver,
            Self::NoRate { .. } | Self::Refused(_) => Failure::NoRate,
            Self::Vanished => Failure::Vanished,
            Self::Dropped { .. } => Failure::Dropped,
            Self::Over => Failure::Over,
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

/// The hold may not send that much any more.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the byte budget is used up: {asked} bytes requested, {left} of {cap} left")]
pub struct BudgetError {
    /// Payload bytes that were asked for.
    pub asked: u64,
    /// Payload bytes that were left.
    pub left: u64,
    /// Payload bytes of the whole hold.
    pub cap: u64,
}

/// Why a connection was not let in.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RoundError {
    /// The schedule has moved on.
    #[error("round {0} is over")]
    Over(u32),
    /// Nobody expects this source in this round.
    #[error("not expected in round {0}")]
    NotExpected(u32),
}

/// Why two agents did not come to terms.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// A frame did not pass.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The connection closed before a challenge or a welcome came: the other side does not know this host or this run.
    #[error("the other agent hung up: it is not enrolled in this run or does not know this host")]
    HungUp,
    /// A frame was not sealed with the run's secret for this connection.
    #[error("a frame with a wrong MAC")]
    Forged,
    /// A nonce of the wrong length.
    #[error("a nonce of {0} bytes instead of {NONCE_BYTES}")]
    Nonce(usize),
    /// The other side said no.
    #[error("refused: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
        /// What kind of reason that is.
        failure: Failure,
    },
}

/// A frame that cannot be read or written.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The message, or the length that announces it, is beyond [`MAX_FRAME_BYTES`].
    #[error("a frame of {0} bytes is longer than {MAX_FRAME_BYTES}")]
    TooLong(usize),
    /// The other side went away.
    #[error("the other agent closed the connection")]
    Closed,
    /// Not the message it should be.
    #[error("a malformed frame: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            UnexpectedEof | ConnectionReset | BrokenPipe => Self::Closed,
            _ => Self::Io(error),
        }
    }
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
