//! Counts each payload byte once, even if packets are retransmitted, seen twice, or missed by the capture.
//!
//! TCP numbers its bytes, so the progress of its sequence numbers is the number of bytes that a connection carried.
//!
//! * A retransmission, or a packet that `tcpdump -i any` caught twice, on its way in and out, makes no progress.
//! * A packet that the capture dropped, or that a sampling capture left out, shows in the next one's number. Such bytes
//!   count as unseen, until a late packet brings them. A forged number would claim them, too.
//!
//! UDP has no numbers. A flow counts only at the place where it was first seen (interface, direction).

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::segment::Segment;

/// A jump of the sequence number by more than this, forward or back, is a new connection whose start was not captured.
/// It is twice the largest window that Linux opens by default, and 3 % of all numbers.
pub const JUMP_BYTES: i64 = 64 << 20;

/// Largest number of flows kept, about 30 MB. Above it, the flow that was silent longest is forgotten.
pub const FLOWS_KEPT: usize = 1 << 17;

type Key = (IpAddr, IpAddr, u16, u16);

/// One direction of a TCP connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// Sequence number of the first byte.
    first: u32,
    /// Sequence number after the furthest byte.
    following: u32,
    /// The numbers of the last bytes that were jumped over: the first, and how many.
    gap: (u32, u32),
}

impl Connection {
    fn new(first: u32, following: u32) -> Self {
        Self {
            first,
            following,
            gap: (first, 0),
        }
    }

    /// Takes bytes that come late out of the gap; returns how many of them were missing.
    fn fill(&mut self, sequence: u32, count: u32) -> u32 {
        let (start, missing) = self.gap;
        // Both ends relative to the gap's start; a segment may begin before it.
        let begin = i64::from(sequence.wrapping_sub(start).cast_signed());
        let end = (begin + i64::from(count)).min(missing.into());
        let begin = begin.max(0);
        if end <= begin {
            return 0;
        }
        let (before, after) = (begin as u32, missing - end as u32);
        // One gap is kept: the larger rest.
        self.gap = if before > after {
            (start, before)
        } else {
            (start.wrapping_add(end as u32), after)
        };
        (end - begin) as u32
    }
}

/// New bytes of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fresh {
    /// Bytes that were not counted before.
    pub bytes: u64,
    /// The change of the bytes that only a gap in the sequence numbers indicates; negative when a late packet fills it.
    pub unseen_bytes: i64,
}

/// What a capture has seen of the flows so far.
#[derive(Debug)]
pub struct Tally {
    connections: LruCache<Key, Connection>,
    vantages: LruCache<Key, u64>,
    /// Packets whose whole payload was counted before.
    pub duplicate_packets: u64,
    /// Payload that was counted before.
    pub duplicate_bytes: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self::keeping(FLOWS_KEPT)
    }
}

impl Tally {
    /// Creates a tally that keeps at most `flows` flows.
    pub fn keeping(flows: usize) -> Self {
        let kept = NonZeroUsize::new(flows.max(1)).unwrap_or(NonZeroUsize::MIN);
        Self {
            connections: LruCache::new(kept),
            vantages: LruCache::new(kept),
            duplicate_packets: 0,
            duplicate_bytes: 0,
        }
    }

    /// The new bytes that a segment adds to its flow.
    pub fn fresh(&mut self, segment: &Segment<'_>) -> Fresh {
        match segment.sequence {
            Some(sequence) => self.stream(segment, sequence),
            None => self.datagram(segment),
        }
    }

    fn stream(&mut self, segment: &Segment<'_>, sequence: u32) -> Fresh {
        let count = segment.payload_bytes;
        let whole = Fresh {
            bytes: count,
            unseen_bytes: 0,
        };
        let bare = !segment.starts && count == 0; // an acknowledgement or reset: its number proves nothing
        let end = sequence.wrapping_add(count as u32);
        let Some(connection) = self.connections.get_mut(&key(segment)) else {
            if !bare {
                self.connections.put(key(segment), Connection::new(sequence, end));
            }
            return whole;
        };
        if bare {
            return Fresh::default();
        }
        let jump = i64::from(sequence.wrapping_sub(connection.following).cast_signed());
        let restarts = segment.starts && sequence != connection.first;
        if restarts || !(-JUMP_BYTES..=JUMP_BYTES).contains(&jump) {
            *connection = Connection::new(sequence, end);
            return whole;
        }
        let bytes = (jump + count as i64).max(0) as u64;
        let mut unseen_bytes = jump.max(0);
        if jump > 0 {
            connection.gap = (connection.following, jump as u32);
        } else {
            unseen_bytes = -i64::from(connection.fill(sequence, count as u32));
        }
        if bytes > 0 {
            connection.following = end;
        }
        let old = count - bytes.min(count);
        self.again(count, old.saturating_sub(unseen_bytes.min(0).unsigned_abs()));
        Fresh { bytes, unseen_bytes }
    }

    fn datagram(&mut self, segment: &Segment<'_>) -> Fresh {
        let count = segment.payload_bytes;
        let vantage = *self.vantages.get_or_insert(key(segment), || segment.vantage);
        if vantage != segment.vantage {
            self.again(count, count);
            return Fresh::default();
        }
        Fresh {
            bytes: count,
            unseen_bytes: 0,
        }
    }

    fn again(&mut self, count: u64, old: u64) {
        self.duplicate_bytes += old;
        self.duplicate_packets += u64::from(count > 0 && old == count);
    }
}

fn key(segment: &Segment<'_>) -> Key {
    (segment.source, segment.target, segment.source_port, segment.target_port)
}

/// The two sockets of a segment.
pub(crate) fn sockets(segment: &Segment<'_>) -> (SocketAddr, SocketAddr) {
    (
        SocketAddr::new(segment.source, segment.source_port),
        SocketAddr::new(segment.target, segment.target_port),
    )
}
