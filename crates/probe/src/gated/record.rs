//! What the receiver of a gated train wrote down.

use std::collections::BTreeMap;

/// One packet as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the packet in the train, from 0.
    pub seq: u32,
    /// Number of the batch it was sent in, from 0.
    pub batch: u32,
    /// Sender's clock just before the batch was handed to the kernel, in nanoseconds.
    pub sent_ns: i64,
    /// The kernel's receive stamp at the receiver, in nanoseconds of its own clock.
    pub received_ns: i64,
    /// Packets the receiving socket had dropped since the train began, because its buffer was full.
    pub overflow: u32,
}

/// What ended the train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// The receiver had enough.
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
    /// By batch, the sender's clock just after the kernel had taken it, in nanoseconds, as far as the receiver learnt
    /// it. A map, so that the number in one packet cannot ask for memory: 534 MB were seen.
    pub batch_ends_ns: BTreeMap<u32, i64>,
    /// What ended it.
    pub limit: Limit,
}
