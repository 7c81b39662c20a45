//! Sessions: which run holds the agent, whom it may talk to, with what secret, and for how long and how much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::watch;

use crate::budget::Allowance;
use crate::contract::agents::{Budget, EnrolRequest};
use crate::dropped::Dropped;
use crate::error::WorkError;
use crate::handshake::Secret;
use crate::peers::Peers;
use crate::replay::Replays;
use crate::rounds::Rounds;

/// The most that any session of this agent may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caps {
    /// Payload bytes one session may send.
    pub max_bytes: u64,
    /// Longest session.
    pub max_time: Duration,
}

/// Why a session cannot be opened or used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SessionError {
    /// Another run holds the agent.
    #[error("held by run `{0}`")]
    Held(String),
    /// No session, or one whose time is over, or one of another run.
    #[error("run `{0}` is not enrolled here (any more)")]
    NotEnrolled(String),
    /// The enrolment makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// One run's hold on the agent.
#[derive(Debug)]
pub struct Session {
    /// The run.
    pub run_id: String,
    /// Its secret.
    pub secret: Secret,
    /// The agent's own name in the run.
    pub name: String,
    /// Whom it may talk to.
    pub peers: Peers,
    /// What it may still send.
    pub budget: Allowance,
    /// Where its schedule is.
    pub rounds: Rounds,
    /// The peers it goes on without.
    pub dropped: Dropped,
    /// Its replays that have not ended.
    pub replays: Replays,
    ends: Instant,
    granted: Duration,
    over: watch::Sender<bool>,
    measuring: AtomicBool,
}

impl Session {
    fn open(request: EnrolRequest, caps: Caps) -> Result<Self, SessionError> {
        let invalid = |text: String| SessionError::Invalid(text);
        if request.run_id.is_empty() || request.self_.is_empty() {
            return Err(invalid("run_id and self may not be empty".into()));
        }
        let secret = Secret::new(&request.secret)
            .ok_or_else(|| invalid(format!("secret: 32 bytes, not {}", request.secret.len())))?;
        let peers = Peers::new(&request.self_, request.peers).map_err(invalid)?;
        let asked = request.budget.unwrap_or_default();
        let max_bytes = if asked.max_bytes == 0 {
            caps.max_bytes
        } else {
            asked.max_bytes.min(caps.max_bytes)
        };
        if asked.max_seconds.is_nan() || asked.max_seconds < 0.0 {
            return Err(invalid(format!("budget.max_seconds: not {}", asked.max_seconds)));
        }
        let wanted = if asked.max_seconds == 0.0 {
            f64::INFINITY
        } else {
            asked.max_seconds
        };
        let granted = Duration::try_from_secs_f64(wanted).map_or(caps.max_time, |time| time.min(caps.max_time));
        Ok(Self {
            run_id: request.run_id,
            secret,
            name: request.self_,
            budget: Allowance::new(max_bytes),
            rounds: Rounds::default(),
            dropped: Dropped::default(),
            replays: Replays::default(),
            peers,
            ends: Instant::now() + granted,
            granted,
            over: watch::Sender::new(false),
            measuring: AtomicBool::new(false),
        })
    }

    /// What the session was granted.
    pub fn granted(&self) -> Budget {
        Budget {
            max_bytes: self.budget.cap(),
            max_seconds: self.granted.as_secs_f64(),
        }
    }

    /// Whether the session was released or its time has passed.
    pub fn is_over(&self) -> bool {
        *self.over.borrow() || Instant::now() >= self.ends
    }

    /// Returns when the session is over.
    pub async fn over(&self) {
        let mut over = self.over.subscribe();
        let _ = over.wait_for(|over| *over).await;
    }

    /// Runs work of the session, and drops it when the session is over.
    ///
    /// # Errors
    /// [`WorkError::Over`], or what the work fails with.
    pub async fn holding<T>(&self, work: impl Future<Output = Result<T, WorkError>>) -> Result<T, WorkError> {
        tokio::select! {
            biased;
            () = self.over() => Err(WorkError::Over),
            result = work => result,
        }
    }

    /// Takes the right to run a schedule; `None` while one runs.
    pub fn begin_measuring(self: &Arc<Self>) -> Option<Measuring> {
        let free = !self.measuring.swap(true, Ordering::AcqRel);
        free.then(|| Measuring(Arc::clone(self)))
    }

    /// Goes on without `peer`: nothing waits for it any more.
    ///
    /// # Errors
    /// [`WorkError::UnknownPeer`] when it is none.
    pub fn drop_peer(&self, peer: &str, reason: &str) -> Result<(), WorkError> {
        self.peers.get(peer)?;
        self.dropped.add(peer, reason);
        self.rounds.forget(peer);
        Ok(())
    }

    fn end(&self) {
        self.over.send_replace(true);
    }
}

/// The right to run the session's schedule, given back when dropped.
#[derive(Debug)]
pub struct Measuring(Arc<Session>);

impl Drop for Measuring {
    fn drop(&mut self) {
        self.0.rounds.leave();
        self.0.measuring.store(false, Ordering::Release);
    }
}

/// The agent's one place for a session.
#[derive(Debug)]
pub struct Sessions {
    caps: Caps,
    current: Mutex<Option<Arc<Session>>>,
}

impl Sessions {
    /// An agent that no run holds.
    pub fn new(caps: Caps) -> Self {
        Self {
            caps,
            current: Mutex::new(None),
        }
    }

    /// Opens a session and sees to it that it ends in time. A run that holds the agent already starts afresh: what it
    /// had running stops. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When another run holds the agent or the request makes no sense.
    pub fn enrol(&self, request: EnrolRequest) -> Result<Arc<Session>, SessionError> {
        let mut current = self.lock();
        if let Some(holder) = current
            .as_ref()
            .filter(|session| !session.is_over() && session.run_id != request.run_id)
        {
            return Err(SessionError::Held(holder.run_id.clone()));
        }
        let session = Arc::new(Session::open(request, self.caps)?);
        if let Some(before) = current.replace(Arc::clone(&session)) {
            before.end();
        }
        let lease = Arc::clone(&session);
        tokio::spawn(async move {
            let _ = tokio::time::timeout_at(lease.ends.into(), lease.over()).await;
            lease.end();
        });
        Ok(session)
    }

    /// The session that holds the agent, if any.
    pub fn current(&self) -> Option<Arc<Session>> {
        let mut current = self.lock();
        if current.as_ref().is_some_and(|session| session.is_over()) {
            *current = None;
        }
        current.clone()
    }

    /// The session of `run_id`.
    ///
    /// # Errors
    /// When that run does not hold the agent.
    pub fn of(&self, run_id: &str) -> Result<Arc<Session>, SessionError> {
        let session = self.current().filter(|session| session.run_id == run_id);
        session.ok_or_else(|| SessionError::NotEnrolled(run_id.to_owned()))
    }

    /// Ends the session of `run_id`.
    ///
    /// # Errors
    /// When that run does not hold the agent.
    pub fn release(&self, run_id: &str) -> Result<Arc<Session>, SessionError> {
        let session = self.of(run_id)?;
        session.end();
        Ok(session)
    }

    /// Ends whatever session there is.
    pub fn end(&self) {
        if let Some(session) = self.lock().take() {
            session.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        // Nothing can panic while the lock is held half-way through a change.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::agents::Peer;

    const CAPS: Caps = Caps {
        max_bytes: 1000,
        max_time: Duration::from_secs(60),
    };

    fn peer(name: &str, address: &str) -> Peer {
        Peer {
            name: name.into(),
            address: address.into(),
            data_port: 7411,
        }
    }

    fn request(run_id: &str) -> EnrolRequest {
        EnrolRequest {
            run_id: run_id.into(),
            secret: vec![1; 32],
            self_: "a".into(),
            peers: vec![peer("a", "10.0.0.1"), peer("b", "10.0.0.2"), peer("c", "fd00::3")],
            budget: None,
        }
    }

    fn refused(change: impl FnOnce(&mut EnrolRequest)) -> String {
        let mut request = request("run");
        change(&mut request);
        Session::open(request, CAPS).unwrap_err().to_string()
    }

    #[test]
    fn the_smaller_budget_is_granted() {
        let mut asked = request("run");
        asked.budget = Some(Budget {
            max_bytes: 5000,
            max_seconds: 2.5,
        });
        let granted = Session::open(asked, CAPS).unwrap().granted();
        assert_eq!(
            granted,
            Budget {
                max_bytes: 1000,
                max_seconds: 2.5
            }
        );
        let granted = Session::open(request("run"), CAPS).unwrap().granted();
        assert_eq!(
            granted,
            Budget {
                max_bytes: 1000,
                max_seconds: 60.0
            }
        );
    }

    #[test]
    fn senseless_enrolments_are_named() {
        assert!(refused(|r| r.secret.truncate(31)).contains("secret"));
        assert!(refused(|r| r.self_.clear()).contains("self"));
        assert!(refused(|r| r.peers.push(peer("b", "10.0.0.9"))).contains("twice"));
        for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "host.example"] {
            assert!(
                refused(|r| r.peers.push(peer("x", address))).contains("`x`"),
                "{address}"
            );
        }
        assert!(refused(|r| r.peers[0].data_port = 70_000).contains("70000"));
        assert!(
            refused(|r| r.budget = Some(Budget {
                max_bytes: 0,
                max_seconds: -1.0
            }))
            .contains("max_seconds")
        );
    }

    #[tokio::test]
    async fn one_run_at_a_time() {
        let sessions = Sessions::new(CAPS);
        let first = sessions.enrol(request("one")).unwrap();
        assert_eq!(
            sessions.enrol(request("two")).unwrap_err(),
            SessionError::Held("one".into())
        );
        let again = sessions.enrol(request("one")).unwrap();
        assert!(first.is_over() && !again.is_over());
        sessions.release("one").unwrap();
        assert!(sessions.current().is_none());
        sessions.enrol(request("two")).unwrap();
        assert!(sessions.of("one").is_err());
    }

    #[tokio::test]
    async fn a_lease_that_has_expired_is_dropped() {
        let sessions = Sessions::new(CAPS);
        let mut short = request("one");
        short.budget = Some(Budget {
            max_bytes: 0,
            max_seconds: 0.01,
        });
        let session = sessions.enrol(short).unwrap();
        let work = session.holding(std::future::pending::<Result<(), WorkError>>());
        assert!(matches!(work.await, Err(WorkError::Over)));
        assert!(sessions.current().is_none());
        sessions.enrol(request("two")).unwrap();
    }

    #[tokio::test]
    async fn one_schedule_at_a_time() {
        let sessions = Sessions::new(CAPS);
        let session = sessions.enrol(request("one")).unwrap();
        let held = session.begin_measuring().unwrap();
        assert!(session.begin_measuring().is_none());
        drop(held);
        assert!(session.begin_measuring().is_some());
    }
}
