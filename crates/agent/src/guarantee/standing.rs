//! The guarantees of an agent: a hold that stands, and a thread that keeps them.

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::contract::agents::{GuardReply, GuardRequest, GuardedReply};
use crate::guarantee::duty::Duty;
use crate::guarantee::inside;
use crate::guarantee::keeping::Keeper;
use crate::guarantee::orphan::Orphan;
use crate::hold::registry::Holds;
use crate::hold::{Hold, HoldError};

/// How long the thread may take over a request.
const LIMIT: Duration = Duration::from_secs(8);

/// Why an agent does not guard.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Its hold cannot be opened.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The kernel, or somebody else, does not let it.
    #[error("{0}")]
    Refused(String),
}

/// What the thread is asked.
enum Order {
    Change(Box<Duty>, oneshot::Sender<Result<GuardReply, String>>),
    /// How it stands, and whether that is of a container.
    Tell(oneshot::Sender<(bool, GuardedReply)>),
    /// To end by itself, and say so when nothing is left.
    End(oneshot::Sender<()>),
}

/// A thread that keeps the guarantees of the host or of a container.
#[derive(Clone, Debug)]
struct Thread {
    orders: Sender<Order>,
    /// Wakes it: a byte for each order.
    bell: Arc<PipeWriter>,
}

/// One standing set: its threads by the names of what they keep.
#[derive(Debug)]
struct Standing {
    threads: BTreeMap<String, Thread>,
    hold: Arc<Hold>,
}

/// The guarantees of one agent.
#[derive(Clone, Debug, Default)]
pub struct Guarantees(Arc<Mutex<Option<Standing>>>);

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order(..)")
    }
}

impl Guarantees {
    /// Keeps what is asked for from now on, in place of what is kept.
    ///
    /// # Errors
    /// When the request makes no sense or cannot be carried out; what was kept before is then kept on where it can be.
    pub async fn guard(&self, holds: &Holds, request: GuardRequest) -> Result<GuardReply, GuardError> {
        let duties = Duty::all(&request).map_err(GuardError::Invalid)?;
        let mut threads = self.threads();
        let fresh = threads.is_empty();
        let gone: Vec<String> = threads
            .keys()
            .filter(|name| duties.iter().all(|duty| duty.own.name != **name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(thread) = threads.remove(&name) {
                thread.ask(Order::End).await;
            }
        }
        let hold = match self.lock().as_ref() {
            Some(standing) => Arc::clone(&standing.hold),
            None => holds.stand(&request.run_id, &duties[0].own.name, &request.user, &request.key)?,
        };
        let mut first = Ok(None);
        for duty in duties {
            let name = duty.own.name.clone();
            match keep_on(threads.remove(&name), duty).await {
                Ok((thread, reply)) => {
                    threads.insert(name, thread);
                    first = first.map(|before| before.or(Some(reply)));
                }
                Err(error) => first = first.and(Err(error)),
            }
        }
        if threads.is_empty() {
            // The hold has nothing to hold.
            self.lock().take();
            hold.end();
            drop(holds.release(&hold.run_id));
        } else {
            *self.lock() = Some(Standing {
                threads,
                hold: Arc::clone(&hold),
            });
            if fresh {
                self.stand(hold);
            }
        }
        first.map(Option::unwrap_or_default).map_err(GuardError::Refused)
    }

    /// Shows the hold as busy, and ends what is kept with it.
    fn stand(&self, hold: Arc<Hold>) {
        let own = self.clone();
        tokio::spawn(async move {
            let job = hold.jobs.begin("guarantee", KIND).ok();
            if let Some(job) = &job {
                job.run();
            }
            hold.over().await;
            own.end_of(&hold).await;
        });
    }

    /// How they are kept; `None` when there are none.
    pub async fn status(&self) -> Option<GuardedReply> {
        let label = self
            .lock()
            .as_ref()
            .map(|standing| standing.hold.jobs.label().clone())?;
        let mut own = None;
        let mut inside = Vec::new();
        for thread in self.threads().values() {
            match thread.ask(Order::Tell).await {
                Some((true, reply)) => inside.push(reply),
                Some((false, reply)) => own = Some(reply),
                None => {}
            }
        }
        Some(GuardedReply {
            guarded: true,
            run_id: label.run_id,
            user: label.user,
            inside,
            ..own.unwrap_or_default()
        })
    }

    /// Ends them; tells whether there were any.
    pub async fn end(&self) -> bool {
        let Some(standing) = self.lock().take() else {
            return false;
        };
        standing.end().await;
        true
    }

    /// Ends those of a hold that is over.
    async fn end_of(&self, hold: &Arc<Hold>) {
        let standing = {
            let mut now = self.lock();
            now.take_if(|standing| Arc::ptr_eq(&standing.hold, hold))
        };
        if let Some(standing) = standing {
            standing.end().await;
        }
    }

    fn threads(&self) -> BTreeMap<String, Thread> {
        let standing = self.lock();
        standing.as_ref().map(|own| own.threads.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Standing>> {
        // Nothing can panic while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    async fn end(self) {
        for thread in self.threads.values() {
            thread.ask(Order::End).await;
        }
        self.hold.end();
    }
}

impl Thread {
    /// Gives an order and waits for its answer; `None` when the thread has ended or takes too long.
    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).ok()?;
        self.bell.as_ref().write_all(&[0]).ok()?;
        tokio::time::timeout(LIMIT, answer).await.ok()?.ok()
    }
}

/// Has a thread keep a duty: the one that kept another before, or a new one where that cannot.
async fn keep_on(before: Option<Thread>, duty: Duty) -> Result<(Thread, GuardReply), String> {
    if let Some(thread) = before {
        match thread.ask(|reply| Order::Change(Box::new(duty.clone()), reply)).await {
            Some(Ok(reply)) => return Ok((thread, reply)),
            // It begins afresh.
            Some(Err(_)) | None => {
                thread.ask(Order::End).await;
            }
        }
    }
    let (orders, todo) = channel();
    let (heard, bell) = io::pipe().map_err(|error| error.to_string())?;
    let (told, began) = oneshot::channel();
    thread::Builder::new()
        .name("guarantee".into())
        .spawn(move || keep(duty, &todo, &heard, told))
        .map_err(|error| error.to_string())?;
    let began = began
        .await
        .unwrap_or_else(|_| Err("the thread that keeps guarantees ended".into()));
    let thread = Thread {
        orders,
        bell: Arc::new(bell),
    };
    began.map(|reply| (thread, reply))
}

/// The kind of the job that a standing hold shows.
const KIND: &str = "guarantee";

/// The thread: in the network namespace of the agent or of a container, with the keeper on its stack.
fn keep(duty: Duty, todo: &Receiver<Order>, bell: &PipeReader, told: oneshot::Sender<Result<GuardReply, String>>) {
    if let Some(Err(error)) = duty.inside.as_ref().map(inside::enter) {
        let _ = told.send(Err(error));
        return;
    }
    let inside = duty.inside.is_some();
    // Nobody would find static limits in a container's network again.
    let orphan = Orphan::leave(duty.remains && !inside);
    let mut keeper = match Keeper::new(duty) {
        Ok(keeper) => keeper,
        Err(error) => {
            let _ = told.send(Err(error.to_string()));
            return;
        }
    };
    if told.send(Ok(reply(&keeper))).is_err() {
        return;
    }
    info!("keeps guarantees");
    let mut troubled = false;
    let ended = loop {
        let begun = Instant::now();
        match keeper.step() {
            Ok(()) => troubled = false,
            Err(error) if !troubled => {
                warn!(%error, "cannot keep guarantees at the moment");
                troubled = true;
            }
            Err(_) => {}
        }
        // Not at every word: several that come within a period are taken together.
        if !keeper.wait(bell, begun + keeper.period(), false) {
            keeper.wait(bell, begun + keeper.rest(), true);
        }
        match orders(&mut keeper, todo, inside) {
            Ok(()) => {}
            Err(ended) => break ended,
        }
    };
    drop(keeper);
    drop(orphan);
    info!("keeps guarantees no more");
    if let Some(reply_to) = ended {
        let _ = reply_to.send(());
    }
}

/// Carries out what is asked.
///
/// # Errors
/// When it is to end: whom to tell, unless nobody waits any more.
fn orders(keeper: &mut Keeper, todo: &Receiver<Order>, inside: bool) -> Result<(), Option<oneshot::Sender<()>>> {
    loop {
        match todo.try_recv() {
            Ok(Order::Change(duty, reply_to)) => {
                let changed = keeper.change(*duty);
                let _ = reply_to.send(changed.map(|()| reply(keeper)).map_err(|error| error.to_string()));
            }
            Ok(Order::Tell(reply_to)) => {
                let _ = reply_to.send((inside, keeper.status()));
            }
            Ok(Order::End(reply_to)) => return Err(Some(reply_to)),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => return Err(None),
        }
    }
}

fn reply(keeper: &Keeper) -> GuardReply {
    let (device, without_bpf) = keeper.device();
    GuardReply { device, without_bpf }
}
