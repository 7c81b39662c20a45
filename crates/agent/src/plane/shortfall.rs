//! Shows whether the connections of one flow need help because their path loses packets at random.
//!
//! One connection on such a path is as fast as its losses allow; several are faster together, since each recovers from
//! its own losses. A short measurement may not show the loss, so that a flow begins with too few connections.
//!
//! 1. Each connection counts its retransmissions, and shows whether its packets wait in a queue.
//! 2. In each period, the flow is short of connections if it had bytes to send, sent less than its pace allows, and some
//!    of its packets were sent again, although no queue on the path is long.
//! 3. The flow then opens as many more connections as its pace needs, at most as many again as it has.
//!
//! Packets that a full queue drops are no such sign: more connections would only fill it faster.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::tcp::{self, TcpInfo};

use crate::plane::several::MOST;

/// Length of a period in round trips, and the shortest and longest period.
const PERIOD_TRIPS: u32 = 8;
const PERIOD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));
/// A flow is short of connections if it sends less than this share of its pace.
const BEHIND: f64 = 0.9;
/// Packets wait in a queue if their round trip is longer than this multiple of the shortest one, and as much more as
/// follows, which jitter and busy hosts cause.
const QUEUED: f64 = 1.25;
const UNSTEADY_S: f64 = 2e-3;

/// Time between two looks at the connections of a flow.
pub(crate) fn period(round_trip: Duration) -> Duration {
    (PERIOD_TRIPS * round_trip).clamp(PERIOD.0, PERIOD.1)
}

/// Whether packets of a connection wait in a queue.
pub(crate) fn is_queued(info: &TcpInfo) -> bool {
    info.rtt_s > QUEUED * info.min_rtt_s + UNSTEADY_S
}

/// What the connections of a flow show together.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    retransmits: AtomicU64,
    queued: AtomicBool,
}

impl Signs {
    /// Number of segments that were sent again.
    pub(crate) fn retransmits(&self) -> u64 {
        self.retransmits.load(Ordering::Relaxed)
    }

    /// Whether packets have waited in a queue since the last call.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued.swap(false, Ordering::Relaxed)
    }
}

/// One connection's part in the signs.
#[derive(Debug, Default)]
pub(crate) struct Look {
    retransmits: u64,
    last: Option<Instant>,
}

impl Look {
    /// Looks at a connection, if the last look is some time ago.
    ///
    /// # Errors
    /// If the system cannot report on the connection.
    pub(crate) fn at(&mut self, socket: &impl AsFd, signs: &Signs) -> Result<(), SocketError> {
        if self.last.is_some_and(|last| last.elapsed() < PERIOD.0 / 4) {
            return Ok(());
        }
        self.last = Some(Instant::now());
        let info = tcp::info(socket)?;
        let more = info.retransmits.saturating_sub(self.retransmits);
        self.retransmits = info.retransmits;
        signs.retransmits.fetch_add(more, Ordering::Relaxed);
        if is_queued(&info) {
            signs.queued.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What a look shows of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// Time of the look.
    pub at: Instant,
    /// Bytes that no connection has taken so far.
    pub left_bytes: u64,
    /// The flow's pace; 0 if it has none, or must wait.
    pub pace_bps: u64,
    /// Segments that were sent again so far.
    pub retransmits: u64,
    /// Whether packets waited in a queue.
    pub is_queued: bool,
}

/// How many more connections a flow needs. Pure code.
#[derive(Debug)]
pub(crate) struct Shortfall {
    last: Option<Seen>,
    least: u32,
}

impl Default for Shortfall {
    fn default() -> Self {
        Self { last: None, least: 1 }
    }
}

impl Shortfall {
    /// Takes a look at a flow of `count` connections. Returns whether it is short of connections.
    pub(crate) fn observe(&mut self, seen: Seen, count: u32) -> bool {
        let Some(last) = self.last.replace(seen) else {
            return false;
        };
        // A flow that waited, or whose bytes ran out, shows nothing.
        let pace_bps = seen.pace_bps.min(last.pace_bps);
        let sent_bits = 8.0 * last.left_bytes.saturating_sub(seen.left_bytes) as f64;
        let wanted_bits = pace_bps as f64 * seen.at.saturating_duration_since(last.at).as_secs_f64();
        let behind = seen.left_bytes > 0 && sent_bits < BEHIND * wanted_bits;
        if !behind || seen.is_queued || seen.retransmits <= last.retransmits {
            return false;
        }
        let factor = (wanted_bits / sent_bits.max(1.0)).min(2.0);
        let needed = ((f64::from(count) * factor).ceil() as u32).min(MOST as u32);
        let more = needed > count.max(self.least);
        self.least = self.least.max(needed);
        more
    }

    /// The number of connections of a flow of which `filling` would fill a path without loss.
    pub(crate) fn connections(&self, filling: u32) -> u32 {
        filling.max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a flow of one connection at 80 Mbit/s, 1 s apart.
    fn after(sent_bytes: u64, change: impl Fn(&mut Seen)) -> (bool, u32) {
        let first = Seen {
            at: Instant::now(),
            left_bytes: 100_000_000,
            pace_bps: 80_000_000,
            retransmits: 3,
            is_queued: false,
        };
        let mut second = Seen {
            at: first.at + Duration::from_secs(1),
            left_bytes: first.left_bytes - sent_bytes,
            retransmits: 9,
            ..first
        };
        change(&mut second);
        let mut shortfall = Shortfall::default();
        assert!(!shortfall.observe(first, 1));
        (shortfall.observe(second, 1), shortfall.connections(1))
    }

    #[test]
    fn random_losses_of_a_slow_flow_call_for_connections() {
        assert_eq!(after(4_000_000, |_| ()), (true, 2));
        // At most as many again.
        assert_eq!(after(10_000, |_| ()), (true, 2));
        assert_eq!(after(9_500_000, |_| ()), (false, 1));
    }

    #[test]
    fn queues_and_changes_do_not() {
        assert_eq!(after(4_000_000, |seen| seen.is_queued = true), (false, 1));
        assert_eq!(after(4_000_000, |seen| seen.retransmits = 3), (false, 1));
        assert_eq!(after(4_000_000, |seen| seen.pace_bps = 30_000_000), (false, 1));
        assert_eq!(after(4_000_000, |seen| seen.pace_bps = 0), (false, 1));
        assert_eq!(after(100_000_000, |_| ()), (false, 1));
    }

    #[test]
    fn the_number_is_bounded() {
        let mut shortfall = Shortfall::default();
        let begin = Instant::now();
        for second in 0..20 {
            let seen = Seen {
                at: begin + Duration::from_secs(second),
                left_bytes: 1_000_000_000 - second,
                pace_bps: 80_000_000,
                retransmits: second,
                is_queued: false,
            };
            let count = shortfall.connections(1);
            shortfall.observe(seen, count);
        }
        assert_eq!((shortfall.connections(1), shortfall.connections(90)), (64, 90));
    }
}
