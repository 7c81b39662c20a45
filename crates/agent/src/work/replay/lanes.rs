//! One transfer over several connections. All draw from the same bytes, so that none waits for a share of a slow one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{Instrument, debug};

use super::{Common, HELD_BPS, kernel_bps, wanted_bps};
use crate::contract::agents::{Transfer, TransferDone};
use crate::contract::data::Report;
use crate::error::{WorkError, within};
use crate::hold::budget::Reservation;
use crate::plane::dial::Connection;
use crate::plane::sealed::Outflow;
use crate::plane::several::{Pacer, connections, most_connections};
use crate::plane::shortfall::{self, Look, Seen, Shortfall, Signs};
use crate::plane::stalls::Watched;
use crate::plane::stream;
use crate::work::ledger::Entry;

/// Bytes that a connection leaves unsent in the kernel: no other can send these.
const BACKLOG_BYTES: u32 = 4 << 10;
/// A connection hands over what the pace gives in this time, in whole segments, within the bounds below.
const PORTION_S: f64 = 2e-3;
/// Fewest segments. The first window of a connection is two such portions.
const LEAST_SEGMENTS: u64 = 4;
/// More would be a burst.
const MOST_BYTES: u64 = 64 << 10;

/// What the connections of one transfer share.
struct Pool {
    transfer: Transfer,
    left: AtomicU64,
    pacer: Pacer,
    entry: Arc<Entry>,
    signs: Signs,
}

impl Pool {
    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Takes up to `most` of the bytes that are left.
    fn take(&self, most: u64) -> u64 {
        let less = |left: u64| Some(left.saturating_sub(most));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.unwrap_or(0).min(most)
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Spends from a reservation what the connections took, also when the transfer is dropped.
struct Spending<'a>(Reservation<'a>, Arc<Pool>);

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        self.0.spend(self.1.transfer.bytes - self.1.left());
    }
}

/// What one connection carried, with those that replaced it.
#[derive(Default)]
struct Carried {
    bytes: u64,
    retransmits: u64,
    /// What the receiver reported; empty if all is well.
    error: String,
}

/// The connections of a transfer. Those that are still in progress end with this.
struct Lanes {
    whole: Arc<Common>,
    pool: Arc<Pool>,
    tasks: JoinSet<Result<Option<Carried>, WorkError>>,
    count: u32,
    round_trip: Duration,
    shortfall: Shortfall,
}

impl Lanes {
    /// Adds connections up to as many as fill the path at today's pace, or more where the path loses packets.
    fn widen(&mut self) {
        let (whole, transfer) = (&self.whole, &self.pool.transfer);
        let filling = connections(whole.pace_bps(transfer), self.round_trip);
        let wanted = self
            .shortfall
            .connections(filling)
            .min(most_connections(transfer.bytes));
        for _ in self.count..wanted {
            let (whole, pool) = (Arc::clone(whole), Arc::clone(&self.pool));
            self.tasks
                .spawn(async move { whole.join(&pool).await }.in_current_span());
        }
        if wanted > self.count {
            debug!(transfer = transfer.id, connections = wanted, round_trip = ?self.round_trip, "spreads");
        }
        self.count = wanted.max(self.count);
    }

    /// Adds connections if the present ones lose packets at random and are slower than their pace.
    fn look(&mut self) {
        let seen = Seen {
            at: Instant::now(),
            left_bytes: self.pool.left(),
            pace_bps: match self.whole.pace_bps(&self.pool.transfer) {
                HELD_BPS => 0,
                pace_bps => pace_bps,
            },
            retransmits: self.pool.signs.retransmits(),
            is_queued: self.pool.signs.is_queued(),
        };
        if self.shortfall.observe(seen, self.count) {
            debug!(transfer = self.pool.transfer.id, ?seen, "loses packets at random");
            self.widen();
        }
    }

    /// Waits until all bytes are confirmed, and adds connections when the pace rises or packets are lost.
    async fn finish(&mut self, done: &mut TransferDone) -> Result<(), WorkError> {
        let (mut paces, bytes) = (self.whole.paces.clone(), self.pool.transfer.bytes);
        let mut looks = interval(shortfall::period(self.round_trip));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut confirmed = 0;
        while confirmed < bytes {
            tokio::select! {
                ended = self.tasks.join_next() => match ended {
                    Some(Ok(carried)) => if let Some(carried) = carried? {
                        done.retransmits += carried.retransmits;
                        if !carried.error.is_empty() {
                            return Err(WorkError::Receiver(carried.error));
                        }
                        confirmed += carried.bytes;
                        done.bytes = confirmed;
                    },
                    Some(Err(error)) => {
                        debug!(%error, "a connection of a transfer broke off");
                        return Err(WorkError::Over);
                    }
                    None => return Err(WorkError::Request(format!("{confirmed} of {bytes} bytes were confirmed"))),
                },
                Ok(()) = paces.changed() => self.widen(),
                _ = looks.tick() => self.look(),
            }
        }
        Ok(())
    }
}

impl Common {
    /// Carries out a transfer over as many connections as fill its path.
    ///
    /// It is ready when the first is open. The others join when they are.
    pub(super) async fn spread(
        self: &Arc<Self>,
        transfer: &Transfer,
        entry: &Arc<Entry>,
        connected: mpsc::UnboundedSender<()>,
        done: &mut TransferDone,
    ) -> Result<(), WorkError> {
        let peer = self.target(&transfer.target)?;
        let pool = Arc::new(Pool {
            transfer: transfer.clone(),
            left: AtomicU64::new(transfer.bytes),
            pacer: Pacer::default(),
            entry: Arc::clone(entry),
            signs: Signs::default(),
        });
        let _spending = Spending(self.hold.budget.reserve(transfer.bytes)?, Arc::clone(&pool));
        let mut lanes = Lanes {
            whole: Arc::clone(self),
            pool: Arc::clone(&pool),
            tasks: JoinSet::new(),
            count: 1,
            round_trip: Duration::try_from_secs_f64(transfer.round_trip_s).unwrap_or_default(),
            shortfall: Shortfall::default(),
        };
        lanes.widen();
        let first = {
            let _turn = self.dials.acquire().await.map_err(|_| WorkError::Over)?;
            let call = self.call(peer, transfer);
            let stream = call.connect().await?;
            lanes.round_trip = Duration::from_secs_f64(tcp::info(&stream)?.rtt_s).max(lanes.round_trip);
            lanes.widen();
            call.welcomed(call.greet_over(stream).await?).await?
        };
        // The receiver of this may be gone. The transfer then ends with the replay.
        let _ = connected.send(());
        drop(connected);
        let start = self.started().await?;
        done.start_s = start.elapsed().as_secs_f64();
        let whole = Arc::clone(self);
        lanes
            .tasks
            .spawn(async move { whole.carry(&pool, first).await.map(Some) }.in_current_span());
        let limit = self.limit.saturating_sub(start.elapsed());
        let finished = within(
            "send and confirm",
            limit,
            self.watching(peer, Box::pin(lanes.finish(done))),
        )
        .await;
        done.finish_s = start.elapsed().as_secs_f64();
        finished
    }

    /// Opens one more connection and carries bytes over it; `None` if it cannot be opened, since the others can do without.
    async fn join(&self, pool: &Pool) -> Result<Option<Carried>, WorkError> {
        let transfer = &pool.transfer;
        match self.connect(self.target(&transfer.target)?, transfer).await {
            Ok(connection) => {
                self.started().await?;
                self.carry(pool, connection).await.map(Some)
            }
            Err(error) => {
                debug!(%error, transfer = transfer.id, "does without one more connection");
                Ok(None)
            }
        }
    }

    /// Sends over one connection while any bytes are left, and waits for what its receiver got. A connection that was
    /// closed because its path's MTU shrank is replaced.
    async fn carry(&self, pool: &Pool, mut connection: Connection) -> Result<Carried, WorkError> {
        let mut carried = Carried::default();
        loop {
            let (mut sent_bytes, mut outflow) = (0, self.outflow(&pool.transfer, &connection));
            let sent = self
                .send_all(pool, &mut connection, &mut outflow, &mut sent_bytes)
                .await;
            carried.retransmits += tcp::info(&connection.stream).map_or(0, |info| info.retransmits);
            let error = match sent {
                Ok(report) => {
                    carried.bytes += report.bytes;
                    carried.error = report.error;
                    return Ok(carried);
                }
                Err(error) => error,
            };
            let Some(lost_bytes) = connection.watched.as_ref().and_then(Watched::undelivered_bytes) else {
                return Err(error);
            };
            let lost_bytes = outflow.lost_bytes(lost_bytes, sent_bytes);
            pool.give_back(lost_bytes + outflow.waiting_bytes());
            pool.entry.take_back(lost_bytes);
            carried.bytes += sent_bytes - lost_bytes;
            debug!(
                transfer = pool.transfer.id,
                lost_bytes, "continues on another connection"
            );
            drop(connection);
            connection = self.replaced(&pool.transfer).await?;
        }
    }

    async fn send_all(
        &self,
        pool: &Pool,
        connection: &mut Connection,
        outflow: &mut Outflow,
        sent_bytes: &mut u64,
    ) -> Result<Report, WorkError> {
        let Connection { stream, channel, .. } = connection;
        let mut paces = self.paces.clone();
        let pace_bps = || self.pace_bps(&pool.transfer);
        let (mut set_bps, mut look) = (0, Look::default());
        let segment_bytes = u64::from(tcp::info(&*stream)?.mss_bytes).max(1);
        tcp::set_backlog(&*stream, BACKLOG_BYTES)?;
        while pool.left() > 0 || outflow.waiting_bytes() > 0 {
            // Only a connection with room takes bytes.
            stream::writable(stream).await?;
            let free = paces
                .wait_for(|paces| wanted_bps(paces, &pool.transfer) != HELD_BPS)
                .await;
            drop(free.map_err(|_| WorkError::Over)?);
            let turn = pool.pacer.turn(pace_bps).await;
            let now_bps = pace_bps();
            if now_bps != set_bps && now_bps != HELD_BPS {
                tcp::set_pace(&*stream, kernel_bps(now_bps))?;
                set_bps = now_bps;
            }
            look.at(&*stream, &pool.signs)?;
            // Encrypted bytes that the kernel had no room for go first.
            let waiting_bytes = outflow.waiting_bytes();
            let taken = match waiting_bytes {
                0 => pool.take(outflow.bytes_in(portion_bytes(now_bps, segment_bytes))),
                _ => 0,
            };
            let sent = outflow.send_now(stream, taken);
            let now_bytes = *sent.as_ref().unwrap_or(&0);
            pool.give_back(waiting_bytes + taken - now_bytes - outflow.waiting_bytes());
            turn.sends(now_bytes);
            *sent_bytes += now_bytes;
            pool.entry.add(sent?);
        }
        outflow.finish(stream).await?;
        stream.shutdown().await.map_err(WorkError::io("end the stream"))?;
        Ok(channel.receive(stream).await?)
    }
}

/// What a connection hands over in one turn: whole segments, since the rest of one would be a packet of its own.
fn portion_bytes(pace_bps: u64, segment_bytes: u64) -> u64 {
    let most = (MOST_BYTES / segment_bytes).max(LEAST_SEGMENTS);
    let paced = (pace_bps as f64 / 8.0 * PORTION_S) as u64 / segment_bytes;
    let segments = if pace_bps == 0 {
        most
    } else {
        paced.clamp(LEAST_SEGMENTS, most)
    };
    segments * segment_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_draw_from_the_same_bytes() {
        let pool = Pool {
            transfer: Transfer::default(),
            left: AtomicU64::new(10),
            pacer: Pacer::default(),
            entry: Arc::default(),
            signs: Signs::default(),
        };
        assert_eq!((pool.take(7), pool.take(7), pool.take(7)), (7, 3, 0));
        pool.give_back(5);
        assert_eq!((pool.left(), pool.take(9), pool.left()), (5, 5, 0));
    }

    #[test]
    fn a_portion_is_short_in_time() {
        assert_eq!(portion_bytes(1_000_000, 1428), 4 * 1428);
        assert_eq!(portion_bytes(80_000_000, 1448), 13 * 1448);
        assert_eq!(
            (portion_bytes(10_000_000_000, 1428), portion_bytes(0, 8948)),
            (45 * 1428, 7 * 8948)
        );
    }
}
