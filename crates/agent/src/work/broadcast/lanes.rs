//! The connections of one subscription to a far parent. Their first windows together fill the path.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{Instrument, debug};

use crate::contract::data::{Subscribe, hello::Work};
use crate::error::WorkError;
use crate::plane::several::{SHORT, connections, most_connections};
use crate::plane::stream::readable;
use crate::work::broadcast::subscriber::Subscriber;

/// Time until a connection has room again, in round trips: its acknowledgement waits in queues, and then for a look.
const UNTIL_ROOM: f64 = 1.2;

/// The connections of one subscription except the first. They end with this.
pub(super) struct Lanes {
    number: u64,
    round_trip: Duration,
    bytes: u64,
    count: u32,
    tasks: JoinSet<Result<(), WorkError>>,
    heard: (mpsc::UnboundedSender<Heard>, mpsc::UnboundedReceiver<Heard>),
}

/// What arrives over one of the connections, except for blocks.
pub(super) enum Heard {
    /// This block was corrupt.
    Corrupt(u32),
    /// The parent asks for this many connections.
    Asked(u32),
}

impl Lanes {
    /// Prepares connections for `bytes` bytes over a path of this round trip; zero if unknown.
    pub(super) fn new(bytes: u64, round_trip: Duration) -> Self {
        Self {
            number: rand::random::<u64>().max(1),
            round_trip,
            bytes,
            count: 1,
            tasks: JoinSet::new(),
            heard: mpsc::unbounded_channel(),
        }
    }

    /// The number by which the parent knows the connections.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the path is short, so that one connection is enough unless it loses packets.
    pub(super) fn is_short(&self) -> bool {
        self.round_trip < SHORT
    }

    /// Takes the round trip of a connection, if none is known. That of a busy host may be too long.
    pub(super) fn measured(&mut self, round_trip: Duration) {
        if self.round_trip.is_zero() {
            self.round_trip = round_trip;
        }
    }

    /// Adds connections up to as many as fill the path at this pace. Each drops its `opening` when it is open or failed.
    pub(super) fn widen(&mut self, pace_bps: u64, subscriber: &Subscriber, opening: &mpsc::Sender<()>) {
        if !self.is_short() {
            self.open(
                connections(pace_bps, self.round_trip.mul_f64(UNTIL_ROOM)),
                subscriber,
                opening,
            );
        }
    }

    /// Adds connections up to as many as the parent asks for, since its path loses packets.
    pub(super) fn add(&mut self, wanted: u32, subscriber: &Subscriber) {
        self.open(wanted, subscriber, &mpsc::channel(1).0);
    }

    fn open(&mut self, wanted: u32, subscriber: &Subscriber, opening: &mpsc::Sender<()>) {
        let wanted = wanted.min(most_connections(self.bytes));
        if wanted > self.count {
            debug!(parent = subscriber.parent, connections = wanted, round_trip = ?self.round_trip, "spreads");
        }
        for _ in self.count..wanted {
            let lane = lane(subscriber.clone(), self.number, self.heard.0.clone(), opening.clone());
            self.tasks.spawn(lane.in_current_span());
        }
        self.count = self.count.max(wanted);
    }

    /// Returns what arrived over one of the connections.
    ///
    /// # Errors
    /// If one of them breaks: part of its blocks is missing then.
    pub(super) async fn heard(&mut self) -> Result<Heard, WorkError> {
        loop {
            tokio::select! {
                Some(heard) = self.heard.1.recv() => return Ok(heard),
                Some(ended) = self.tasks.join_next() => ended.map_err(|_| WorkError::Over)??,
            }
        }
    }
}

/// Opens one more connection and receives over it. The others can do without one that cannot be opened.
async fn lane(
    subscriber: Subscriber,
    number: u64,
    heard: mpsc::UnboundedSender<Heard>,
    opening: mpsc::Sender<()>,
) -> Result<(), WorkError> {
    let subscribe = Subscribe {
        broadcast_id: subscriber.broadcast_id.clone(),
        lane_of: number,
        encrypt: subscriber.share.encrypted,
        ..Subscribe::default()
    };
    let dialled = subscriber.call(Work::Subscribe(subscribe))?.dial().await;
    drop(opening);
    let connection = match dialled {
        Ok(connection) => connection,
        Err(error) => {
            debug!(%error, parent = subscriber.parent, "does without one more connection");
            return Ok(());
        }
    };
    let mut incoming = subscriber.incoming(&connection);
    loop {
        readable(&connection.stream).await?;
        let again = incoming.read(&connection.stream, |block, offset, bytes| {
            subscriber.share.take(block, offset, bytes)
        })?;
        let corrupt = again.into_iter().map(|(block, _)| Heard::Corrupt(block));
        for each in corrupt.chain(incoming.asked().map(Heard::Asked)) {
            // The subscription may have ended.
            let _ = heard.send(each);
        }
    }
}
