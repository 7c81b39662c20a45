//! The runs that hold the agent: at most one exclusive run, and any number of shared ones.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::info;

use crate::contract::agents::{EnrolRequest, Mode};
use crate::hold::jobs::All;
use crate::hold::{Caps, Hold, HoldError};

/// How long a standing hold lasts unless it is ended.
const STANDING: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Largest number of holds at the same time.
pub const MAX_HOLDS: usize = 64;

/// The holds of one agent, by run.
#[derive(Debug)]
pub struct Holds {
    caps: Caps,
    jobs: All,
    all: Mutex<BTreeMap<String, Arc<Hold>>>,
}

impl Holds {
    /// Creates the registry of an agent without holds.
    pub fn new(caps: Caps) -> Self {
        Self {
            caps,
            jobs: All::default(),
            all: Mutex::default(),
        }
    }

    /// Opens a hold and makes sure that it ends in time. If the run already holds the agent, the old hold and its jobs
    /// end. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If both this hold and another one are exclusive and it may not take over, if there are too many holds, or if the
    /// request is invalid.
    pub fn enrol(&self, request: EnrolRequest) -> Result<Arc<Hold>, HoldError> {
        self.open(request, self.caps)
    }

    fn open(&self, request: EnrolRequest, caps: Caps) -> Result<Arc<Hold>, HoldError> {
        let take_over = request.take_over;
        let hold = Arc::new(Hold::open(request, caps, Arc::clone(&self.jobs))?);
        let mut all = self.current();
        let mut others = all.values().filter(|other| other.run_id != hold.run_id);
        if let Some(holder) = others.find(|other| hold.is_exclusive() && other.is_exclusive()) {
            let user = &holder.jobs.label().user;
            if !(take_over && !user.is_empty() && *user == hold.jobs.label().user) {
                return Err(HoldError::Held {
                    label: holder.jobs.label().clone(),
                    left_s: holder.left().as_secs_f64(),
                    lease_left_s: holder.lease_left().as_secs_f64(),
                    lease_s: holder.lease.as_secs_f64(),
                });
            }
            info!(run = holder.run_id, by = hold.run_id, "taken over by its user");
            holder.end();
        }
        if all.len() >= MAX_HOLDS && !all.contains_key(&hold.run_id) {
            return Err(HoldError::Full(MAX_HOLDS));
        }
        info!(
            run = hold.run_id,
            exclusive = hold.is_exclusive(),
            purpose = hold.jobs.label().purpose,
            user = hold.jobs.label().user,
            granted = ?hold.granted(),
            "enrolled"
        );
        if let Some(before) = all.insert(hold.run_id.clone(), Arc::clone(&hold)) {
            before.end();
        }
        let lapsing = Arc::clone(&hold);
        tokio::spawn(async move { lapsing.lapse().await });
        Ok(hold)
    }

    /// Opens a shared hold that needs no controller: it has no lease, sends no bytes and has no peers. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    /// The same as for [`Self::enrol`].
    pub fn stand(&self, run_id: &str, own: &str, user: &str, secret: &[u8]) -> Result<Arc<Hold>, HoldError> {
        let request = EnrolRequest {
            run_id: run_id.into(),
            self_: own.into(),
            user: user.into(),
            secret: secret.into(),
            mode: Mode::Shared.into(),
            purpose: "guarantee".into(),
            ..EnrolRequest::default()
        };
        let caps = Caps {
            max_bytes: 0,
            max_time: STANDING,
        };
        self.open(request, caps)
    }

    /// All holds.
    pub fn list(&self) -> Vec<Arc<Hold>> {
        self.current().values().cloned().collect()
    }

    /// The hold of `run_id`.
    ///
    /// # Errors
    /// If that run does not hold the agent.
    pub fn of(&self, run_id: &str) -> Result<Arc<Hold>, HoldError> {
        let hold = self.current().get(run_id).cloned();
        hold.ok_or_else(|| HoldError::NotEnrolled(run_id.to_owned()))
    }

    /// Ends the hold of `run_id`.
    ///
    /// # Errors
    /// If that run does not hold the agent.
    pub fn release(&self, run_id: &str) -> Result<Arc<Hold>, HoldError> {
        let hold = self.of(run_id)?;
        info!(run = run_id, bytes_sent = hold.budget.taken(), "released");
        hold.end();
        Ok(hold)
    }

    /// Whether any run lets a host at `remote` connect to the listener at `local`.
    pub fn admit(&self, remote: IpAddr, local: IpAddr) -> bool {
        self.current().values().any(|hold| hold.peers.admit(remote, local))
    }

    /// Ends all holds.
    pub fn end(&self) {
        for hold in std::mem::take(&mut *self.current()).into_values() {
            hold.end();
        }
    }

    /// The holds that are not over.
    fn current(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Hold>>> {
        // The lock cannot be poisoned half-way through a change: no code panics while it is held.
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, hold| !hold.is_over());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::agents::Budget;
    use crate::error::WorkError;
    use crate::hold::tests::{CAPS, request};

    fn shared(run_id: &str) -> EnrolRequest {
        EnrolRequest {
            mode: Mode::Shared.into(),
            ..request(run_id)
        }
    }

    async fn outlived(hold: &Hold) -> bool {
        let work = hold.during(std::future::pending::<Result<(), WorkError>>());
        matches!(work.await, Err(WorkError::Over))
    }

    #[tokio::test]
    async fn one_exclusive_run_at_a_time() {
        let holds = Holds::new(CAPS);
        let described = EnrolRequest {
            purpose: "measure\u{1b}[2J".into(),
            user: "ann".into(),
            ..request("one")
        };
        let first = holds.enrol(described).unwrap();
        assert_eq!(
            holds.enrol(request("two")).unwrap_err().to_string(),
            "held by run `one` (measure[2J, by ann) for 60 s at most, and 60 s if its controller is gone"
        );
        let again = holds.enrol(request("one")).unwrap();
        assert!(first.is_over() && !again.is_over());
        holds.release("one").unwrap();
        assert!(holds.list().is_empty());
        holds.enrol(request("two")).unwrap();
        assert!(holds.of("one").is_err());
    }

    #[tokio::test]
    async fn a_user_may_take_over_from_himself() {
        let holds = Holds::new(CAPS);
        let by = |run_id: &str, user: &str, take_over| EnrolRequest {
            user: user.into(),
            take_over,
            ..request(run_id)
        };
        let first = holds.enrol(by("one", "ann", false)).unwrap();
        for (user, take_over) in [("ann", false), ("bob", true), ("", true)] {
            let refused = holds.enrol(by("two", user, take_over));
            assert!(matches!(refused, Err(HoldError::Held { .. })), "{user}");
        }
        holds.enrol(by("two", "ann", true)).unwrap();
        assert!(first.is_over() && holds.of("one").is_err());
        let nameless = Holds::new(CAPS);
        nameless.enrol(by("one", "", false)).unwrap();
        assert!(nameless.enrol(by("two", "", true)).is_err());
    }

    #[tokio::test]
    async fn shared_runs_stand_beside_each_other_and_an_exclusive_one() {
        let holds = Holds::new(CAPS);
        let one = holds.enrol(shared("one")).unwrap();
        holds.enrol(request("two")).unwrap();
        holds.enrol(shared("three")).unwrap();
        assert_eq!(holds.list().len(), 3);
        let _held = one.budget.reserve(1000).unwrap();
        assert_eq!(holds.of("three").unwrap().budget.taken(), 0);
        holds.release("two").unwrap();
        assert!(!one.is_over());
        assert_eq!(holds.list().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_standing_hold_outlives_every_lease_beside_others() {
        let holds = Holds::new(CAPS);
        let standing = holds.stand("guarantee", "a", "ann", &[1; 32]).unwrap();
        holds.enrol(request("one")).unwrap();
        tokio::time::sleep(100 * CAPS.max_time).await;
        assert!(!standing.is_over() && holds.list().len() == 1);
        assert!(!standing.is_exclusive() && standing.budget.reserve(1).is_err());
        holds.release("guarantee").unwrap();
        assert!(standing.is_over());
    }

    #[tokio::test]
    async fn there_is_a_bound_to_holds() {
        let holds = Holds::new(CAPS);
        for run in 0..MAX_HOLDS {
            holds.enrol(shared(&run.to_string())).unwrap();
        }
        assert_eq!(holds.enrol(shared("more")).unwrap_err(), HoldError::Full(MAX_HOLDS));
        holds.enrol(shared("0")).unwrap();
        holds.end();
        assert!(holds.list().is_empty());
    }

    #[tokio::test]
    async fn a_hold_ends_with_its_time() {
        let holds = Holds::new(CAPS);
        let budget = Some(Budget {
            max_bytes: 0,
            max_seconds: 0.01,
        });
        let hold = holds
            .enrol(EnrolRequest {
                budget,
                ..request("one")
            })
            .unwrap();
        assert!(outlived(&hold).await);
        assert!(holds.list().is_empty());
        holds.enrol(request("two")).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_waited_for_this_agents_processor_is_in_time() {
        let holds = Holds::new(CAPS);
        let leased = EnrolRequest {
            lease_s: 10.0,
            ..shared("one")
        };
        let hold = holds.enrol(leased).unwrap();
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(30)).await;
        tokio::task::yield_now().await;
        holds.of("one").unwrap().renew();
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(!hold.is_over());
        assert!(outlived(&hold).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_is_attended_needs_no_renewal() {
        let holds = Holds::new(CAPS);
        let leased = EnrolRequest {
            lease_s: 10.0,
            ..shared("one")
        };
        let hold = holds.enrol(leased).unwrap();
        let (one, other) = (hold.attend(), hold.attend());
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(one);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(!hold.is_over());
        drop(other);
        // Nothing renewed the lease meanwhile, and a hold's time has an end that no controller changes.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(hold.is_over());
        let last = holds.enrol(shared("two")).unwrap();
        let _attended = last.attend();
        tokio::time::sleep(CAPS.max_time).await;
        assert!(last.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_ends_when_its_lease_is_not_renewed() {
        let holds = Holds::new(CAPS);
        let leased = |run_id: &str| EnrolRequest {
            lease_s: 10.0,
            ..shared(run_id)
        };
        let (kept, left) = (
            holds.enrol(leased("kept")).unwrap(),
            holds.enrol(leased("left")).unwrap(),
        );
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(4)).await;
            kept.renew();
        }
        assert!(outlived(&left).await);
        assert!(!kept.is_over());
        assert!(outlived(&kept).await);
    }
}
