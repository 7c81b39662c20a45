//! The jobs that run on the agent, each with its run, its kind and its state.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use thiserror::Error;
use tokio::sync::watch;

/// Largest number of neighbours that a run learns of.
const MAX_NEIGHBOURS: usize = 64;
/// The job of all transfers that arrive for one run.
const INCOMING: &str = "incoming";

/// Why a job cannot be created or started.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum JobError {
    /// A job of that name has not ended.
    #[error("a job with that id is already running")]
    Exists,
    /// No job has that name.
    #[error("no job with that id is waiting")]
    Unknown,
    /// Some of its transfers are not connected yet.
    #[error("the job is not ready yet")]
    NotReady,
    /// The job has already started.
    #[error("the job was already started")]
    Started,
}

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It connects to its peers.
    Connecting,
    /// It waits for its start.
    Ready,
    /// It has moved bytes since this time.
    Running(Instant),
}

/// A run's description for other runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The run's name.
    pub run_id: String,
    /// The run's user.
    pub user: String,
    /// The run's purpose.
    pub purpose: String,
}

/// A job's description for other runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The job's name in its run.
    pub id: String,
    /// The kind of its work.
    pub kind: &'static str,
    /// The job's state.
    pub state: State,
}

/// The paces that a controller sets for a job's parts: id to bit/s, where 0 means no pace.
pub type Paces = HashMap<u32, u64>;

/// The jobs of all runs on the agent.
pub type All = Arc<Mutex<Vec<Entry>>>;

/// One run's access to the agent's jobs.
#[derive(Debug)]
pub struct Jobs {
    own: Arc<Owner>,
    all: All,
    arriving: Mutex<Weak<Job>>,
}

/// A run, and the other runs whose jobs ran at the same time as its own.
#[derive(Debug)]
struct Owner {
    label: Label,
    neighbours: Mutex<BTreeSet<(Label, &'static str)>>,
}

/// A job that has not ended.
#[derive(Debug)]
pub struct Entry {
    owner: Arc<Owner>,
    id: String,
    kind: &'static str,
    state: watch::Sender<State>,
    paces: watch::Sender<Paces>,
}

impl Jobs {
    /// Creates the access of a run that has no job yet.
    pub fn new(label: Label, all: All) -> Self {
        let neighbours = Mutex::default();
        Self {
            own: Arc::new(Owner { label, neighbours }),
            all,
            arriving: Mutex::default(),
        }
    }

    /// The description of the run.
    pub fn label(&self) -> &Label {
        &self.own.label
    }

    /// Creates a job. The job ends when the returned value is dropped.
    ///
    /// # Errors
    /// [`JobError::Exists`] if a job of that id has not ended.
    pub fn begin(&self, id: &str, kind: &'static str) -> Result<Job, JobError> {
        let mut all = lock(&self.all);
        if all.iter().any(|entry| entry.is(&self.own, id)) {
            return Err(JobError::Exists);
        }
        let (state, paces) = (watch::Sender::new(State::Connecting), watch::Sender::default());
        all.push(Entry {
            owner: Arc::clone(&self.own),
            id: id.to_owned(),
            kind,
            state: state.clone(),
            paces: paces.clone(),
        });
        Ok(Job {
            own: Arc::clone(&self.own),
            id: id.to_owned(),
            state,
            paces,
            all: Arc::clone(&self.all),
        })
    }

    /// Changes the paces of some parts of a job.
    ///
    /// # Errors
    /// If no job has that id.
    pub fn pace(&self, id: &str, paces: Paces) -> Result<(), JobError> {
        let all = lock(&self.all);
        let entry = all.iter().find(|entry| entry.is(&self.own, id));
        entry
            .ok_or(JobError::Unknown)?
            .paces
            .send_modify(|now| now.extend(paces));
        Ok(())
    }

    /// Starts a job that is ready.
    ///
    /// # Errors
    /// If no job has that id, or it is not ready or has already started.
    pub fn start(&self, id: &str) -> Result<(), JobError> {
        let all = lock(&self.all);
        let entry = all.iter().find(|entry| entry.is(&self.own, id));
        let entry = entry.ok_or(JobError::Unknown)?;
        let now = *entry.state.borrow();
        match now {
            State::Connecting => Err(JobError::NotReady),
            State::Running(_) => Err(JobError::Started),
            State::Ready => {
                entry.run(&all);
                Ok(())
            }
        }
    }

    /// Returns the one job of all transfers that arrive now; it ends with the last of them.
    pub fn arriving(&self) -> Option<Arc<Job>> {
        let mut arriving = lock(&self.arriving);
        if let Some(job) = arriving.upgrade() {
            return Some(job);
        }
        let job = Arc::new(self.begin(INCOMING, "transfer").ok()?);
        job.run();
        *arriving = Arc::downgrade(&job);
        Some(job)
    }

    /// The run's jobs that have not ended.
    pub fn list(&self) -> Vec<Sight> {
        let all = lock(&self.all);
        let own = all.iter().filter(|entry| Arc::ptr_eq(&entry.owner, &self.own));
        own.map(|entry| Sight {
            id: entry.id.clone(),
            kind: entry.kind,
            state: *entry.state.borrow(),
        })
        .collect()
    }

    /// The other runs that were busy at the same time as a job of this run, with the kinds of their jobs.
    pub fn neighbours(&self) -> Vec<(Label, &'static str)> {
        lock(&self.own.neighbours).iter().cloned().collect()
    }
}

impl Entry {
    fn is(&self, owner: &Arc<Owner>, id: &str) -> bool {
        Arc::ptr_eq(&self.owner, owner) && self.id == id
    }

    /// Marks the job as running, and makes it and the other running jobs record each other.
    fn run(&self, all: &[Self]) {
        self.state.send_replace(State::Running(Instant::now()));
        for other in all {
            let busy = matches!(*other.state.borrow(), State::Running(_));
            if busy && !Arc::ptr_eq(&self.owner, &other.owner) {
                self.owner.met(other);
                other.owner.met(self);
            }
        }
    }
}

impl Owner {
    fn met(&self, other: &Entry) {
        let mut neighbours = lock(&self.neighbours);
        if neighbours.len() < MAX_NEIGHBOURS {
            neighbours.insert((other.owner.label.clone(), other.kind));
        }
    }
}

/// A job, which ends when this is dropped.
#[derive(Debug)]
pub struct Job {
    own: Arc<Owner>,
    id: String,
    state: watch::Sender<State>,
    paces: watch::Sender<Paces>,
    all: All,
}

impl Job {
    /// All peers are connected: the job waits for its start.
    pub fn ready(&self) {
        self.state.send_replace(State::Ready);
    }

    /// Marks the job as running without a start.
    pub fn run(&self) {
        let all = lock(&self.all);
        if let Some(entry) = all.iter().find(|entry| entry.is(&self.own, &self.id)) {
            entry.run(&all);
        }
    }

    /// Follows the job's state from now on.
    pub fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Follows the paces of the job's parts from now on.
    pub fn paces(&self) -> watch::Receiver<Paces> {
        self.paces.subscribe()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        lock(&self.all).retain(|entry| !entry.is(&self.own, &self.id));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lock cannot be poisoned half-way through a change: no code panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(run_id: &str, all: &All) -> Jobs {
        let label = Label {
            run_id: run_id.into(),
            ..Label::default()
        };
        Jobs::new(label, Arc::clone(all))
    }

    fn names(jobs: &Jobs) -> Vec<String> {
        jobs.neighbours().into_iter().map(|(label, _)| label.run_id).collect()
    }

    #[test]
    fn a_job_goes_through_its_states_once() {
        let all = All::default();
        let (one, two) = (jobs("one", &all), jobs("two", &all));
        assert_eq!(one.start("r"), Err(JobError::Unknown));
        let job = one.begin("r", "transfer").unwrap();
        let _same_name_elsewhere = two.begin("r", "transfer").unwrap();
        assert_eq!(one.begin("r", "transfer").unwrap_err(), JobError::Exists);
        assert_eq!(one.start("r"), Err(JobError::NotReady));
        job.ready();
        assert_eq!(one.start("r"), Ok(()));
        assert_eq!(one.start("r"), Err(JobError::Started));
        assert!(matches!(*job.watch().borrow(), State::Running(_)));
        assert_eq!(one.list().len(), 1);
        drop(job);
        assert!(one.list().is_empty());
        assert_eq!(two.list().len(), 1);
    }

    #[test]
    fn runs_hear_of_each_other_only_when_both_were_busy() {
        let all = All::default();
        let (one, two, three) = (jobs("one", &all), jobs("two", &all), jobs("three", &all));
        let gone = two.begin("early", "transfer").unwrap();
        gone.run();
        drop(gone);
        let _waits = three.begin("waits", "transfer").unwrap();
        let measure = one.begin("measure", "measure").unwrap();
        measure.run();
        assert!(one.neighbours().is_empty());
        let late = two.begin("late", "transfer").unwrap();
        late.run();
        drop((late, measure));
        assert_eq!((names(&one), names(&two)), (vec!["two".into()], vec!["one".into()]));
        assert!(three.neighbours().is_empty());
    }

    #[test]
    fn all_that_arrives_is_one_job() {
        let all = All::default();
        let jobs = jobs("one", &all);
        let (first, second) = (jobs.arriving().unwrap(), jobs.arriving().unwrap());
        drop(first);
        assert_eq!(jobs.list().len(), 1);
        drop(second);
        assert!(jobs.list().is_empty());
        assert!(jobs.arriving().is_some());
    }
}
