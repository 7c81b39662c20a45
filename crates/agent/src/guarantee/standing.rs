//! The guarantees of an agent: a standing hold, and one thread for the host and for each container.

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
use crate::guarantee::stored::StateFile;
use crate::hold::registry::Holds;
use crate::hold::{Hold, HoldError};

/// How long the thread may take to answer an order.
const LIMIT: Duration = Duration::from_secs(8);

/// How long to wait before guarantees are resumed again, and then between looks at whether they stand.
const RESUME_INTERVAL: Duration = Duration::from_secs(2);

/// Why an agent refuses to keep guarantees.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The guarantees' hold cannot be opened.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// The kernel or another program prevents it.
    #[error("{0}")]
    Refused(String),
}

/// An order to a thread.
enum Order {
    Change(Box<Duty>, oneshot::Sender<Result<GuardReply, String>>),
    /// Report the state, and whether it is that of a container.
    Tell(oneshot::Sender<(bool, GuardedReply)>),
    /// End, and report when everything is removed, or has become static if it is to remain.
    End(Ending, oneshot::Sender<()>),
}

/// What an ending thread leaves in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nothing: the guarantees are over.
    Cleared,
    /// Static limits, if the guarantees say so: the agent stops and may resume them.
    Stopped,
}

/// A thread that keeps the guarantees of the host or of a container.
#[derive(Clone, Debug)]
struct Thread {
    orders: Sender<Order>,
    /// Wakes the thread: one byte per order.
    bell: Arc<PipeWriter>,
}

/// The present set of guarantees: its threads by the names of the host and containers.
#[derive(Debug)]
struct Standing {
    threads: BTreeMap<String, Thread>,
    hold: Arc<Hold>,
}

/// The guarantees of one agent.
#[derive(Clone, Debug, Default)]
pub struct Guarantees {
    standing: Arc<Mutex<Option<Standing>>>,
    /// Where they are stored for the time after a restart.
    file: Option<StateFile>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order(..)")
    }
}

impl Guarantees {
    /// Creates guarantees that are stored in a file; `None` = they end with the agent.
    pub fn stored_in(file: Option<StateFile>) -> Self {
        Self {
            standing: Arc::default(),
            file,
        }
    }

    /// Whether there are guarantees to resume.
    pub fn is_stored(&self) -> bool {
        let read = self.file.as_ref().map(StateFile::read);
        matches!(read, Some(Ok(Some(_)) | Err(_)))
    }

    /// Resumes the guarantees that the agent had before it was restarted. The host's interface or its containers may
    /// appear later than the agent, so it tries again until a controller changes or ends the guarantees.
    pub async fn resume(&self, holds: &Holds) {
        let mut before = String::new();
        loop {
            if self.lock().is_some() {
                return;
            }
            let read = self.file.as_ref().map_or(Ok(None), StateFile::read);
            let resumed = match read {
                Ok(None) => return,
                Ok(Some(request)) => self.guard(holds, request).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match resumed {
                Ok(_) => info!("resumed the guarantees"),
                Err(error) if error != before => {
                    warn!(error, "cannot resume the guarantees yet");
                    before = error;
                }
                Err(_) => {}
            }
            tokio::time::sleep(RESUME_INTERVAL).await;
        }
    }

    /// Replaces the present guarantees by the requested ones.
    ///
    /// # Errors
    /// If the request is invalid or cannot be carried out. The previous guarantees then stay where possible.
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
                thread.end(Ending::Cleared).await;
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
            // No guarantee is left, so the hold is not needed.
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
        let mut reply = first.map(Option::unwrap_or_default).map_err(GuardError::Refused)?;
        reply.unkept = self.keep(&request).err().unwrap_or_default();
        Ok(reply)
    }

    /// Writes the guarantees to their file.
    ///
    /// # Errors
    /// Why they will not be resumed.
    fn keep(&self, request: &GuardRequest) -> Result<(), String> {
        let file = self.file.as_ref().ok_or("it has no folder for its state")?;
        file.write(request).map_err(|error| error.to_string())
    }

    /// Marks the hold as busy, and ends the guarantees when the hold ends.
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

    /// The state of the guarantees; `None` if there are none.
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

    /// Ends the guarantees. Returns whether there were any.
    pub async fn end(&self) -> bool {
        if let Some(Err(error)) = self.file.as_ref().map(StateFile::remove) {
            warn!(%error, "cannot remove the file from which guarantees are resumed");
        }
        let Some(standing) = self.lock().take() else {
            return false;
        };
        standing.end(Ending::Cleared).await;
        true
    }

    /// Stops keeping guarantees because the agent stops. It resumes them when it starts again.
    pub async fn stop(&self) {
        let standing = self.lock().take();
        if let Some(standing) = standing {
            standing.end(Ending::Stopped).await;
        }
    }

    /// Ends the guarantees of a hold that is over.
    async fn end_of(&self, hold: &Arc<Hold>) {
        let standing = {
            let mut now = self.lock();
            now.take_if(|standing| Arc::ptr_eq(&standing.hold, hold))
        };
        if let Some(standing) = standing {
            standing.end(Ending::Cleared).await;
        }
    }

    fn threads(&self) -> BTreeMap<String, Thread> {
        let standing = self.lock();
        standing.as_ref().map(|own| own.threads.clone()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Standing>> {
        // The lock cannot be poisoned: no code panics while it is held.
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    async fn end(self, ending: Ending) {
        for thread in self.threads.values() {
            thread.end(ending).await;
        }
        self.hold.end();
    }
}

impl Thread {
    /// Ends it, and waits until it has ended.
    async fn end(&self, ending: Ending) {
        self.ask(|reply| Order::End(ending, reply)).await;
    }

    /// Sends an order and waits for the answer; `None` if the thread has ended or takes too long.
    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).ok()?;
        self.bell.as_ref().write_all(&[0]).ok()?;
        tokio::time::timeout(LIMIT, answer).await.ok()?.ok()
    }
}

/// Makes a thread keep a duty: the previous thread of that name if it can, otherwise a new one.
async fn keep_on(before: Option<Thread>, duty: Duty) -> Result<(Thread, GuardReply), String> {
    if let Some(thread) = before {
        match thread.ask(|reply| Order::Change(Box::new(duty.clone()), reply)).await {
            Some(Ok(reply)) => return Ok((thread, reply)),
            // Start with a new thread.
            Some(Err(_)) | None => thread.end(Ending::Cleared).await,
        }
    }
    let (orders, todo) = channel();
    let (heard, bell) = io::pipe().map_err(|error| error.to_string())?;
    let (first_reply, began) = oneshot::channel();
    thread::Builder::new()
        .name("guarantee".into())
        .spawn(move || keep(duty, &todo, &heard, first_reply))
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

/// The kind of job that a standing hold shows.
const KIND: &str = "guarantee";

/// The thread: it runs in the network namespace of the agent or of a container.
fn keep(
    duty: Duty,
    todo: &Receiver<Order>,
    bell: &PipeReader,
    first_reply: oneshot::Sender<Result<GuardReply, String>>,
) {
    if let Some(Err(error)) = duty.inside.as_ref().map(inside::enter) {
        let _ = first_reply.send(Err(error));
        return;
    }
    let inside = duty.inside.is_some();
    let remains = duty.remains;
    let orphan = Orphan::leave(remains);
    let mut keeper = match Keeper::new(duty) {
        Ok(keeper) => keeper,
        Err(error) => {
            let _ = first_reply.send(Err(error.to_string()));
            return;
        }
    };
    if first_reply.send(Ok(reply(&keeper))).is_err() {
        return;
    }
    info!("keeps guarantees");
    let ended = loop {
        let begun = Instant::now();
        match keeper.step() {
            Ok(()) => keeper.watch.trouble.clear(),
            Err(error) => {
                let error = error.to_string();
                if error != keeper.watch.trouble {
                    warn!(error, "cannot keep guarantees at the moment");
                }
                keeper.watch.fail(error);
            }
        }
        // Do not run at every datagram: handle those of one period together.
        if !keeper.wait(bell, begun + keeper.period(), false) {
            keeper.wait(bell, begun + keeper.rest(), true);
        }
        match orders(&mut keeper, todo, inside) {
            Ok(()) => {}
            Err(ended) => break ended,
        }
    };
    let stays = remains && matches!(ended, Some((Ending::Stopped, _)));
    if stays {
        keeper.leave();
    }
    drop(keeper);
    if stays {
        // After the keeper's claim is free.
        if let Err(error) = gavotte_shaper::freeze() {
            warn!(%error, "cannot keep the guarantees as static limits");
        }
    }
    drop(orphan);
    info!("no longer keeps guarantees");
    if let Some((_, reply_to)) = ended {
        let _ = reply_to.send(());
    }
}

/// Carries out all waiting orders.
///
/// # Errors
/// If the thread must end: what it leaves and the channel for the confirmation, if a caller still waits.
fn orders(
    keeper: &mut Keeper,
    todo: &Receiver<Order>,
    inside: bool,
) -> Result<(), Option<(Ending, oneshot::Sender<()>)>> {
    loop {
        match todo.try_recv() {
            Ok(Order::Change(duty, reply_to)) => {
                let changed = keeper.change(*duty);
                let _ = reply_to.send(changed.map(|()| reply(keeper)).map_err(|error| error.to_string()));
            }
            Ok(Order::Tell(reply_to)) => {
                let _ = reply_to.send((inside, keeper.status()));
            }
            Ok(Order::End(ending, reply_to)) => return Err(Some((ending, reply_to))),
            Err(TryRecvError::Empty) => return Ok(()),
            Err(TryRecvError::Disconnected) => return Err(None),
        }
    }
}

fn reply(keeper: &Keeper) -> GuardReply {
    let (device, without_bpf) = keeper.device();
    GuardReply {
        device,
        without_bpf,
        repaired: keeper.watch.last.clone(),
        ..GuardReply::default()
    }
}
