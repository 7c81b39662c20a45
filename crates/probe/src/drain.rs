//! Decides when the receiver of a train stops waiting for the rest of it.

use std::time::{Duration, Instant};

/// How long silence must last, once the sender has finished, before the rest of a train counts as lost.
pub const QUIET: Duration = Duration::from_millis(30);
/// The same if no packet has arrived at all.
pub const QUIET_WHEN_EMPTY: Duration = Duration::from_millis(200);
/// Longest silence that may be required on a slow path, where packets arrive far apart.
pub const MAX_QUIET: Duration = Duration::from_millis(500);
/// Longest wait after the sender has finished, even if packets still arrive from a shaper's queue.
pub const MAX_DRAIN: Duration = Duration::from_secs(5);
/// How often a receiver that hears nothing checks whether it is still needed.
pub const GLANCE: Duration = Duration::from_millis(5);

/// Decides how long the receiver of a train listens. The caller passes in the time.
///
/// The sender reports over TCP that it has finished. From then on the receiver waits while packets arrive, since a
/// shaper's queue may hold them for up to a second. It stops at the first of these:
///
/// 1. all packets have arrived;
/// 2. no packet has arrived for [`QUIET`], or for eight times the usual spacing on a slow path, at most [`MAX_QUIET`];
/// 3. [`MAX_DRAIN`] has passed since the sender finished;
/// 4. the deadline has passed.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    deadline: Instant,
    done: Option<Instant>,
    first_packet: Option<Instant>,
    last_packet: Option<Instant>,
    packets: u32,
}

impl Drain {
    /// Starts to listen, until `deadline` at the latest.
    pub fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            done: None,
            first_packet: None,
            last_packet: None,
            packets: 0,
        }
    }

    /// Records that the sender has sent everything.
    pub fn sender_done(&mut self, now: Instant) {
        self.done.get_or_insert(now);
    }

    /// Records that `count` packets of the train arrived.
    pub fn packets_came(&mut self, now: Instant, count: u32) {
        self.first_packet.get_or_insert(now);
        self.last_packet = Some(now);
        self.packets = self.packets.saturating_add(count);
    }

    /// The time until which to listen before the next call; `None` if it is time to stop.
    pub fn listen(&self, now: Instant) -> Option<Instant> {
        let stop_at = self.stop_at();
        (now < stop_at).then(|| stop_at.min(now + GLANCE))
    }

    /// The time at which to stop if no more packets arrive.
    pub fn stop_at(&self) -> Instant {
        let Some(done) = self.done else {
            return self.deadline;
        };
        let (quiet, since) = match (self.first_packet, self.last_packet) {
            (Some(first), Some(last)) => {
                let spacing = last.duration_since(first) / self.packets.max(1);
                ((spacing * 8).clamp(QUIET, MAX_QUIET), last.max(done))
            }
            _ => (QUIET_WHEN_EMPTY, done),
        };
        (since + quiet).min(done + MAX_DRAIN).min(self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drain_ends_after_silence_or_at_its_bounds() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut drain = Drain::new(start + ms(60_000));
        assert_eq!(drain.stop_at(), start + ms(60_000));
        drain.sender_done(start + ms(10));
        assert_eq!(drain.stop_at(), start + ms(10) + QUIET_WHEN_EMPTY);
        drain.packets_came(start + ms(20), 64);
        assert_eq!(drain.stop_at(), start + ms(20) + QUIET);
        drain.packets_came(start + ms(5_000), 64);
        assert_eq!(drain.stop_at(), start + ms(5_010));
        let mut slow = Drain::new(start + ms(60_000));
        slow.packets_came(start, 1);
        slow.packets_came(start + ms(400), 9);
        slow.sender_done(start + ms(410));
        assert_eq!(slow.stop_at(), start + ms(410) + ms(320));
        let mut short = Drain::new(start + ms(15));
        short.sender_done(start + ms(10));
        assert_eq!(short.stop_at(), start + ms(15));
    }
}
