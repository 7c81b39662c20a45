//! The receiver's record of a gated train.

use std::collections::BTreeMap;

use super::shape::as_many_bytes;

/// Differences between round trips below this, in nanoseconds, are caused by the hosts.
const LEAST_JITTER_NS: i64 = 300_000;

/// One packet as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the packet in the train, from 0.
    pub seq: u32,
    /// Number of the batch that contained the packet, from 0.
    pub batch: u32,
    /// The sender's clock just before it handed the batch to the kernel, in nanoseconds.
    pub sent_ns: i64,
    /// The kernel's receive timestamp, in nanoseconds of the receiver's clock.
    pub received_ns: i64,
    /// Packets that the receiving socket has dropped since the train began because its buffer was full.
    pub overflow: u32,
}

/// The reason why the train ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The receiver had enough packets.
    #[default]
    Enough,
    /// The byte budget was used up.
    Bytes,
    /// The time was used up.
    Time,
}

/// A whole train.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Train {
    /// Bytes of one packet as a shaper counts them: payload and all headers down to Ethernet's 14 bytes.
    pub wire_bytes: u32,
    /// UDP payload of one packet, in bytes.
    pub payload_bytes: u32,
    /// Packets sent.
    pub sent: u64,
    /// Arrivals in the order of their stamps, each packet once.
    pub arrivals: Vec<Arrival>,
    /// By batch: the sender's clock just after the kernel accepted it, in nanoseconds, if known. It is a map so that a
    /// number in one packet cannot make the receiver allocate memory: 534 MB were seen.
    pub batch_ends_ns: BTreeMap<u32, i64>,
    /// The reason why the train ended.
    pub limit: Limit,
    /// How much round trips differed on the quiet path before the train, in nanoseconds; 0 if they did not.
    pub jitter_ns: i64,
}

impl Train {
    /// Whether the path's delay varies.
    pub(super) fn wanders(&self) -> bool {
        self.jitter_ns >= LEAST_JITTER_NS
    }

    /// The number of this train's packets that hold as many bytes as `count` full ones at MTU 1500.
    pub(super) fn packets(&self, count: u32) -> usize {
        as_many_bytes(count, self.wire_bytes) as usize
    }
}
