//! What the connections of a host to one of its parents need.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::contract::data::hello::Work;
use crate::error::WorkError;
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::dial::{Call, Connection};
use crate::work::broadcast::incoming::Incoming;
use crate::work::broadcast::share::Share;

/// How long the other end of a subscription may be silent.
pub const PATIENCE: Duration = Duration::from_secs(4);
/// How long connecting may take.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Receives blocks from one parent.
#[derive(Clone)]
pub(super) struct Subscriber {
    pub(super) plane: Arc<Plane>,
    pub(super) hold: Arc<Hold>,
    pub(super) share: Arc<Share>,
    pub(super) broadcast_id: String,
    pub(super) congestion: String,
    pub(super) parent: String,
    /// Gets the parent's name when all connections to it are open.
    pub(super) connected: mpsc::UnboundedSender<String>,
}

impl Subscriber {
    /// Reads the pieces of a connection to the parent.
    pub(super) fn incoming(&self, connection: &Connection) -> Incoming {
        self.share.incoming(&connection.channel, &self.hold.name, &self.parent)
    }

    /// A connection to the parent.
    ///
    /// # Errors
    /// If the parent is not enrolled.
    pub(super) fn call(&self, work: Work) -> Result<Call<'_>, WorkError> {
        Ok(Call {
            plane: &self.plane,
            hold: &self.hold,
            peer: self.hold.peers.get(&self.parent)?,
            work,
            congestion: &self.congestion,
            connect: CONNECT_LIMIT,
            patience: Some(PATIENCE),
            ready: CONNECT_LIMIT,
        })
    }
}
