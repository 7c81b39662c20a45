//! Counts each payload byte once, though packets are sent again, seen twice, or missed by the capture.
//!
//! TCP numbers its bytes: what a connection carried is how far its sequence numbers moved. A retransmission, or the
//! second sight of a packet that `tcpdump -i any` caught on its way in and out, moves them no further; a packet that the
//! capture dropped, or a sampling capture left out, shows in the next one's number.
//!
//! UDP has no numbers. A flow is counted where it was first seen (interface, way in or out), and nowhere else.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::segment::Segment;

/// A sequence number further off than this, either way, is a new connection whose start was not captured: twice
/// the largest window that Linux opens by default, and 3 % of all numbers.
pub const JUMP_BYTES: i64 = 64 << 20;

/// Beyond so many, the flow that was silent longest is forgotten: about 30 MB.
pub const FLOWS_KEPT: usize = 1 << 17;

type Key = (IpAddr, IpAddr, u16, u16);

/// One direction of a TCP connection.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// Sequence number of the first byte.
    first: u32,
    /// And of the byte behind the furthest one.
    following: u32,
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
    /// Counted payload that only sequence numbers tell of.
    pub unseen_bytes: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self::keeping(FLOWS_KEPT)
    }
}

impl Tally {
    /// Remembers so many flows.
    pub fn keeping(flows: usize) -> Self {
        let kept = NonZeroUsize::new(flows.max(1)).unwrap_or(NonZeroUsize::MIN);
        Self {
            connections: LruCache::new(kept),
            vantages: LruCache::new(kept),
            duplicate_packets: 0,
            duplicate_bytes: 0,
            unseen_bytes: 0,
        }
    }

    /// How many bytes a segment adds to what its flow is known to have carried.
    pub fn fresh(&mut self, segment: &Segment<'_>) -> u64 {
        match segment.sequence {
            Some(sequence) => self.stream(segment, sequence),
            None => self.datagram(segment),
        }
    }

    fn stream(&mut self, segment: &Segment<'_>, sequence: u32) -> u64 {
        let count = segment.payload_bytes;
        let bare = !segment.starts && count == 0; // an acknowledgement or reset: its number binds nobody
        let end = sequence.wrapping_add(count as u32);
        let Some(connection) = self.connections.get_mut(&key(segment)) else {
            if !bare {
                self.connections.put(
                    key(segment),
                    Connection {
                        first: sequence,
                        following: end,
                    },
                );
            }
            return count;
        };
        if bare {
            return 0;
        }
        let jump = i64::from(sequence.wrapping_sub(connection.following).cast_signed());
        let restarts = segment.starts && sequence != connection.first;
        if restarts || !(-JUMP_BYTES..=JUMP_BYTES).contains(&jump) {
            *connection = Connection {
                first: sequence,
                following: end,
            };
            return count;
        }
        let fresh = (jump + count as i64).max(0) as u64;
        if fresh > 0 {
            connection.following = end;
        }
        self.unseen_bytes += jump.max(0) as u64;
        self.again(count, count - fresh.min(count));
        fresh
    }

    fn datagram(&mut self, segment: &Segment<'_>) -> u64 {
        let count = segment.payload_bytes;
        let vantage = *self.vantages.get_or_insert(key(segment), || segment.vantage);
        if vantage != segment.vantage {
            self.again(count, count);
            return 0;
        }
        count
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
