//! What both ends of a gated train know beforehand, and what its sender says at the end.

use std::time::Duration;

/// A gated train as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// UDP payload of one packet, in bytes.
    pub payload_bytes: u32,
    /// Most packets of the train.
    pub max_packets: u32,
    /// Longest time it may take to send.
    pub max_time: Duration,
    /// Least time that it goes on, however soon its receiver has enough.
    pub hold: Duration,
}

/// How a train ended, by its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Packets handed to the kernel.
    pub packets: u32,
    /// Batches that they went in.
    pub batches: u32,
    /// The sender's clock just after the last batch had been taken, in nanoseconds.
    pub ended_ns: u64,
    /// Whether all packets that the train may have were sent.
    pub out_of_bytes: bool,
    /// Whether its time was used up.
    pub out_of_time: bool,
}
