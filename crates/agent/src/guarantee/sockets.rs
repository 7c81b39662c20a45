//! The bytes that wait in the host's sockets, which show whether a pair could send more.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Instant;

use gavotte_sockets::Backlog;
use tracing::info;

/// Shortest time between two looks, in seconds.
const LOOK_S: f64 = 0.2;
/// A look is at most this share of the time between two, since it reads every connection of the host.
const MOST_SHARE: f64 = 0.01;

/// Reads the host's connections, but not too often.
#[derive(Debug)]
pub(super) struct Sockets {
    backlog: Option<Backlog>,
    next_s: f64,
}

impl Sockets {
    /// Opens the sockets of this thread's network. Without them, no guarantee counts as unmet if its limiter is not full.
    pub(super) fn open() -> Self {
        let backlog = Backlog::open();
        if let Err(error) = &backlog {
            info!(%error, "cannot read what waits in sockets");
        }
        Self {
            backlog: backlog.ok(),
            next_s: 0.0,
        }
    }

    /// The addresses for which bytes wait; `None` if it is too early for another look.
    pub(super) fn targets(&mut self, now_s: f64) -> Option<HashSet<IpAddr>> {
        let Some(backlog) = &mut self.backlog else {
            return Some(HashSet::new());
        };
        if now_s < self.next_s {
            return None;
        }
        let begin = Instant::now();
        let targets = backlog.targets().unwrap_or_default();
        self.next_s = now_s + (begin.elapsed().as_secs_f64() / MOST_SHARE).max(LOOK_S * 0.8);
        Some(targets)
    }
}
