//! Blocks that the connections of a subscription have sent, and whose receipt is not confirmed yet.
//!
//! A lost packet at the end of a block holds the block up for a timeout of TCP: 0.2 s and a round trip, since nothing
//! that follows shows the loss. Where other connections have nothing else to send, they send such blocks again:
//!
//! 1. A block that no acknowledgement has confirmed for two round trips and 50 ms goes out again.
//! 2. After the last block of a subscription whose path loses packets at random, every block that is not confirmed goes out
//!    again at once. The newest goes first, since the loss of an older one is noticed sooner.
//! 3. At most three copies of a block are sent, each over another connection. A connection that waits for late
//!    acknowledgements itself sends none: the copy would wait behind what it has lost.
//!
//! The receiver skips the bytes that it already has.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Most copies of a block.
const COPIES: usize = 3;
/// An acknowledgement is late after this many round trips, and as much more as a receiver may delay it.
const LATE_TRIPS: f64 = 2.0;
const DELAY: Duration = Duration::from_millis(50);

/// A connection waits for late acknowledgements after this many round trips, and as much more as hosts vary.
const STUCK_TRIPS: f64 = 1.5;
const VARIES: Duration = Duration::from_millis(10);

/// What a connection shows of the bytes that it was given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Bytes whose receipt is confirmed.
    pub confirmed_bytes: u64,
    /// The round trip.
    pub round_trip: Duration,
    /// Whether it sent some packets again, although none wait in a queue.
    pub loses: bool,
}

/// A block that a connection has sent.
#[derive(Clone, Copy, Debug)]
struct Copy {
    block: u32,
    lane: u64,
    /// Bytes that the connection was given until the end of the block.
    until_bytes: u64,
    at: Instant,
}

/// What a connection without a new block may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Send this block again.
    Block(u32),
    /// Leave the turn to other connections: this one has sent the block itself.
    Others,
    /// Look again at this time.
    At(Instant),
    /// Wait for something new.
    Never,
}

/// The blocks, by the connections that sent them. Pure code.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed {
    copies: Vec<Copy>,
    lanes: BTreeMap<u64, Progress>,
}

impl Unconfirmed {
    /// Records that a connection has sent a block, with which it was given `until_bytes` bytes in all.
    pub(super) fn sent(&mut self, lane: u64, block: u32, until_bytes: u64, at: Instant) {
        self.copies.push(Copy {
            block,
            lane,
            until_bytes,
            at,
        });
    }

    /// Takes what a connection shows. A block that it has delivered is no longer of interest.
    pub(super) fn progress(&mut self, lane: u64, progress: Progress) {
        self.lanes.insert(lane, progress);
        let done = |copy: &Copy| copy.lane == lane && copy.until_bytes <= progress.confirmed_bytes;
        let delivered: Vec<u32> = self
            .copies
            .iter()
            .filter(|copy| done(copy))
            .map(|copy| copy.block)
            .collect();
        self.copies.retain(|copy| !delivered.contains(&copy.block));
    }

    /// Forgets a connection that has ended.
    pub(super) fn end(&mut self, lane: u64) {
        self.lanes.remove(&lane);
        self.copies.retain(|copy| copy.lane != lane);
    }

    /// Forgets blocks that are no longer wanted, or are wanted again.
    pub(super) fn forget(&mut self, blocks: Range<u32>) {
        self.copies.retain(|copy| !blocks.contains(&copy.block));
    }

    fn round_trip(&self, copy: &Copy) -> Duration {
        self.lanes.get(&copy.lane).map_or(DELAY, |lane| lane.round_trip)
    }

    /// What a connection may do that has no new block to send. `ended`: there will be none.
    pub(super) fn next(&self, lane: u64, ended: bool, now: Instant) -> Again {
        let at_once = ended && self.lanes.values().any(|lane| lane.loses);
        let stuck =
            |copy: &Copy| copy.lane == lane && copy.at + self.round_trip(copy).mul_f64(STUCK_TRIPS) + VARIES <= now;
        let stuck = self.copies.iter().any(stuck);
        // By block: the number of its copies, when the last was sent, when the next is due, and whether it may be this one's.
        let mut blocks: BTreeMap<u32, (usize, Instant, Instant, bool)> = BTreeMap::new();
        for copy in &self.copies {
            let overdue = copy.at + self.round_trip(copy).mul_f64(LATE_TRIPS) + DELAY;
            let other = copy.lane != lane && !stuck;
            let all = blocks.entry(copy.block).or_insert((0, copy.at, overdue, other));
            *all = (all.0 + 1, all.1.max(copy.at), all.2.max(overdue), all.3 && other);
        }
        let waiting = blocks.into_iter().filter(|(_, (copies, ..))| *copies < COPIES);
        let (mut best, mut others, mut soonest) = (None, false, None);
        for (block, (copies, last, overdue, other)) in waiting {
            let due = if at_once && copies == 1 { last } else { overdue };
            if due > now {
                soonest = Some(soonest.map_or(due, |soonest: Instant| soonest.min(due)));
            } else if other {
                best = best.max(Some((std::cmp::Reverse(copies), last, block)));
            } else {
                others = true;
            }
        }
        match (best, others, soonest) {
            (Some((_, _, block)), ..) => Again::Block(block),
            (None, true, _) => Again::Others,
            (None, false, Some(at)) => Again::At(at),
            (None, false, None) => Again::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(40);

    fn progress(confirmed_bytes: u64, loses: bool) -> Progress {
        Progress {
            confirmed_bytes,
            round_trip: TRIP,
            loses,
        }
    }

    /// Blocks 7 and 8 on connections 1 and 2, 1 ms apart; connection 3 has nothing to send. Returns the time of the first.
    fn under_way(loses: bool) -> (Unconfirmed, Instant) {
        let (mut all, began) = (Unconfirmed::default(), Instant::now());
        for (lane, block) in [(1, 7), (2, 8)] {
            all.progress(lane, progress(1000, loses && lane == 1));
            all.sent(lane, block, 2000, began + Duration::from_millis(lane - 1));
        }
        all.progress(3, progress(0, false));
        (all, began)
    }

    #[test]
    fn a_late_block_goes_over_another_connection() {
        let (mut all, began) = under_way(false);
        let overdue = began + 2 * TRIP + DELAY;
        assert_eq!(all.next(3, true, began), Again::At(overdue));
        assert_eq!(all.next(3, true, overdue), Again::Block(7));
        assert_eq!(all.next(1, true, overdue), Again::Others);
        all.sent(3, 7, 1000, overdue);
        assert_eq!(
            all.next(3, true, overdue),
            Again::At(overdue + Duration::from_millis(1))
        );
        // The copy has arrived.
        all.progress(3, progress(1000, false));
        all.progress(2, progress(2000, false));
        assert_eq!(all.next(1, true, overdue + 9 * TRIP), Again::Never);
    }

    #[test]
    fn the_last_blocks_of_a_lossy_path_go_again_at_once() {
        let (mut all, began) = under_way(true);
        let now = began + Duration::from_millis(1);
        assert!(matches!(all.next(3, false, now), Again::At(_)));
        assert_eq!(all.next(3, true, now), Again::Block(8));
        all.sent(3, 8, 1000, now);
        assert_eq!(all.next(3, true, now), Again::Block(7));
        all.sent(3, 7, 2000, now);
        assert!(matches!(all.next(2, true, now), Again::At(_)));
        // Three copies at most, each over another connection.
        let later = now + 3 * TRIP + DELAY;
        assert_eq!(all.next(3, true, later), Again::Others);
        all.progress(2, progress(2000, false));
        assert_eq!(all.next(2, true, later), Again::Block(7));
        all.sent(2, 7, 3000, later);
        assert_eq!(all.next(1, true, later + 9 * TRIP), Again::Never);
    }

    #[test]
    fn a_connection_that_waits_itself_sends_none_again() {
        let (mut all, began) = under_way(false);
        all.sent(3, 9, 1000, began);
        let overdue = began + Duration::from_millis(1) + 2 * TRIP + DELAY;
        assert_eq!(all.next(3, true, overdue), Again::Others);
        all.progress(3, progress(1000, false));
        assert_eq!(all.next(3, true, overdue), Again::Block(8));
    }

    #[test]
    fn what_ended_connections_sent_is_forgotten() {
        let (mut all, began) = under_way(true);
        all.end(1);
        assert!(matches!(all.next(3, true, began), Again::At(_)));
        all.end(2);
        assert_eq!(all.next(3, true, began + 9 * TRIP), Again::Never);
    }
}
