//! All lanes of a lab, and the order in which their packets leave.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::lane::{Fate, Lane, Profile};
use crate::time::Nanos;

/// A lane's index in its element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaneId(u32);

/// Counts of what happened to the packets offered to an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that left.
    pub passed: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that found too few tokens and no space in the queue.
    pub policed: u64,
    /// Packets for which there was no memory.
    pub crowded: u64,
}

/// Lanes that share one clock. The element reads no clock itself: every call has the time as an argument.
#[derive(Debug)]
pub struct Element<P> {
    lanes: Vec<Lane<(usize, P)>>,
    /// The time at which the first packet of each non-empty lane leaves.
    due: BinaryHeap<Reverse<(Nanos, LaneId)>>,
    held_bytes: usize,
    most_bytes: usize,
    counts: Counts,
}

impl<P> Element<P> {
    /// Creates an element without lanes that holds at most `most_bytes` bytes of packets.
    pub fn new(most_bytes: usize) -> Self {
        Self {
            lanes: Vec::new(),
            due: BinaryHeap::new(),
            held_bytes: 0,
            most_bytes,
            counts: Counts::default(),
        }
    }

    /// Adds a lane.
    pub fn add(&mut self, profile: Profile) -> LaneId {
        self.lanes.push(Lane::new(profile));
        LaneId(self.lanes.len() as u32 - 1)
    }

    /// Offers a packet of `bytes` bytes, which arrived at `now`, to a lane.
    ///
    /// # Panics
    /// If the lane belongs to another element.
    pub fn offer(&mut self, lane: LaneId, now: Nanos, bytes: usize, packet: P) -> Option<Fate> {
        if self.held_bytes + bytes > self.most_bytes {
            self.counts.crowded += 1;
            return None;
        }
        let queue = &mut self.lanes[lane.0 as usize];
        let idle = queue.next().is_none();
        let fate = queue.offer(now, bytes, (bytes, packet));
        match fate {
            Fate::Leaves(due) => {
                self.held_bytes += bytes;
                if idle {
                    self.due.push(Reverse((due, lane)));
                }
            }
            Fate::Lost => self.counts.lost += 1,
            Fate::Policed => self.counts.policed += 1,
        }
        Some(fate)
    }

    /// Returns the time at which the next packet leaves.
    pub fn next(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// Returns the packet that leaves first, if it leaves at `now` or before.
    pub fn take(&mut self, now: Nanos) -> Option<P> {
        let &Reverse((due, lane)) = self.due.peek()?;
        if due > now {
            return None;
        }
        self.due.pop();
        let queue = &mut self.lanes[lane.0 as usize];
        let (bytes, packet) = queue.take(now)?;
        if let Some(due) = queue.next() {
            self.due.push(Reverse((due, lane)));
        }
        self.held_bytes -= bytes;
        self.counts.passed += 1;
        Some(packet)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
