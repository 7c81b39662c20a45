//! What one subscriber wants from this host, over one connection or several.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp::{self, TcpInfo};
use gavotte_swarm::broadcast::serving::Serving;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::contract::data::Want;
use crate::error::WorkError;
use crate::plane::several::Pacer;
use crate::plane::shortfall::is_queued;
use crate::work::broadcast::unconfirmed::{Again, Progress, Unconfirmed};

/// The pace of a subscription that must wait: no more of its bytes go to the kernel.
const HELD_BPS: u64 = 1;

/// Least time between two looks at what all connections have delivered.
const LOOK: Duration = Duration::from_millis(1);

/// The wanted blocks that were not sent yet, and their pace.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    serving: Mutex<Serving>,
    changes: watch::Sender<u64>,
    pace_bps: AtomicU64,
    lanes: Mutex<BTreeMap<u64, Lane>>,
    numbers: AtomicU64,
    unconfirmed: Mutex<Unconfirmed>,
    /// When all connections were asked what they have delivered.
    looked: Mutex<Option<Instant>>,
    /// Whether a connection had nothing to send since the last look.
    idle: AtomicBool,
    /// Number of connections to ask the subscriber for; 0 = nothing to ask.
    asks: AtomicU32,
    /// Locked by the connection that waits for the next block; the others wait for the lock, in order.
    claiming: tokio::sync::Mutex<()>,
    /// Hands out what several connections send together.
    pub(super) pacer: Pacer,
}

/// One connection of a subscription.
#[derive(Debug)]
struct Lane {
    socket: OwnedFd,
    /// Bytes that were acknowledged before it sent any blocks.
    before_bytes: u64,
}

/// A connection's place among those of its subscription, which it leaves when this is dropped.
pub(super) struct Place<'a> {
    wanted: &'a Wanted,
    lane: u64,
    /// Bytes that the connection was given to send.
    given_bytes: AtomicU64,
}

impl Place<'_> {
    /// Counts bytes that the connection sends.
    pub(super) fn give(&self, bytes: usize) {
        self.given_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.wanted.lanes().remove(&self.lane);
        self.wanted.unconfirmed().end(self.lane);
    }
}

/// What a connection sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A block, from this byte on.
    Block(u32, u32),
    /// Nothing: other connections may have something to send.
    Pass,
}

/// What all connections of a subscription show together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sight {
    /// Number of connections.
    pub count: u32,
    /// Segments that were sent again so far.
    pub retransmits: u64,
    /// Whether packets wait in a queue.
    pub is_queued: bool,
    /// Whether a connection had nothing to send since the last look.
    pub was_idle: bool,
}

impl Wanted {
    /// Adds a connection. It counts until the returned place is dropped.
    ///
    /// # Errors
    /// If the system cannot report on the connection.
    pub(super) fn join(&self, socket: &impl AsFd) -> Result<Place<'_>, WorkError> {
        let copied = socket.as_fd().try_clone_to_owned();
        let lane = Lane {
            socket: copied.map_err(WorkError::io("watch a connection"))?,
            before_bytes: tcp::info(socket)?.acknowledged_bytes,
        };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.lanes().insert(number, lane);
        Ok(Place {
            wanted: self,
            lane: number,
            given_bytes: AtomicU64::new(0),
        })
    }

    /// Whether the subscription has several connections.
    pub(super) fn is_several(&self) -> bool {
        self.lanes().len() > 1
    }

    /// Looks at all connections.
    pub(super) fn look(&self) -> Sight {
        let mut sight = Sight {
            was_idle: self.idle.swap(false, Ordering::Relaxed),
            ..Sight::default()
        };
        for lane in self.lanes().values() {
            sight.count += 1;
            if let Ok(info) = tcp::info(&lane.socket) {
                sight.retransmits += info.retransmits;
                sight.is_queued |= is_queued(&info);
            }
        }
        sight
    }

    /// Asks the subscriber for this many connections, over the next connection that sends.
    pub(super) fn ask(&self, connections: u32) {
        self.asks.store(connections, Ordering::Relaxed);
    }

    /// The number of connections to ask the subscriber for now, if any.
    pub(super) fn asked(&self) -> Option<u32> {
        Some(self.asks.swap(0, Ordering::Relaxed)).filter(|connections| *connections > 0)
    }

    /// Records that a connection has sent a block.
    pub(super) fn sent(&self, place: &Place<'_>, block: u32) {
        let bytes = place.given_bytes.load(Ordering::Relaxed);
        self.unconfirmed().sent(place.lane, block, bytes, Instant::now());
    }

    /// Records that a connection has nothing to send.
    pub(super) fn set_idle(&self) {
        self.idle.store(true, Ordering::Relaxed);
    }

    /// Takes what a connection shows.
    pub(super) fn see(&self, place: &Place<'_>, info: &TcpInfo) {
        if let Some(lane) = self.lanes().get(&place.lane) {
            self.unconfirmed().progress(place.lane, lane.progress(info));
        }
    }

    /// What a connection may send again now.
    fn again(&self, place: &Place<'_>, ended: bool) -> Again {
        let next = self.unconfirmed().next(place.lane, ended, Instant::now());
        if matches!(next, Again::At(_) | Again::Never) {
            return next;
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return next;
        }
        *looked = Some(Instant::now());
        // Others may have been acknowledged since they last sent.
        for (&number, lane) in self.lanes().iter() {
            if let Ok(info) = tcp::info(&lane.socket) {
                self.unconfirmed().progress(number, lane.progress(&info));
            }
        }
        self.unconfirmed().next(place.lane, ended, Instant::now())
    }

    fn lanes(&self) -> MutexGuard<'_, BTreeMap<u64, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unconfirmed(&self) -> MutexGuard<'_, Unconfirmed> {
        self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adopts a message of the subscriber of an object of `count` blocks. `instead` returns the block to send for a
    /// wanted one, if it is another.
    pub(super) fn adopt(&self, want: &Want, count: u32, instead: impl Fn(u32) -> Option<u32>) {
        // Bytes of a held subscription that are already in the kernel leave at the old pace.
        self.pace_bps.store(want.pace_bps, Ordering::Relaxed);
        let mut unconfirmed = self.unconfirmed();
        for span in want.unwanted.iter().chain(&want.wanted) {
            let end = span.first.saturating_add(span.count).min(count);
            unconfirmed.forget(span.first..end);
        }
        drop(unconfirmed);
        self.with(|serving| {
            for span in &want.unwanted {
                let end = span.first.saturating_add(span.count).min(count);
                (span.first..end).for_each(|block| serving.forgo(block));
            }
            for span in &want.wanted {
                let end = span.first.saturating_add(span.count).min(count);
                for block in span.first..end {
                    match instead(block) {
                        Some(other) => serving.want(other, 0),
                        None => serving.want(block, if block == span.first { span.offset } else { 0 }),
                    }
                }
            }
        });
        self.changes.send_modify(|times| *times += 1);
    }

    /// A counter that changes with every message of the subscriber.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The pace in bit/s; 0 for none.
    pub(super) fn pace_bps(&self) -> u64 {
        self.pace_bps.load(Ordering::Relaxed)
    }

    /// Whether the subscription must wait.
    pub(super) fn is_held(&self) -> bool {
        self.pace_bps() == HELD_BPS
    }

    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Serving) -> T) -> T {
        what(&mut self.serving.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until `claim` takes a block off the list, which it may as blocks grow, or until one should be sent again.
    /// Connections get blocks in the order in which they ask.
    pub(super) async fn claim(
        &self,
        place: &Place<'_>,
        mut grown: watch::Receiver<u64>,
        claim: impl Fn(&mut Serving) -> Option<(u32, u32)>,
    ) -> Turn {
        let _turn = self.claiming.lock().await;
        let mut changes = self.changes();
        loop {
            grown.mark_unchanged();
            changes.mark_unchanged();
            let mut wake = None;
            if !self.is_held() {
                if let Some((block, sent)) = self.with(&claim) {
                    return Turn::Block(block, sent);
                }
                self.set_idle();
                match self.again(place, self.with(|serving| serving.wanted()) == 0) {
                    Again::Block(block) => return Turn::Block(block, 0),
                    Again::Others => return Turn::Pass,
                    Again::At(at) => wake = Some(at),
                    Again::Never => {}
                }
            }
            tokio::select! {
                _ = grown.changed() => {}
                _ = changes.changed() => {}
                () = sleep_until(wake.unwrap_or_else(Instant::now).into()), if wake.is_some() => {}
            }
        }
    }

    /// Waits until the subscription may send.
    pub(super) async fn released(&self) {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if !self.is_held() {
                return;
            }
            // The sender lives as long as this.
            let _ = changes.changed().await;
        }
    }
}

impl Lane {
    fn progress(&self, info: &TcpInfo) -> Progress {
        Progress {
            confirmed_bytes: info.acknowledged_bytes.saturating_sub(self.before_bytes),
            round_trip: Duration::from_secs_f64(info.rtt_s),
            loses: info.retransmits > 0 && !is_queued(info),
        }
    }
}
