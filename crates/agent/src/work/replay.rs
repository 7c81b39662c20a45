//! Replays one phase of an application: connects all transfers, waits for the start, sends, and tells when each was
//! confirmed by its receiver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tonic::{Status, async_trait};
use tracing::{Instrument, error, info};

use crate::contract::agents::{Ready, ReplayReply, ReplayRequest, Transfer, TransferDone, replay_reply::Event};
use crate::contract::data::{Report, hello::Work};
use crate::error::{WorkError, within};
use crate::hold::Hold;
use crate::hold::jobs::{Job, State};
use crate::plane::Plane;
use crate::plane::dial::{Call, Connection};
use crate::plane::pulse::Pulses;
use crate::plane::stream;
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// Most transfers of one replay.
pub const MAX_TRANSFERS: usize = 20_000;
/// How long a connected replay waits for its start.
pub const START_LIMIT: Duration = Duration::from_secs(120);
/// How long one connection may take, and its peer to be ready: a whole phase connects at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Connections that are being made at one time; a whole phase at once would overflow the receivers' queues.
const DIALS: usize = 64;

/// A deadline for the phase; 0 leaves it to the hold's.
///
/// # Errors
/// Text that says what is wrong with it.
pub fn limit(max_seconds: f64) -> Result<Duration, String> {
    match Duration::try_from_secs_f64(max_seconds) {
        Ok(Duration::ZERO) => Ok(Duration::from_secs(86_400)),
        Ok(limit) => Ok(limit.min(Duration::from_secs(86_400))),
        Err(_) => Err(format!("max_seconds: not {max_seconds}")),
    }
}

/// Runs a replay and sends what happens to its transfers.
pub async fn run(
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    job: Job,
    request: ReplayRequest,
    limit: Duration,
    replies: mpsc::Sender<Result<ReplayReply, Status>>,
) {
    let whole = Arc::new(Common {
        plane,
        hold,
        congestion: request.congestion,
        limit,
        dials: Semaphore::new(DIALS),
        state: job.watch(),
        pulses: Pulses::default(),
    });
    let (connected, mut connections) = mpsc::unbounded_channel();
    let mut transfers = JoinSet::new();
    for transfer in request.transfers {
        let whole = Arc::clone(&whole);
        let connected = connected.clone();
        transfers.spawn(async move { whole.transfer(&transfer, connected).await }.in_current_span());
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
        while let Some(ended) = transfers.join_next().await {
            match ended {
                Ok(done) => say(&replies, Event::Done(done)).await?,
                Err(error) => error!(%error, "a transfer broke off"),
            }
        }
        Some(())
    };
    tokio::select! {
        _ = telling => {}
        // Nobody listens: dropping the set stops every transfer.
        () = replies.closed() => info!("nobody listens any more"),
    }
}

/// A transfer at its receiver.
pub struct Incoming {
    bytes: u64,
}

impl Incoming {
    /// So many bytes to come.
    pub fn new(bytes: u64) -> Self {
        Self { bytes }
    }
}

#[async_trait]
impl Answer for Incoming {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.welcome(0).await?;
        // A transfer starts when its controller says so and is over with the hold at the latest.
        let connection = &mut visit.guest.connection;
        connection.stream.readable().await.map_err(WorkError::io("receive"))?;
        let _job = visit.guest.hold.jobs.arriving();
        let counter = stream::receive(&connection.stream, Some(self.bytes), 0.0).await?;
        connection.send(&counter.report()).await
    }
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
    pulses: Pulses,
}

impl Common {
    async fn transfer(&self, transfer: &Transfer, connected: mpsc::UnboundedSender<()>) -> TransferDone {
        let mut done = TransferDone {
            id: transfer.id,
            ..TransferDone::default()
        };
        let result = self.hold.during(self.attempt(transfer, connected, &mut done)).await;
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
        connected: mpsc::UnboundedSender<()>,
        done: &mut TransferDone,
    ) -> Result<(), WorkError> {
        let peer = self.target(&transfer.target)?;
        let mut reservation = self.hold.budget.reserve(transfer.bytes)?;
        let connection = if transfer.bytes == 0 {
            None
        } else {
            Some(self.connect(peer, transfer).await?)
        };
        // Whoever listens may be gone; the transfer then ends with the replay.
        let _ = connected.send(());
        drop(connected);
        let start = self.started().await?;
        done.start_s = start.elapsed().as_secs_f64();
        if let Some(Connection {
            mut stream,
            mut channel,
            ..
        }) = connection
        {
            let sending = async {
                stream::send_all(&stream, &mut reservation).await?;
                Ok::<Report, WorkError>(channel.receive(&mut stream).await?)
            };
            let limit = self.limit.saturating_sub(start.elapsed());
            let sent = within("send and confirm", limit, self.watching(peer, sending)).await;
            done.retransmits = tcp::info(&stream).map_or(0, |info| info.retransmits);
            done.bytes = transfer.bytes - reservation.unspent();
            done.finish_s = start.elapsed().as_secs_f64();
            let report = sent?;
            if !report.error.is_empty() {
                return Err(WorkError::Receiver(report.error));
            }
            done.bytes = report.bytes;
        } else {
            done.finish_s = done.start_s;
        }
        Ok(())
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
        let call = Call {
            plane: &self.plane,
            hold: &self.hold,
            peer,
            work: Work::Transfer(transfer.clone()),
            congestion: &self.congestion,
            connect: CONNECT_LIMIT,
            patience: None,
            ready: CONNECT_LIMIT,
        };
        call.dial().await
    }

    /// Sends for as long as the peer is there.
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
    }
}
