//! The guarantees of an agent: a hold that stands, and a thread that keeps them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::contract::agents::{GuardReply, GuardRequest, GuardedReply};
use crate::guarantee::keeping::Keeper;
use crate::guarantee::orphan::Orphan;
use crate::guarantee::plan::Plan;
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
    Change(Box<Plan>, oneshot::Sender<Result<GuardReply, String>>),
    Tell(oneshot::Sender<GuardedReply>),
    /// To end by itself, and say so when nothing is left.
    End(oneshot::Sender<()>),
}

/// One standing set.
#[derive(Debug)]
struct Standing {
    orders: Sender<Order>,
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
    /// When the request makes no sense or cannot be carried out; what was kept before is then kept on, unless it was changed
    /// from one mode to the other.
    pub async fn guard(&self, holds: &Holds, request: GuardRequest) -> Result<GuardReply, GuardError> {
        let plan = Plan::new(&request).map_err(GuardError::Invalid)?;
        if let Some(orders) = self.orders() {
            match ask(&orders, |reply| Order::Change(Box::new(plan.clone()), reply)).await {
                Some(Ok(reply)) => return Ok(reply),
                // It begins afresh.
                Some(Err(_)) | None => {
                    self.end().await;
                }
            }
        }
        let hold = holds.stand(&request.run_id, &request.self_, &request.user, &request.key)?;
        let (orders, todo) = channel();
        let (told, began) = oneshot::channel();
        let started = thread::Builder::new()
            .name("guarantee".into())
            .spawn(move || keep(plan, &todo, told));
        let began = match started {
            Ok(_) => began
                .await
                .unwrap_or_else(|_| Err("the thread that keeps guarantees ended".into())),
            Err(error) => Err(error.to_string()),
        };
        match began {
            Ok(reply) => {
                *self.lock() = Some(Standing {
                    orders,
                    hold: Arc::clone(&hold),
                });
                let own = self.clone();
                tokio::spawn(async move {
                    let job = hold.jobs.begin("guarantee", KIND).ok();
                    if let Some(job) = &job {
                        job.run();
                    }
                    hold.over().await;
                    own.end_of(&hold).await;
                });
                Ok(reply)
            }
            Err(error) => {
                // The hold has nothing to hold.
                drop(holds.release(&request.run_id));
                Err(GuardError::Refused(error))
            }
        }
    }

    /// How they are kept; `None` when there are none.
    pub async fn status(&self) -> Option<GuardedReply> {
        let orders = self.orders()?;
        let reply = ask(&orders, Order::Tell).await?;
        let label = self
            .lock()
            .as_ref()
            .map(|standing| standing.hold.jobs.label().clone())?;
        Some(GuardedReply {
            run_id: label.run_id,
            user: label.user,
            ..reply
        })
    }

    /// Ends them; tells whether there were any.
    pub async fn end(&self) -> bool {
        let Some(standing) = self.lock().take() else {
            return false;
        };
        ask(&standing.orders, Order::End).await;
        standing.hold.end();
        true
    }

    /// Ends those of a hold that is over.
    async fn end_of(&self, hold: &Arc<Hold>) {
        let standing = {
            let mut now = self.lock();
            now.take_if(|standing| Arc::ptr_eq(&standing.hold, hold))
        };
        if let Some(standing) = standing {
            ask(&standing.orders, Order::End).await;
        }
    }

    fn orders(&self) -> Option<Sender<Order>> {
        self.lock().as_ref().map(|standing| standing.orders.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Standing>> {
        // Nothing can panic while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of the job that a standing hold shows.
const KIND: &str = "guarantee";

/// Gives an order and waits for its answer; `None` when the thread has ended or takes too long.
async fn ask<T>(orders: &Sender<Order>, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    orders.send(order(reply)).ok()?;
    tokio::time::timeout(LIMIT, answer).await.ok()?.ok()
}

/// The thread: in the network namespace of the agent, with the keeper on its stack.
fn keep(plan: Plan, todo: &Receiver<Order>, told: oneshot::Sender<Result<GuardReply, String>>) {
    let orphan = Orphan::leave();
    let mut keeper = match Keeper::new(plan) {
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
    let mut ended = None;
    let mut next = Instant::now();
    let mut troubled = false;
    while ended.is_none() {
        match keeper.step() {
            Ok(()) => troubled = false,
            Err(error) if !troubled => {
                warn!(%error, "cannot keep guarantees at the moment");
                troubled = true;
            }
            Err(_) => {}
        }
        // A late step is not made up for.
        next = (next + keeper.period()).max(Instant::now());
        loop {
            match todo.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Order::Change(plan, reply_to)) => {
                    let changed = keeper.change(*plan);
                    let _ = reply_to.send(changed.map(|()| reply(&keeper)).map_err(|error| error.to_string()));
                }
                Ok(Order::Tell(reply_to)) => {
                    let _ = reply_to.send(keeper.status());
                }
                Ok(Order::End(reply_to)) => {
                    ended = Some(reply_to);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
    drop(keeper);
    drop(orphan);
    info!("keeps guarantees no more");
    if let Some(reply_to) = ended {
        let _ = reply_to.send(());
    }
}

fn reply(keeper: &Keeper) -> GuardReply {
    let (device, without_bpf) = keeper.device();
    GuardReply { device, without_bpf }
}
