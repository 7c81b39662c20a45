//! The receiving side of a transfer: receives its bytes, counts them, and reports them to the sender.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tonic::async_trait;

use crate::contract::agents::Transfer;
use crate::error::WorkError;
use crate::plane::records::{Ends, Opener};
use crate::plane::sealed::receive_records;
use crate::plane::stream::{self, Counter};
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// The receiving side of a transfer.
pub struct Incoming {
    bytes: u64,
    bin_s: f64,
    spread: bool,
    count_id: u64,
    encrypt: bool,
}

/// What the connections of one transfer with bins have received.
struct Counted(Mutex<Counter>);

impl Counted {
    fn lock(&self) -> MutexGuard<'_, Counter> {
        // The lock cannot be poisoned: no code panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incoming {
    /// As its sender describes it.
    pub fn new(transfer: &Transfer) -> Self {
        Self {
            bytes: transfer.bytes,
            bin_s: transfer.bin_s,
            spread: transfer.spread,
            count_id: transfer.count_id,
            encrypt: transfer.encrypt,
        }
    }

    /// Decrypts the bytes, if they are encrypted.
    fn opener(&self, visit: &Visit) -> Option<Opener> {
        let ends = Ends {
            connector: &visit.guest.source,
            acceptor: &visit.guest.hold.name,
        };
        self.encrypt.then(|| visit.guest.connection.channel.opener(ends))
    }

    /// Receives all bytes, and passes the time and size of each read to `add`.
    async fn receive(&self, visit: &Visit, add: impl FnMut(Instant, u64) + Send) -> Result<(), WorkError> {
        let stream = &visit.guest.connection.stream;
        let Some(opener) = self.opener(visit) else {
            return stream::receive_each(stream, self.bytes, add).await;
        };
        let came = receive_records(stream, opener, self.bytes, add).await?;
        if came < self.bytes {
            let text = format!("the sender stopped at {came} of {} bytes", self.bytes);
            return Err(WorkError::Request(text));
        }
        Ok(())
    }

    /// Receives one connection's share of the bytes.
    async fn share(&self, visit: &Visit) -> Result<Counter, WorkError> {
        let stream = &visit.guest.connection.stream;
        let Some(opener) = self.opener(visit) else {
            return stream::receive_share(stream, self.bytes).await;
        };
        let mut counter = Counter::new(0.0);
        receive_records(stream, opener, self.bytes, |now, count| counter.add(now, count)).await?;
        Ok(counter)
    }

    /// Receives the bytes of a transfer with bins. A connection that replaces another one continues its bins.
    async fn counted(&self, visit: &Visit) -> Result<Counter, WorkError> {
        let hold = &visit.guest.hold;
        if self.count_id == 0 {
            let mut counter = Counter::new(self.bin_s);
            self.receive(visit, |now, bytes| counter.add(now, bytes)).await?;
            return Ok(counter);
        }
        let name = format!("count {:x}", self.count_id);
        let counted = hold
            .shelf
            .shared(&name, || Counted(Mutex::new(Counter::new(self.bin_s))));
        let add = |now, bytes| counted.lock().add(now, bytes);
        self.receive(visit, add).await?;
        hold.shelf.remove(&name);
        Ok(counted.lock().clone())
    }
}

#[async_trait]
impl Answer for Incoming {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.welcome(0).await?;
        // A transfer starts when its controller starts it, and ends with the hold at the latest.
        let connection = &mut visit.guest.connection;
        if self.bytes > 0 {
            stream::readable(&connection.stream).await?;
        }
        let _job = visit.guest.hold.jobs.arriving();
        let counter = if self.spread {
            self.share(visit).await?
        } else {
            self.counted(visit).await?
        };
        visit.guest.connection.send(&counter.report()).await
    }
}
