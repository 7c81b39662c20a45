//! Opens the calls that other agents forward to this one, each once, and keeps their last answers for a while.
//!
//! If the agent that forwards a call disappears, the call continues. The controller then asks for its further answers
//! through another agent.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gavotte_letters::{Forged, Keys, Taken};
use tokio::sync::{Notify, watch};

use crate::error::WorkError;

/// How long a call continues without a listener, and how long its last answers are kept.
const KEEP: Duration = Duration::from_secs(10);
/// Largest number of answers that are kept although they were sent, and of answers that wait to be sent.
const MOST_ANSWERS: usize = 1024;
/// Largest size of the answers that are kept, in bytes.
const MOST_BYTES: usize = 16 << 20;

/// The keys of this agent in one run, and the calls that it has taken.
#[derive(Debug)]
pub struct Letterbox {
    keys: Keys,
    taken: Mutex<Taken>,
    calls: Mutex<HashMap<u64, Arc<Ongoing>>>,
}

impl Letterbox {
    /// Derives the keys; `None` unless `key` has exactly 32 bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        Some(Self {
            keys: Keys::new(key)?,
            taken: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    /// Returns the number and the content of a call.
    ///
    /// # Errors
    /// If it was not sealed for this agent, or was taken before.
    pub fn open(&self, sealed: &[u8]) -> Result<(u64, Vec<u8>), WorkError> {
        let refused = |text: &str| WorkError::Request(format!("the letter is refused: {text}"));
        let opened = self.keys.open_call(sealed);
        let (number, content) = opened.map_err(|forged: Forged| refused(&forged.to_string()))?;
        let is_new = lock(&self.taken).take(number);
        is_new
            .then_some((number, content))
            .ok_or_else(|| refused("it came before"))
    }

    /// Begins to answer a call.
    pub fn begin(&self, number: u64) -> Arc<Ongoing> {
        let ongoing = Arc::new(Ongoing {
            number,
            kept: watch::Sender::default(),
            listeners: watch::Sender::new(0),
            cancelled: Notify::new(),
        });
        lock(&self.calls).insert(number, Arc::clone(&ongoing));
        ongoing
    }

    /// A call whose answers are kept.
    pub fn ongoing(&self, number: u64) -> Option<Arc<Ongoing>> {
        lock(&self.calls).get(&number).cloned()
    }

    /// Adds an answer, as soon as there is room for it.
    pub async fn answer(&self, call: &Ongoing, content: &[u8]) {
        let mut changes = call.kept.subscribe();
        // The sender lives as long as the call.
        let _ = changes.wait_for(|kept| kept.waiting() < MOST_ANSWERS).await;
        call.kept.send_modify(|kept| {
            let sealed = self.keys.seal_answer(call.number, kept.next(), content);
            kept.push(sealed);
        });
    }

    /// Ends a call. Its answers are kept for a while.
    pub async fn end(&self, call: &Ongoing) {
        call.kept.send_modify(|kept| kept.over = true);
        tokio::time::sleep(KEEP).await;
        lock(&self.calls).remove(&call.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The lock cannot be poisoned half-way through a change: no code panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that is being answered.
#[derive(Debug)]
pub struct Ongoing {
    number: u64,
    kept: watch::Sender<Kept>,
    listeners: watch::Sender<usize>,
    cancelled: Notify,
}

/// The last answers to a call, sealed.
#[derive(Debug, Default)]
struct Kept {
    /// The number of the oldest one.
    first: u32,
    answers: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Number of answers that were sent.
    sent: u32,
    over: bool,
}

impl Kept {
    fn next(&self) -> u32 {
        self.first + self.answers.len() as u32
    }

    fn waiting(&self) -> usize {
        (self.next() - self.sent) as usize
    }

    fn push(&mut self, sealed: Vec<u8>) {
        self.bytes += sealed.len();
        self.answers.push_back(sealed.into());
        while self.first < self.sent && (self.answers.len() > MOST_ANSWERS || self.bytes > MOST_BYTES) {
            let oldest = self.answers.pop_front();
            self.bytes -= oldest.map_or(0, |answer| answer.len());
            self.first += 1;
        }
    }
}

impl Ongoing {
    /// Counts as a listener until the result is dropped.
    pub fn listen(self: &Arc<Self>) -> Listener {
        self.listeners.send_modify(|count| *count += 1);
        Listener(Arc::clone(self))
    }

    /// Waits for an answer; `None` if the call has fewer, or the answer is not kept any more.
    pub async fn answered(&self, number: u32) -> Option<Arc<[u8]>> {
        let mut changes = self.kept.subscribe();
        let known = changes.wait_for(|kept| kept.over || kept.next() > number);
        let kept = known.await.ok()?;
        kept.answers.get(number.checked_sub(kept.first)? as usize).cloned()
    }

    /// Notes that the answers up to this one were sent.
    pub fn sent(&self, number: u32) {
        self.kept.send_modify(|kept| kept.sent = kept.sent.max(number + 1));
    }

    /// Notes that more answers are unwanted.
    pub fn cancel(&self) {
        self.cancelled.notify_one();
    }

    /// Returns when more answers are unwanted, or there was no listener for a while.
    pub async fn forsaken(&self) {
        tokio::select! {
            () = self.cancelled.notified() => {}
            () = self.alone() => {}
        }
    }

    async fn alone(&self) {
        let mut listeners = self.listeners.subscribe();
        loop {
            // The sender lives as long as the call.
            let _ = listeners.wait_for(|count| *count == 0).await;
            let again = listeners.wait_for(|count| *count > 0);
            if tokio::time::timeout(KEEP, again).await.is_err() {
                return;
            }
        }
    }
}

/// Somebody who listens to the answers of a call.
#[derive(Debug)]
pub struct Listener(Arc<Ongoing>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.listeners.send_modify(|count| *count -= 1);
    }
}
