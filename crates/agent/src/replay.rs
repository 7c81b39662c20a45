//! Replays one phase of an application: connects all transfers, waits for the start, sends, and tells when each was
//! confirmed by its receiver.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tonic::Status;

use crate::contract::agents::{Ready, ReplayReply, ReplayRequest, Transfer, TransferDone, replay_reply::Event};
use crate::contract::data::{Report, StreamWork, hello::Work};
use crate::dial::{CONNECT_LIMIT, Connection, dial};
use crate::error::{WorkError, within};
use crate::plane::Plane;
use crate::pulse::Pulses;
use crate::session::Session;
use crate::stream;

/// Most transfers of one replay.
pub const MAX_TRANSFERS: usize = 20_000;
/// How long a connected replay waits for its start.
pub const START_LIMIT: Duration = Duration::from_secs(120);
/// Connections that are being made at one time; a whole phase at once would overflow the receivers' queues.
const DIALS: usize = 64;

/// Why a replay cannot be begun or started.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ReplayError {
    /// A replay of that name has not ended.
    #[error("a replay of that id is under way")]
    Exists,
    /// No replay of that name.
    #[error("no replay of that id is waiting")]
    Unknown,
    /// Its transfers are not all connected.
    #[error("the replay is not ready yet")]
    NotReady,
    /// It has started.
    #[error("the replay was started before")]
    Started,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Connecting,
    Ready,
    Started(Instant),
}

/// The replays of a session that have not ended.
#[derive(Debug, Default)]
pub struct Replays(Mutex<HashMap<String, watch::Sender<Phase>>>);

impl Replays {
    /// Begins a replay, which ends when what this returns is dropped.
    ///
    /// # Errors
    /// [`ReplayError::Exists`] when one of that id has not ended.
    pub fn begin(session: &Arc<Session>, id: &str) -> Result<Replay, ReplayError> {
        let mut all = session.replays.lock();
        if all.contains_key(id) {
            return Err(ReplayError::Exists);
        }
        let phase = watch::Sender::new(Phase::Connecting);
        all.insert(id.to_owned(), phase.clone());
        drop(all);
        Ok(Replay {
            session: Arc::clone(session),
            id: id.to_owned(),
            phase,
        })
    }

    /// Starts the transfers of a replay that is ready.
    ///
    /// # Errors
    /// When there is none, it is not ready or has started.
    pub fn start(&self, id: &str) -> Result<(), ReplayError> {
        let all = self.lock();
        let phase = all.get(id).ok_or(ReplayError::Unknown)?;
        let now = *phase.borrow();
        match now {
            Phase::Connecting => Err(ReplayError::NotReady),
            Phase::Started(_) => Err(ReplayError::Started),
            Phase::Ready => {
                phase.send_replace(Phase::Started(Instant::now()));
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Phase>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A replay that has not ended.
#[derive(Debug)]
pub struct Replay {
    session: Arc<Session>,
    id: String,
    phase: watch::Sender<Phase>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.session.replays.lock().remove(&self.id);
    }
}

/// A deadline for the phase; 0 leaves it to the session's.
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
    replay: Replay,
    request: ReplayRequest,
    limit: Duration,
    replies: mpsc::Sender<Result<ReplayReply, Status>>,
) {
    let whole = Arc::new(Common {
        plane,
        session: Arc::clone(&replay.session),
        congestion: request.congestion,
        limit,
        dials: Semaphore::new(DIALS),
        phase: replay.phase.clone(),
        pulses: Pulses::default(),
    });
    let (connected, mut connections) = mpsc::unbounded_channel();
    let mut transfers = JoinSet::new();
    for transfer in request.transfers {
        let whole = Arc::clone(&whole);
        let connected = connected.clone();
        transfers.spawn(async move { whole.transfer(&transfer, connected).await });
    }
    drop(connected);
    let mut count = 0;
    let telling = async {
        // The channel ends when every transfer has connected or failed.
        while connections.recv().await.is_some() {
            count += 1;
        }
        replay.phase.send_replace(Phase::Ready);
        say(&replies, Event::Ready(Ready { connected: count })).await?;
        while let Some(ended) = transfers.join_next().await {
            if let Ok(done) = ended {
                say(&replies, Event::Done(done)).await?;
            }
        }
        Some(())
    };
    tokio::select! {
        _ = telling => {}
        // Nobody listens: dropping the set stops every transfer.
        () = replies.closed() => {}
    }
}

async fn say(replies: &mpsc::Sender<Result<ReplayReply, Status>>, event: Event) -> Option<()> {
    replies.send(Ok(ReplayReply { event: Some(event) })).await.ok()
}

struct Common {
    plane: Arc<Plane>,
    session: Arc<Session>,
    congestion: String,
    limit: Duration,
    dials: Semaphore,
    phase: watch::Sender<Phase>,
    pulses: Pulses,
}

impl Common {
    async fn transfer(&self, transfer: &Transfer, connected: mpsc::UnboundedSender<()>) -> TransferDone {
        let mut done = TransferDone {
            id: transfer.id,
            ..TransferDone::default()
        };
        let result = self.session.holding(self.attempt(transfer, connected, &mut done)).await;
        if let Err(error) = result {
            done.error = error.to_string();
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
        let mut reservation = self.session.budget.reserve(transfer.bytes)?;
        let connection = if transfer.bytes == 0 {
            None
        } else {
            Some(self.connect(peer, transfer.bytes).await?)
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
        if name == self.session.name {
            Ok(self.plane.own())
        } else {
            self.session.peers.get(name)
        }
    }

    async fn connect(&self, peer: SocketAddr, bytes: u64) -> Result<Connection, WorkError> {
        let _turn = self.dials.acquire().await.map_err(|_| WorkError::Over)?;
        let work = Work::Stream(StreamWork {
            bytes,
            ..StreamWork::default()
        });
        dial(&self.plane, &self.session, peer, &self.congestion, work, CONNECT_LIMIT).await
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
        let mut phase = self.phase.subscribe();
        let ready = async {
            let start = phase.wait_for(|phase| matches!(phase, Phase::Started(_))).await;
            match start.as_deref() {
                Ok(Phase::Started(start)) => Ok(*start),
                _ => Err(WorkError::Over),
            }
        };
        within("wait for the start of the replay", START_LIMIT, ready).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::agents::EnrolRequest;
    use crate::session::{Caps, Sessions};

    #[tokio::test]
    async fn a_replay_goes_through_its_phases_once() {
        let sessions = Sessions::new(Caps {
            max_bytes: 1,
            max_time: Duration::from_secs(60),
        });
        let enrol = EnrolRequest {
            run_id: "run".into(),
            secret: vec![1; 32],
            self_: "a".into(),
            ..Default::default()
        };
        let session = sessions.enrol(enrol).unwrap();
        let start = |id: &str| session.replays.start(id);
        assert_eq!(start("r"), Err(ReplayError::Unknown));
        let replay = Replays::begin(&session, "r").unwrap();
        assert_eq!(Replays::begin(&session, "r").unwrap_err(), ReplayError::Exists);
        assert_eq!(start("r"), Err(ReplayError::NotReady));
        replay.phase.send_replace(Phase::Ready);
        assert_eq!(start("r"), Ok(()));
        assert_eq!(start("r"), Err(ReplayError::Started));
        drop(replay);
        assert!(Replays::begin(&session, "r").is_ok());
    }

    #[test]
    fn limits_are_bounded() {
        assert_eq!(limit(2.5).unwrap(), Duration::from_millis(2500));
        assert!(limit(0.0).unwrap() > Duration::from_secs(3600));
        assert!(limit(-1.0).is_err() && limit(f64::NAN).is_err());
    }
}
