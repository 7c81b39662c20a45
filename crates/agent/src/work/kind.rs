//! The interface of a kind of work: the side that asks for it, and the side that answers.

use std::time::Duration;

use tonic::async_trait;

use crate::contract::agents::ProbeReply;
use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::work::visit::Visit;

/// How long the peer of a probe may be silent: long enough to send a packet three times. A host that vanishes delays
/// the others by about this time and one attempt to connect.
pub const PATIENCE: Duration = Duration::from_millis(1500);

/// The side whose controller asked for the result.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Payload bytes to reserve before connecting to the peer. Bytes that are unknown then are reserved later.
    fn bytes(&self) -> u64 {
        0
    }

    /// The congestion control of its connections, unless it is the host's default.
    fn congestion(&self) -> Option<&str> {
        None
    }

    /// How long the peer of its connections may be silent.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// The earliest time to start sending, counted from the beginning of its round. All preparations fit in that time.
    /// The work itself waits for its connection's `start`.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// Does the work on a connection whose pings are complete. The result and the bytes sent are in the reply even if
    /// an error follows.
    async fn ask(&self, call: &Call<'_>, connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError>;
}

/// The side that answers.
#[async_trait]
pub trait Answer: Send + Sync {
    /// Sends the welcome and does its part. An error before the welcome becomes a refusal for the guest.
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError>;
}

/// The work that a guest of the data plane asks for.
pub struct Errand {
    /// The round of the work. A transfer belongs to no round, since its controller decides when it starts.
    pub round: Option<u32>,
    /// How long the guest may be silent; `None` leaves this to TCP.
    pub patience: Option<Duration>,
    /// The side that answers, or the reason why none does.
    pub answer: Result<Box<dyn Answer>, WorkError>,
}

/// A kind of probe: both sides, created from the controller's request.
pub trait Kind: Ask + Answer {}

impl<T: Ask + Answer> Kind for T {}
