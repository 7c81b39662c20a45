//! Replays one phase of an application: connects all transfers, waits for the start, sends, and reports when each
//! receiver has confirmed its transfer. Transfers may have paces, which their controller may change at any time.

mod incoming;
mod lanes;

use std::future;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tonic::Status;
use tracing::{Instrument, debug, error, info};

use crate::contract::agents::{Ready, ReplayReply, ReplayRequest, Transfer, TransferDone, replay_reply::Event};
use crate::contract::data::{Report, hello::Work};
use crate::error::{WorkError, within};
use crate::hold::Hold;
use crate::hold::budget::Reservation;
use crate::hold::jobs::{Job, Paces, State};
use crate::plane::Plane;
use crate::plane::dial::{Call, Connection};
use crate::plane::pulse::Pulses;
use crate::plane::records::Ends;
use crate::plane::sealed::Outflow;
use crate::plane::stalls::Watched;
use crate::work::ledger::{Entry, Ledger};

pub use incoming::Incoming;

/// Largest number of transfers in one replay.
pub const MAX_TRANSFERS: usize = 20_000;
/// How long a connected replay waits for its start.
pub const START_LIMIT: Duration = Duration::from_secs(120);
/// How long one connection may take, and its peer to be ready: a whole phase connects at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Number of connections that may be opened at the same time: a whole phase at once would overflow the receivers'
/// queues.
const DIALS: usize = 64;
/// Largest number of bytes that a paced transfer leaves unsent in the kernel: they leave at the old pace even after a
/// change.
const BACKLOG_BYTES: u32 = 128 << 10;
/// The same as a time at the transfer's pace: a sender that wakes late must not run out of bytes.
const BACKLOG: Duration = Duration::from_millis(100);
/// How often a short backlog is checked.
const LOOK: Duration = Duration::from_millis(30);
/// Lowest pace of the kernel. After two segments or more, the kernel waits for as long as they take at the pace that
/// applied when they left. It keeps that wait even if the pace has risen since: at 2 kbit/s it is 12 s.
const SLOW_BPS: u64 = 1_000_000;
/// Bytes that a slower transfer hands over at a time.
const MORSEL_BYTES: u64 = 8 << 10;
/// The pace of a transfer that must wait: no more of its bytes go to the kernel.
const HELD_BPS: u64 = 1;
/// Shortest time between two reports.
const REPORT: Duration = Duration::from_millis(50);

/// Returns the deadline of the phase; 0 means the hold's.
///
/// # Errors
/// A text that names the problem.
pub fn limit(max_seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(max_seconds) {
        Ok(Duration::ZERO) => Ok(Duration::from_secs(86_400)),
        Ok(limit) => Ok(limit.min(Duration::from_secs(86_400))),
        Err(_) => Err(format!("max_seconds: not {max_seconds}")),
    }
}

/// Returns the time between two reports; `None` if there are none.
///
/// # Errors
/// A text that names the problem.
pub fn every(report_s: f64) -> Result<Option<Duration>, String> {
    match Duration::try_from_secs_f64(report_s) {
        Ok(Duration::ZERO) => Ok(None),
        Ok(every) => Ok(Some(every.max(REPORT))),
        Err(_) => Err(format!("report_s: not {report_s}")),
    }
}

/// Runs a replay within a time limit, with periodic reports, and sends the results of its transfers.
pub async fn run(
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    job: Job,
    request: ReplayRequest,
    (limit, every): (Duration, Option<Duration>),
    replies: mpsc::Sender<Result<ReplayReply, Status>>,
) {
    let whole = Arc::new(Common {
        plane,
        hold,
        congestion: request.congestion,
        limit,
        dials: Semaphore::new(DIALS),
        state: job.watch(),
        paces: job.paces(),
        pulses: Pulses::default(),
    });
    let mut ledger = Ledger::default();
    let (connected, mut connections) = mpsc::unbounded_channel();
    let mut transfers = JoinSet::new();
    for transfer in request.transfers {
        let whole = Arc::clone(&whole);
        let (connected, entry) = (connected.clone(), ledger.open(transfer.id));
        transfers.spawn(async move { whole.transfer(&transfer, &entry, connected).await }.in_current_span());
    }
    info!(transfers = transfers.len(), "replay begins");
    drop(connected);
    let mut count = 0;
    let telling = async {
        // The channel ends when every transfer has connected or failed.
        while connections.recv().await.is_some() {
            count += 1;
        }
        job.ready();
        say(&replies, Event::Ready(Ready { connected: count })).await?;
        let mut ticks = every.map(interval);
        loop {
            let tick = async {
                match &mut ticks {
                    Some(ticks) => _ = ticks.tick().await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                ended = transfers.join_next() => match ended {
                    Some(Ok(done)) => say(&replies, Event::Done(done)).await?,
                    Some(Err(error)) => error!(%error, "a transfer was interrupted"),
                    None => break Some(()),
                },
                () = tick => {
                    let begun = *whole.state.borrow();
                    if let State::Running(begun) = begun {
                        say(&replies, Event::Moved(ledger.report(begun.elapsed()))).await?;
                    }
                }
            }
        }
    };
    tokio::select! {
        _ = telling => {}
        // The controller has left: dropping the set stops every transfer.
        () = replies.closed() => info!("the controller no longer listens"),
    }
}

/// The pace of a transfer, as its controller wants it.
fn wanted_bps(paces: &Paces, transfer: &Transfer) -> u64 {
    *paces.get(&transfer.id).unwrap_or(&transfer.pace_bps)
}

/// The pace that the kernel gets; 0 = none.
fn kernel_bps(pace_bps: u64) -> u64 {
    if pace_bps == 0 { 0 } else { pace_bps.max(SLOW_BPS) }
}

/// Number of bytes that a transfer may leave unsent at its pace.
fn backlog_bytes(pace_bps: u64) -> u64 {
    if pace_bps == 0 {
        return u64::from(BACKLOG_BYTES);
    }
    let paced = pace_bps as f64 / 8.0 * BACKLOG.as_secs_f64();
    (paced as u64).clamp(MORSEL_BYTES, u64::from(BACKLOG_BYTES))
}

/// How long a morsel takes at a pace.
fn morsel_takes(pace_bps: u64) -> Duration {
    Duration::from_secs_f64(8.0 * MORSEL_BYTES as f64 / pace_bps.max(1) as f64)
}

async fn say(replies: &mpsc::Sender<Result<ReplayReply, Status>>, event: Event) -> Option<()> {
    replies.send(Ok(ReplayReply { event: Some(event) })).await.ok()
}

struct Common {
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    congestion: String,
    limit: Duration,
    dials: Semaphore,
    state: watch::Receiver<State>,
    paces: watch::Receiver<Paces>,
    pulses: Pulses,
}

impl Common {
    async fn transfer(
        self: &Arc<Self>,
        transfer: &Transfer,
        entry: &Arc<Entry>,
        connected: mpsc::UnboundedSender<()>,
    ) -> TransferDone {
        let mut done = TransferDone {
            id: transfer.id,
            ..TransferDone::default()
        };
        let attempt: Pin<Box<dyn Future<Output = Result<(), WorkError>> + Send + '_>> =
            if transfer.spread && transfer.bytes > 0 {
                Box::pin(self.spread(transfer, entry, connected, &mut done))
            } else {
                Box::pin(self.attempt(transfer, entry, connected, &mut done))
            };
        // A peer whose process is stopped still accepts connections, since its kernel does.
        let attempt = self.hold.dropped.unless(&transfer.target, attempt);
        let result = self.hold.during(attempt).await;
        if let Err(error) = result {
            done.set_failure(error.failure());
            done.error = error.to_string();
            info!(transfer = transfer.id, peer = transfer.target, %error, "transfer failed");
        }
        done
    }

    async fn attempt(
        &self,
        transfer: &Transfer,
        entry: &Entry,
        connected: mpsc::UnboundedSender<()>,
        done: &mut TransferDone,
    ) -> Result<(), WorkError> {
        let transfer = &Transfer {
            count_id: if transfer.bin_s > 0.0 { rand::random() } else { 0 },
            ..transfer.clone()
        };
        let peer = self.target(&transfer.target)?;
        let mut reservation = self.hold.budget.reserve(transfer.bytes)?;
        let connection = if transfer.bytes == 0 {
            None
        } else {
            Some(self.connect(peer, transfer).await?)
        };
        // The receiver of this message may be gone; the transfer then ends with the replay.
        let _ = connected.send(());
        drop(connected);
        let start = self.started().await?;
        done.start_s = start.elapsed().as_secs_f64();
        let Some(mut connection) = connection else {
            done.finish_s = done.start_s;
            return Ok(());
        };
        let limit = self.limit.saturating_sub(start.elapsed());
        let whole = async {
            loop {
                let mut outflow = self.outflow(transfer, &connection);
                let before_bytes = reservation.unspent();
                let sent = self
                    .send(transfer, &mut connection, &mut outflow, &mut reservation, entry)
                    .await;
                entry.watch(None);
                done.retransmits += tcp::info(&connection.stream).map_or(0, |info| info.retransmits);
                let error = match sent {
                    Ok(report) => return Ok(report),
                    Err(error) => error,
                };
                let Some(lost_bytes) = connection.watched.as_ref().and_then(Watched::undelivered_bytes) else {
                    return Err(error);
                };
                let lost_bytes = outflow.lost_bytes(lost_bytes, before_bytes - reservation.unspent());
                reservation.restore(lost_bytes);
                entry.take_back(lost_bytes);
                debug!(transfer = transfer.id, lost_bytes, "continues on another connection");
                let rest = Transfer {
                    bytes: reservation.unspent(),
                    ..transfer.clone()
                };
                if rest.bytes == 0 && rest.bin_s == 0.0 {
                    // Only the receiver's confirmation was lost.
                    return Ok(Report::default());
                }
                connection = self.replaced(&rest).await?;
            }
        };
        let sent = within("send and confirm", limit, whole).await;
        entry.watch(None);
        done.bytes = transfer.bytes - reservation.unspent();
        done.finish_s = start.elapsed().as_secs_f64();
        let report = sent?;
        if !report.error.is_empty() {
            return Err(WorkError::Receiver(report.error));
        }
        done.bin_bytes = report.bin_bytes;
        Ok(())
    }

    /// Sends all reserved bytes over a connection. Returns the receiver's confirmation.
    async fn send(
        &self,
        transfer: &Transfer,
        connection: &mut Connection,
        outflow: &mut Outflow,
        reservation: &mut Reservation<'_>,
        entry: &Entry,
    ) -> Result<Report, WorkError> {
        let Connection { stream, channel, .. } = connection;
        let paced = self.paced(transfer, stream, entry)?;
        let sending = async {
            let mut handed = None;
            while reservation.unspent() > 0 {
                let most = self.room(transfer, stream, &mut handed).await?;
                entry.add(outflow.send_at_most(stream, reservation, most).await?);
            }
            outflow.finish(stream).await?;
            Ok::<Report, WorkError>(channel.receive(stream).await?)
        };
        let sending = async {
            tokio::select! {
                biased;
                sent = sending => sent,
                error = paced => Err(error),
            }
        };
        self.watching(self.target(&transfer.target)?, sending).await
    }

    /// What a transfer sends over a new connection.
    fn outflow(&self, transfer: &Transfer, connection: &Connection) -> Outflow {
        let ends = Ends {
            connector: &self.hold.name,
            acceptor: &transfer.target,
        };
        Outflow::new(transfer.encrypt.then(|| connection.channel.sealer(ends)))
    }

    /// Opens a connection in place of one that was closed because its path's MTU shrank.
    async fn replaced(&self, transfer: &Transfer) -> Result<Connection, WorkError> {
        let connecting = self.connect(self.target(&transfer.target)?, transfer).await;
        connecting.map_err(|error| {
            debug!(%error, transfer = transfer.id, "no other connection");
            WorkError::Narrowed
        })
    }

    fn target(&self, name: &str) -> Result<SocketAddr, WorkError> {
        if name == self.hold.name {
            Ok(self.plane.own())
        } else {
            self.hold.peers.get(name)
        }
    }

    async fn connect(&self, peer: SocketAddr, transfer: &Transfer) -> Result<Connection, WorkError> {
        let _turn = self.dials.acquire().await.map_err(|_| WorkError::Over)?;
        self.call(peer, transfer).dial().await
    }

    fn call(&self, peer: SocketAddr, transfer: &Transfer) -> Call<'_> {
        Call {
            plane: &self.plane,
            hold: &self.hold,
            peer,
            work: Work::Transfer(transfer.clone()),
            congestion: &self.congestion,
            connect: CONNECT_LIMIT,
            patience: None,
            ready: CONNECT_LIMIT,
        }
    }

    /// The pace of a transfer now.
    fn pace_bps(&self, transfer: &Transfer) -> u64 {
        wanted_bps(&self.paces.borrow(), transfer)
    }

    /// Waits while a transfer is held or has enough bytes in the kernel. Returns the number of bytes that it may hand
    /// over.
    ///
    /// `handed` is the time of the last hand-over.
    async fn room(
        &self,
        transfer: &Transfer,
        stream: &TcpStream,
        handed: &mut Option<Instant>,
    ) -> Result<u64, WorkError> {
        if transfer.pace_bps == 0 {
            return Ok(u64::MAX);
        }
        let mut paces = self.paces.clone();
        loop {
            let free = paces.wait_for(|paces| wanted_bps(paces, transfer) != HELD_BPS).await;
            let pace_bps = wanted_bps(&*free.map_err(|_| WorkError::Over)?, transfer);
            let most = backlog_bytes(pace_bps);
            if most == u64::from(BACKLOG_BYTES) {
                // The kernel itself ensures this.
                return Ok(most);
            }
            let wait = if pace_bps < SLOW_BPS {
                let due = handed.map_or(Duration::ZERO, |at| morsel_takes(pace_bps).saturating_sub(at.elapsed()));
                if due.is_zero() {
                    *handed = Some(Instant::now());
                    return Ok(MORSEL_BYTES);
                }
                due
            } else {
                let unsent = tcp::info(stream)?.unsent_bytes;
                if unsent < most {
                    return Ok(most - unsent);
                }
                LOOK
            };
            // A new pace may end the wait earlier.
            let _ = timeout(wait, paces.changed()).await;
        }
    }

    /// Keeps a transfer at its controller's pace, if it began with a pace. It only ends with an error.
    fn paced(
        &self,
        transfer: &Transfer,
        stream: &TcpStream,
        entry: &Entry,
    ) -> Result<impl Future<Output = WorkError> + use<>, WorkError> {
        let (id, mut pace_bps) = (transfer.id, transfer.pace_bps);
        let socket: Option<OwnedFd> = if pace_bps == 0 {
            None
        } else {
            tcp::set_backlog(stream, BACKLOG_BYTES)?;
            if pace_bps != HELD_BPS {
                tcp::set_pace(stream, kernel_bps(pace_bps))?;
            }
            let copy = || {
                stream
                    .as_fd()
                    .try_clone_to_owned()
                    .map_err(WorkError::io("pace a connection"))
            };
            entry.watch(Some(copy()?));
            Some(copy()?)
        };
        let mut paces = self.paces.clone();
        Ok(async move {
            let Some(socket) = socket else {
                return future::pending().await;
            };
            loop {
                let wanted_bps = paces.borrow_and_update().get(&id).copied().unwrap_or(pace_bps);
                // The bytes of a held transfer that are already in the kernel leave at the old pace.
                if wanted_bps != pace_bps && wanted_bps != HELD_BPS {
                    pace_bps = wanted_bps;
                    if let Err(error) = tcp::set_pace(&socket, kernel_bps(pace_bps)) {
                        return error.into();
                    }
                }
                if paces.changed().await.is_err() {
                    return future::pending().await;
                }
            }
        })
    }

    /// Sends for as long as the peer is reachable.
    async fn watching<T>(
        &self,
        peer: SocketAddr,
        sending: impl Future<Output = Result<T, WorkError>>,
    ) -> Result<T, WorkError> {
        tokio::select! {
            biased;
            sent = sending => sent,
            () = self.pulses.stopped(&self.plane, peer) => Err(WorkError::Vanished),
        }
    }

    async fn started(&self) -> Result<Instant, WorkError> {
        let mut state = self.state.clone();
        let ready = async {
            let start = state.wait_for(|state| matches!(state, State::Running(_))).await;
            match start.as_deref() {
                Ok(State::Running(start)) => Ok(*start),
                _ => Err(WorkError::Over),
            }
        };
        within("wait for the start of the replay", START_LIMIT, ready).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_bounded() {
        assert_eq!(limit(2.5).unwrap(), Duration::from_millis(2500));
        assert!(limit(0.0).unwrap() > Duration::from_secs(3600));
        assert!(limit(-1.0).is_err() && limit(f64::NAN).is_err());
        assert_eq!((every(0.0), every(1e-6)), (Ok(None), Ok(Some(REPORT))));
        assert!(every(-1.0).is_err() && every(f64::INFINITY).is_err());
    }

    #[test]
    fn a_backlog_is_short_in_time() {
        assert_eq!(backlog_bytes(143_000), MORSEL_BYTES);
        assert_eq!(backlog_bytes(2_000_000), 25_000);
        assert_eq!(backlog_bytes(1_000_000_000), u64::from(BACKLOG_BYTES));
        assert_eq!(morsel_takes(65_536), Duration::from_secs(1));
        // No pace means no limit.
        assert_eq!((backlog_bytes(0), kernel_bps(0)), (u64::from(BACKLOG_BYTES), 0));
        assert_eq!((kernel_bps(1_000), kernel_bps(5_000_000)), (SLOW_BPS, 5_000_000));
    }
}
