//! What a kind of work is: how it is asked for, and how it is answered.

use std::time::Duration;

use tonic::async_trait;

use crate::contract::agents::ProbeReply;
use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::work::visit::Visit;

/// How long the peer of a probe may give no sign: a packet is sent three times by then. A host that vanishes costs the
/// others about this and one try to connect.
pub const PATIENCE: Duration = Duration::from_millis(1500);

/// The side whose controller wants to know.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Payload bytes to set aside before the peer is called; what is not known then is reserved as it goes.
    fn bytes(&self) -> u64 {
        0
    }

    /// The congestion control to pin on its connections, if not the host's default.
    fn congestion(&self) -> Option<&str> {
        None
    }

    /// How long its connections may stay without a sign of the peer.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// How long after its round's beginning it starts at the earliest, with the connection made and its pings done.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }

    /// Does it over a connection whose pings are done. What was found and how much was sent is in the reply even beside an
    /// error.
    async fn ask(&self, call: &Call<'_>, connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError>;
}

/// The other side.
#[async_trait]
pub trait Answer: Send + Sync {
    /// Says welcome and does its part. A failure before the welcome is told to the guest as a refusal.
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError>;
}

/// What a guest of the data plane wants.
pub struct Errand {
    /// The round it belongs to; a transfer belongs to none, since its controller says when it starts.
    pub round: Option<u32>,
    /// How long its connection may stay without a sign of it; `None` leaves it to TCP.
    pub patience: Option<Duration>,
    /// Who answers it, or why nobody does.
    pub answer: Result<Box<dyn Answer>, WorkError>,
}

/// A kind of probe: both sides, made from what the controller asked for.
pub trait Kind: Ask + Answer {}

impl<T: Ask + Answer> Kind for T {}
