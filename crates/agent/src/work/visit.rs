//! A guest of the data plane, at the side that answers.

use std::sync::Arc;
use std::time::Duration;

use gavotte_probe::sockets::receiver::TrainReceiver;
use tokio::sync::OwnedMutexGuard;

use crate::error::{RoundError, WorkError};
use crate::plane::door::Guest;
use crate::work::ping;

/// How long a guest may wait for its round, or for the train before it to end.
const PARKING_LIMIT: Duration = Duration::from_secs(600);

/// A guest of the data plane and how far its work has come.
#[derive(Debug)]
pub struct Visit {
    /// The guest.
    pub guest: Guest,
    /// Whether it was told to go on.
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

    /// Says welcome.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn welcome(&mut self, probe_id: u64) -> Result<(), WorkError> {
        self.welcomed = true;
        self.guest.welcome(probe_id).await
    }

    /// Says welcome and answers the pings of a probe.
    ///
    /// # Errors
    /// When the connection fails or the pings do not come in time.
    pub async fn warm_up(&mut self) -> Result<(), WorkError> {
        self.welcome(0).await?;
        self.pinged().await?;
        ping::echo(&mut self.guest.connection.stream).await
    }

    /// Waits for the first ping: a guest that was let in may still be in the round before.
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

    /// The same for a train: first takes the one socket that trains arrive at, once the train before has ended. Returns
    /// it with the id that the packets must bear.
    ///
    /// # Errors
    /// Also when the guest gives up waiting.
    pub async fn await_train(&mut self) -> Result<(OwnedMutexGuard<TrainReceiver>, u64), WorkError> {
        let free = Arc::clone(&self.guest.plane.receiver).lock_owned();
        let mut receiver = self.parked(free).await?;
        let probe_id = rand::random();
        self.welcome(probe_id).await?;
        self.pinged().await?;
        receiver.drain()?;
        ping::echo(&mut self.guest.connection.stream).await?;
        Ok((receiver, probe_id))
    }

    /// Waits for `ready` while the connection stays silent. The other side has nothing to say until it is welcome, so
    /// anything from it means that it gave up.
    ///
    /// # Errors
    /// When the guest gives up or the wait is too long.
    pub async fn parked<T>(&self, ready: impl Future<Output = T>) -> Result<T, WorkError> {
        let mut byte = [0];
        tokio::select! {
            biased;
            ready = ready => Ok(ready),
            // A peek, since a socket that was read to its last byte still counts as readable once.
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
