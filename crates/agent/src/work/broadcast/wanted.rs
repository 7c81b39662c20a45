//! What one subscriber wants from this host, over one connection or several.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gavotte_swarm::broadcast::serving::Serving;
use tokio::sync::watch;

use crate::contract::data::Want;
use crate::plane::several::Pacer;

/// The pace of a subscription that must wait: no more of its bytes go to the kernel.
const HELD_BPS: u64 = 1;

/// The wanted blocks that were not sent yet, and their pace.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    serving: Mutex<Serving>,
    changes: watch::Sender<u64>,
    pace_bps: AtomicU64,
    /// Locked by the connection that waits for the next block; the others wait for the lock, in order.
    claiming: tokio::sync::Mutex<()>,
    /// Hands out what several connections send together.
    pub(super) pacer: Pacer,
}

impl Wanted {
    /// Adopts a message of the subscriber of an object of `count` blocks. `instead` returns the block to send for a
    /// wanted one, if it is another.
    pub(super) fn adopt(&self, want: &Want, count: u32, instead: impl Fn(u32) -> Option<u32>) {
        // Bytes of a held subscription that are already in the kernel leave at the old pace.
        self.pace_bps.store(want.pace_bps, Ordering::Relaxed);
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

    /// Waits until `claim` takes a block off the list, which it may as blocks grow. Returns the block and how many of its
    /// bytes were sent before. Connections get blocks in the order in which they ask.
    pub(super) async fn claim(
        &self,
        mut grown: watch::Receiver<u64>,
        claim: impl Fn(&mut Serving) -> Option<(u32, u32)>,
    ) -> (u32, u32) {
        let _turn = self.claiming.lock().await;
        let mut changes = self.changes();
        loop {
            grown.mark_unchanged();
            changes.mark_unchanged();
            if !self.is_held()
                && let Some(claimed) = self.with(&claim)
            {
                return claimed;
            }
            tokio::select! {
                _ = grown.changed() => {}
                _ = changes.changed() => {}
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
