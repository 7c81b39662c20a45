//! A guest of the data plane, on the answering side.

use std::sync::Arc;
use std::time::Duration;

use gavotte_probe::sockets::receiver::TrainReceiver;
use tokio::sync::OwnedMutexGuard;

use crate::error::{RoundError, WorkError};
use crate::plane::door::Guest;
use crate::work::ping;

/// How long a guest may wait for its round, or for the previous train to end.
const PARKING_LIMIT: Duration = Duration::from_secs(600);

/// A guest of the data plane, and the state of its work.
#[derive(Debug)]
pub struct Visit {
    /// The guest.
    pub guest: Guest,
    /// Whether the welcome was sent.
    pub welcomed: bool,
    round: Option<u32>,
}

impl Visit {
    /// A guest that waits for its welcome.
    pub fn new(guest: Guest, round: Option<u32>) -> Self {
        Self {
            guest,
            welcomed: false,
            round,
        }
    }

    /// Sends the welcome.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn welcome(&mut self, probe_id: u64) -> Result<(), WorkError> {
        self.welcomed = true;
        self.guest.welcome(probe_id).await
    }

    /// Sends the welcome and answers the pings of a probe.
    ///
    /// # Errors
    /// If the connection fails or the pings do not arrive in time.
    pub async fn warm_up(&mut self) -> Result<(), WorkError> {
        self.welcome(0).await?;
        self.pinged().await?;
        self.echo().await
    }

    /// Answers the pings, and records the round trip.
    async fn echo(&mut self) -> Result<(), WorkError> {
        let connection = &mut self.guest.connection;
        let heard = ping::echo(&mut connection.stream).await?;
        (connection.round_trip, connection.jitter) = (heard.round_trip, heard.jitter);
        Ok(())
    }

    /// Waits for the first ping: an admitted guest may still be in the previous round.
    async fn pinged(&self) -> Result<(), WorkError> {
        let (guest, round) = (&self.guest, self.round.unwrap_or_default());
        let mut byte = [0];
        tokio::select! {
            biased;
            pinged = guest.connection.stream.peek(&mut byte) => {
                pinged.map_err(WorkError::io("answer pings"))?;
            }
            () = guest.hold.rounds.left(round) => return Err(RoundError::Over(round).into()),
        }
        guest.hold.rounds.begun(round, &guest.source);
        Ok(())
    }

    /// The same for a train. First waits for the one socket that receives trains, until the previous train has ended.
    /// Returns the socket and the id that the packets must have.
    ///
    /// # Errors
    /// The same errors as for other probes, or if the guest stops waiting.
    pub async fn await_train(&mut self) -> Result<(OwnedMutexGuard<TrainReceiver>, u64), WorkError> {
        let free = Arc::clone(&self.guest.plane.receiver).lock_owned();
        let mut receiver = self.parked(free).await?;
        let probe_id = rand::random();
        self.welcome(probe_id).await?;
        self.pinged().await?;
        receiver.drain()?;
        self.echo().await?;
        Ok((receiver, probe_id))
    }

    /// Waits for `ready` while the connection is silent. The other side sends nothing before its welcome, so any bytes
    /// from it, or its end, mean that it gave up.
    ///
    /// # Errors
    /// If the guest gives up or the wait is too long.
    pub async fn parked<T>(&self, ready: impl Future<Output = T>) -> Result<T, WorkError> {
        let mut byte = [0];
        tokio::select! {
            biased;
            ready = ready => Ok(ready),
            // Peek, since a socket that was read to its last byte still counts as readable once.
            _ = self.guest.connection.stream.peek(&mut byte) => {
                let (source, round) = (&self.guest.source, self.round.unwrap_or_default());
                self.guest.hold.rounds.gave_up(round, source);
                Err(WorkError::Request(format!("`{source}` gave up waiting for round {round}")))
            }
            () = tokio::time::sleep(PARKING_LIMIT) => {
                Err(WorkError::Late { operation: "wait for the round", limit: PARKING_LIMIT })
            }
        }
    }
}
