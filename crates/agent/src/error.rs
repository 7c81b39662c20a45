//! Why a probe or a transfer failed. The agent sends the text to the controller as the `error` of its reply.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use gavotte_probe::sockets::SocketError;
use gavotte_probe::train::ShapeError;
use thiserror::Error;

use crate::contract::agents::Failure;
use crate::contract::{MAX_FRAME_BYTES, MAX_RECORD_BYTES, NONCE_BYTES};

/// The operation of connecting to a peer.
pub const CONNECT: &str = "connect to the peer";
/// The operation of waiting for the peer's challenge.
pub const GREET: &str = "wait for the peer's challenge";
/// The operation of waiting for the peer's welcome.
pub const READY: &str = "wait for the peer to be ready";

/// A probe or a transfer that failed.
#[derive(Debug, Error)]
pub enum WorkError {
    /// The name is not that of an enrolled peer of the run.
    #[error("`{0}` is not an enrolled peer")]
    UnknownPeer(String),
    /// This host lacks the interface that the peer's address names.
    #[error("{0}")]
    NoInterface(String),
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
    /// The hold's byte budget is used up.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// This host lacks a program that the work needs.
    #[error("`{0}` is not installed on this host; install it")]
    Lacking(&'static str),
    /// The train's parameters are out of range.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The handshake of the two agents failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The encrypted bytes of a connection are not those that the peer sent.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A socket option or a train's socket failed.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A connection failed.
    #[error("{operation}: {source}")]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A file of this host cannot be read or written.
    #[error("{path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// The problem in words.
        problem: String,
    },
    /// No broadcast has this name.
    #[error("this agent takes part in no broadcast with that id")]
    UnknownJob,
    /// A deadline passed.
    #[error("{operation}: timed out after {} s", limit.as_secs_f64())]
    Late {
        /// The operation that took too long.
        operation: &'static str,
        /// The operation's time limit.
        limit: Duration,
    },
    /// The receiver reports that it failed.
    #[error("the receiver failed: {0}")]
    Receiver(String),
    /// The packets of every burst of a train arrived at the same time, so the train has no rate.
    #[error("the train gave no rate: {received} of {sent} packets arrived")]
    NoRate {
        /// Packets that the sender sent.
        sent: u64,
        /// Packets that arrived.
        received: u64,
    },
    /// No packet of a train arrived, although the TCP connection of the same path works.
    #[error("none of {sent} packets arrived: UDP to port {port} is blocked on this path, though TCP is not")]
    NoUdp {
        /// Packets that the sender sent.
        sent: u64,
        /// The receiver's data port.
        port: u16,
    },
    /// A gated train gave no trustworthy rate.
    #[error("the train was refused: {0}")]
    Refused(String),
    /// The path's MTU shrank during a probe.
    #[error("the path's MTU shrank during the probe: packets of {mtu_bytes} bytes no longer arrive")]
    Shrunk {
        /// Size of the probe's packets.
        mtu_bytes: u32,
    },
    /// The connection was closed because its segments no longer arrive.
    #[error("the path's MTU shrank, and no router says so: allow ICMPv6 \"packet too big\", then start again")]
    Narrowed,
    /// The peer's schedule is at another round.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// The peer no longer accepts connections.
    #[error("the other host accepts no connections: it is gone, or a firewall drops them")]
    Vanished,
    /// The run continues without this peer.
    #[error("`{peer}` was dropped: {reason}")]
    Dropped {
        /// The peer's name.
        peer: String,
        /// The reason that the controller gave.
        reason: String,
    },
    /// The hold was released or has expired.
    #[error("the hold is over")]
    Over,
}

impl WorkError {
    /// The code by which a controller decides what to do.
    pub fn failure(&self) -> Failure {
        match self {
            Self::NoInterface(_) => Failure::Unreachable,
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
            // This host's own firewall blocks the packets.
            Self::Socket(SocketError::System { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                Failure::NoUdp
            }
            Self::Handshake(_)
            | Self::Frame(_)
            | Self::Record(_)
            | Self::Io { .. }
            | Self::Socket(_)
            | Self::Narrowed => Failure::Broken,
            Self::Receiver(_) => Failure::Receiver,
            Self::NoRate { .. } | Self::Refused(_) | Self::Shrunk { .. } => Failure::NoRate,
            Self::NoUdp { .. } => Failure::NoUdp,
            Self::Vanished => Failure::Vanished,
            Self::Dropped { .. } => Failure::Dropped,
            Self::Over => Failure::Over,
        }
    }

    /// Returns that UDP is blocked if `blocked` is set and any packets were sent.
    pub fn unheard(blocked: bool, sent: u64, peer: SocketAddr) -> Option<Self> {
        let port = peer.port();
        (blocked && sent > 0).then_some(Self::NoUdp { sent, port })
    }

    /// Wraps an I/O error with the operation that failed.
    pub fn io(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, source }
    }
}

/// Whether a connection failed because the peer did not answer ([`gavotte_probe::sockets::tcp::set_patience`]).
fn gave_no_sign(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

/// The hold's budget has fewer bytes left than requested.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the byte budget is used up: {asked} bytes requested, {left} of {cap} left")]
pub struct BudgetError {
    /// Requested payload bytes.
    pub asked: u64,
    /// Payload bytes that were left.
    pub left: u64,
    /// Payload bytes that the whole hold may send.
    pub cap: u64,
}

/// Why an agent refused a connection of a round.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RoundError {
    /// The schedule has already passed this round.
    #[error("round {0} is over")]
    Over(u32),
    /// No probe of this round expects this source.
    #[error("not expected in round {0}")]
    NotExpected(u32),
}

/// Why the encrypted bytes of a connection were refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    /// A record was not encrypted with this connection's key, or is not the next one.
    #[error("an encrypted record was forged, changed, repeated or left out")]
    Forged,
    /// A record announces more bytes than any has.
    #[error("an encrypted record announces {0} bytes, but none has more than {MAX_RECORD_BYTES}")]
    TooLong(usize),
    /// The connection ended in a record, or before the last one.
    #[error("the encrypted stream was cut before its end")]
    Cut,
    /// The library refused to encrypt.
    #[error("a record could not be encrypted")]
    Unsealed,
}

/// Why the handshake of two agents failed.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer closed the connection before its challenge or welcome: it does not know this host or this run.
    #[error("the other agent closed the connection: it is not enrolled in this run or does not know this host")]
    HungUp,
    /// A frame was not sealed with this connection's key from the run's secret.
    #[error("a frame with a wrong MAC")]
    Forged,
    /// A nonce has the wrong length.
    #[error("a nonce of {0} bytes instead of {NONCE_BYTES}")]
    Nonce(usize),
    /// The peer refused.
    #[error("refused: {reason}")]
    Refused {
        /// The peer's reason.
        reason: String,
        /// The kind of the reason.
        failure: Failure,
    },
}

/// Why a frame could not be read or written.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The message, or the length before it, exceeds [`MAX_FRAME_BYTES`].
    #[error("a frame of {0} bytes is longer than {MAX_FRAME_BYTES}")]
    TooLong(usize),
    /// The other side closed the connection.
    #[error("the other agent closed the connection")]
    Closed,
    /// The frame does not contain the expected message.
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
/// [`WorkError::Late`] if the limit passes first, otherwise the error of `work`.
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
