//! Holds: which runs use the agent, with which peers and secret, for how long, and for how many bytes.

pub mod budget;
pub mod dropped;
pub mod jobs;
pub mod letterbox;
pub mod peers;
pub mod registry;
pub mod rounds;
pub mod secret;
pub mod shelf;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::contract::agents::{Budget, EnrolRequest, HoldStatus, JobState, JobStatus, Mode, Peer};
use crate::error::WorkError;
use crate::hold::budget::Allowance;
use crate::hold::dropped::Dropped;
use crate::hold::jobs::{All, Job, JobError, Jobs, Label, State};
use crate::hold::letterbox::Letterbox;
use crate::hold::peers::Peers;
use crate::hold::rounds::Rounds;
use crate::hold::secret::Secret;
use crate::hold::shelf::Shelf;

/// Pause between two checks whether a lease has ended.
const LOOK: Duration = Duration::from_millis(500);
/// If a check comes this much later than planned, this agent had no processor for a while.
const STARVED: Duration = Duration::from_millis(500);
/// Time that an agent without a processor gives renewals that arrived meanwhile.
const CATCH_UP: Duration = Duration::from_secs(2);

/// Largest number of characters in a run's user or purpose.
const MAX_LABEL: usize = 100;

/// The limits of any hold of this agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Caps {
    /// Payload bytes that one hold may send.
    pub max_bytes: u64,
    /// Longest duration of a hold.
    pub max_time: Duration,
}

/// Why a hold cannot be opened or used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum HoldError {
    /// Another run holds the agent exclusively.
    #[error(
        "held by run `{}` ({}) for {left_s:.0} s at most, and {lease_left_s:.0} s if its controller is gone",
        label.run_id, introduced(label)
    )]
    Held {
        /// The other run.
        label: Label,
        /// How long the other hold may last, in seconds.
        left_s: f64,
        /// How long the other hold lasts unless it is renewed, in seconds.
        lease_left_s: f64,
        /// How long it lasted after its last renewal, in seconds.
        lease_s: f64,
    },
    /// The agent has too many holds.
    #[error("already held by {0} runs, which is the limit")]
    Full(usize),
    /// The run has no hold here, or its hold has expired.
    #[error("run `{0}` has no hold here, or its hold is over")]
    NotEnrolled(String),
    /// The enrolment is invalid.
    #[error("{0}")]
    Invalid(String),
}

fn introduced(label: &Label) -> String {
    let known = [label.purpose.as_str(), label.user.as_str()].into_iter();
    let known: Vec<_> = known.filter(|text| !text.is_empty()).collect();
    if known.is_empty() {
        "purpose unknown".into()
    } else {
        known.join(", by ")
    }
}

/// One run's hold on the agent.
#[derive(Debug)]
pub struct Hold {
    /// The run's name.
    pub run_id: String,
    /// The run's secret.
    pub secret: Secret,
    /// The agent's own name in the run.
    pub name: String,
    /// The peers that the run may exchange data with.
    pub peers: Peers,
    /// The bytes that the run may still send.
    pub budget: Allowance,
    /// The state of the run's schedule.
    pub rounds: Rounds,
    /// The peers without which the run continues.
    pub dropped: Dropped,
    /// Opens the calls that other agents forward; `None` if it takes none.
    pub letterbox: Option<Letterbox>,
    /// The run's jobs.
    pub jobs: Jobs,
    /// Values that the run's jobs keep for peers that ask for them.
    pub shelf: Shelf,
    /// Peers that have greeted this agent over UDP.
    pub greeters: Mutex<BTreeSet<IpAddr>>,
    exclusive: bool,
    opened: Instant,
    ends: Instant,
    lease: Duration,
    expires: watch::Sender<Instant>,
    attended: AtomicUsize,
    over: watch::Sender<bool>,
}

impl Hold {
    fn open(request: EnrolRequest, caps: Caps, all: All) -> Result<Self, HoldError> {
        let invalid = |text: String| HoldError::Invalid(text);
        if request.run_id.is_empty() || request.self_.is_empty() {
            return Err(invalid("run_id and self may not be empty".into()));
        }
        let secret = Secret::new(&request.secret)
            .ok_or_else(|| invalid(format!("secret: 32 bytes, not {}", request.secret.len())))?;
        let peers = Peers::new(&request.self_, request.peers).map_err(invalid)?;
        let letterbox = match request.letter_key.as_slice() {
            [] => None,
            key => {
                Some(Letterbox::new(key).ok_or_else(|| invalid(format!("letter_key: 32 bytes, not {}", key.len())))?)
            }
        };
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
        let lease = match Duration::try_from_secs_f64(request.lease_s) {
            Ok(Duration::ZERO) => granted,
            Ok(lease) => lease.min(granted),
            Err(_) => return Err(invalid(format!("lease_s: not {}", request.lease_s))),
        };
        let exclusive = request.mode == i32::from(Mode::Exclusive);
        let label = Label {
            run_id: request.run_id.clone(),
            user: clean(&request.user),
            purpose: clean(&request.purpose),
        };
        let opened = Instant::now();
        Ok(Self {
            run_id: request.run_id,
            secret,
            name: request.self_,
            budget: Allowance::new(max_bytes),
            rounds: Rounds::default(),
            dropped: Dropped::default(),
            letterbox,
            jobs: Jobs::new(label, all),
            shelf: Shelf::default(),
            greeters: Mutex::default(),
            peers,
            exclusive,
            opened,
            ends: opened + granted,
            lease,
            expires: watch::Sender::new(opened + lease),
            attended: AtomicUsize::new(0),
            over: watch::Sender::new(false),
        })
    }

    /// The budget that the hold was granted.
    pub fn granted(&self) -> Budget {
        Budget {
            max_bytes: self.budget.cap(),
            max_seconds: self.ends.duration_since(self.opened).as_secs_f64(),
        }
    }

    /// Whether the hold excludes other exclusive holds.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Whether the hold was released or has expired.
    ///
    /// Only [`Hold::lapse`] decides that a lease has ended. A renewal that waited for this agent's processor is still in
    /// time.
    pub fn is_over(&self) -> bool {
        *self.over.borrow() || Instant::now() >= self.ends
    }

    /// Renews the lease from now on.
    pub fn renew(&self) {
        self.expires.send_replace(Instant::now() + self.lease);
    }

    /// Keeps the lease from ending until the returned value is dropped.
    pub fn attend(self: &Arc<Self>) -> Attended {
        self.attended.fetch_add(1, Ordering::Relaxed);
        Attended(Arc::clone(self))
    }

    fn is_attended(&self) -> bool {
        self.attended.load(Ordering::Relaxed) > 0
    }

    /// The hold's state, as other controllers may see it.
    pub fn status(&self) -> HoldStatus {
        let Label { run_id, user, purpose } = self.jobs.label().clone();
        let mode = if self.exclusive { Mode::Exclusive } else { Mode::Shared };
        let jobs = self.jobs.list().into_iter().map(|job| JobStatus {
            id: job.id,
            kind: job.kind.into(),
            state: match job.state {
                State::Connecting => JobState::Connecting,
                State::Ready => JobState::Ready,
                State::Running(_) => JobState::Running,
            }
            .into(),
        });
        HoldStatus {
            run_id,
            user,
            purpose,
            mode: mode.into(),
            age_s: self.opened.elapsed().as_secs_f64(),
            left_s: self.left().as_secs_f64(),
            bytes_sent: self.budget.taken(),
            jobs: jobs.collect(),
            lease_left_s: self.lease_left().as_secs_f64(),
        }
    }

    /// The longest time that the hold may still last.
    fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    /// How long the hold lasts unless it is renewed, or attended.
    fn lease_left(&self) -> Duration {
        if self.is_attended() {
            return self.lease.min(self.left());
        }
        self.end_by().saturating_duration_since(Instant::now())
    }

    fn end_by(&self) -> Instant {
        if self.is_attended() {
            self.ends
        } else {
            self.ends.min(*self.expires.borrow())
        }
    }

    /// Ends the hold when its lease or its time ends, unless it is released before.
    async fn lapse(&self) {
        let end_by = async {
            while Instant::now() < self.end_by() {
                let planned = self.end_by().min(Instant::now() + LOOK);
                tokio::time::sleep_until(planned).await;
                if planned.elapsed() > STARVED && Instant::now() >= self.end_by() {
                    self.expires.send_replace(Instant::now() + CATCH_UP.min(self.lease));
                }
            }
        };
        tokio::select! {
            () = end_by => {
                warn!(run = self.run_id, "the hold's lease or time has ended");
                self.end();
            }
            () = self.over() => {}
        }
    }

    /// Returns when the hold is over.
    pub async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender lives as long as the hold.
        let _ = over.wait_for(|over| *over).await;
    }

    /// Runs work of the hold, and cancels it when the hold is over.
    ///
    /// # Errors
    /// [`WorkError::Over`], or the error of the work.
    pub async fn during<T>(&self, work: impl Future<Output = Result<T, WorkError>>) -> Result<T, WorkError> {
        tokio::select! {
            biased;
            () = self.over() => Err(WorkError::Over),
            result = work => result,
        }
    }

    /// Starts a schedule.
    ///
    /// # Errors
    /// [`JobError::Exists`] while another schedule runs.
    pub fn begin_measuring(self: &Arc<Self>) -> Result<Measuring, JobError> {
        let job = self.jobs.begin("schedule", "measure")?;
        job.run();
        Ok(Measuring {
            hold: Arc::clone(self),
            _job: job,
        })
    }

    /// Continues without `peer`: the run no longer waits for it.
    ///
    /// # Errors
    /// [`WorkError::UnknownPeer`] if it is not a peer of the run.
    pub fn drop_peer(&self, peer: &str, reason: &str) -> Result<(), WorkError> {
        self.peers.check(peer)?;
        info!(run = self.run_id, peer, reason, "continues without a peer");
        self.dropped.add(peer, reason);
        self.rounds.forget(peer);
        Ok(())
    }

    /// Continues with a dropped `peer` again, or with a peer that was not enrolled at the start.
    ///
    /// # Errors
    /// If its address is not a host's, or there are too many peers.
    pub fn readmit(&self, peer: Peer) -> Result<(), HoldError> {
        let name = peer.name.clone();
        self.peers.renew(peer).map_err(HoldError::Invalid)?;
        info!(run = self.run_id, peer = name, "continues with a peer again");
        self.dropped.remove(&name);
        self.rounds.expect_again(&name);
        Ok(())
    }

    /// Adds peers that the run does not have yet.
    ///
    /// # Errors
    /// If the address of one is not a host's, or there are too many peers. None are added then.
    pub fn introduce(&self, peers: Vec<Peer>) -> Result<(), HoldError> {
        self.peers.add(peers).map_err(HoldError::Invalid)
    }

    /// Ends the hold.
    pub fn end(&self) {
        self.over.send_replace(true);
    }
}

/// A controller's connection that keeps the lease of a hold from ending. Without it, the lease ends as if it had never
/// been.
#[derive(Debug)]
pub struct Attended(Arc<Hold>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.attended.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to run the hold's schedule. Dropping it gives the right back.
#[derive(Debug)]
pub struct Measuring {
    hold: Arc<Hold>,
    _job: Job,
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.hold.rounds.leave();
    }
}

/// Returns a controller's text in a form that is safe to show to others.
fn clean(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_control())
        .take(MAX_LABEL)
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const CAPS: Caps = Caps {
        max_bytes: 1000,
        max_time: Duration::from_secs(60),
    };

    fn peer(name: &str, address: &str) -> Peer {
        Peer {
            name: name.into(),
            address: address.into(),
            data_port: 7411,
            origins: Vec::new(),
        }
    }

    pub(crate) fn request(run_id: &str) -> EnrolRequest {
        EnrolRequest {
            run_id: run_id.into(),
            secret: vec![1; 32],
            self_: "a".into(),
            peers: vec![peer("a", "10.0.0.1"), peer("b", "10.0.0.2"), peer("c", "fd00::3")],
            ..EnrolRequest::default()
        }
    }

    fn refused(change: impl FnOnce(&mut EnrolRequest)) -> String {
        let mut request = request("run");
        change(&mut request);
        Hold::open(request, CAPS, All::default()).unwrap_err().to_string()
    }

    #[test]
    fn the_smaller_budget_is_granted() {
        let mut asked = request("run");
        asked.budget = Some(Budget {
            max_bytes: 5000,
            max_seconds: 2.5,
        });
        let granted = Hold::open(asked, CAPS, All::default()).unwrap().granted();
        assert_eq!(
            granted,
            Budget {
                max_bytes: 1000,
                max_seconds: 2.5
            }
        );
        let granted = Hold::open(request("run"), CAPS, All::default()).unwrap().granted();
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
        assert!(refused(|r| r.letter_key = vec![1; 31]).contains("letter_key"));
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

    #[test]
    fn one_schedule_at_a_time() {
        let hold = Arc::new(Hold::open(request("one"), CAPS, All::default()).unwrap());
        let right = hold.begin_measuring().unwrap();
        assert_eq!(hold.begin_measuring().unwrap_err(), JobError::Exists);
        drop(right);
        assert!(hold.begin_measuring().is_ok());
    }
}
