//! The parameters of a gated train that both ends know in advance, and its sender's final report.

use std::time::Duration;

/// Bytes of a full packet at MTU 1500. Constants that count packets refer to these.
const FULL_BYTES: u32 = 1_514;
/// Smallest number to which a count of packets is scaled down.
const FEWEST: u32 = 4;

/// The number of packets of `packet_bytes` that hold as many bytes as `count` full ones at MTU 1500: at least four, at
/// most `count`. With jumbo frames, windows, batches and blocks are thus counted in bytes, not in packets.
pub(super) fn as_many_bytes(count: u32, packet_bytes: u32) -> u32 {
    let scaled = u64::from(count) * u64::from(FULL_BYTES) / u64::from(packet_bytes.max(1));
    (scaled as u32).clamp(FEWEST.min(count), count)
}

/// The parameters of a gated train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// UDP payload of one packet, in bytes.
    pub payload_bytes: u32,
    /// Largest number of packets of the train.
    pub max_packets: u32,
    /// Longest time for sending.
    pub max_time: Duration,
    /// Shortest duration of the train, even if its receiver has enough earlier.
    pub hold: Duration,
}

/// What the receiver of a train knows about its path in advance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Header bytes on the wire around a packet's payload.
    pub headers_bytes: u32,
    /// Size of the receiving socket's buffer, in bytes.
    pub buffer_bytes: u32,
    /// Round-trip time of the quiet path.
    pub round_trip: Duration,
    /// How much the path's round trips differ.
    pub jitter: Duration,
}

/// How a train ended, as its sender reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Packets handed to the kernel.
    pub packets: u32,
    /// Batches of those packets.
    pub batches: u32,
    /// The sender's clock just after the kernel accepted the last batch, in nanoseconds.
    pub ended_ns: u64,
    /// Whether the sender sent all packets that the train may have.
    pub out_of_bytes: bool,
    /// Whether the time was used up.
    pub out_of_time: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_packets_hold_for_full_frames_and_shrink_with_jumbo_ones() {
        assert_eq!((as_many_bytes(16, 1_514), as_many_bytes(16, 1_294)), (16, 16));
        assert_eq!((as_many_bytes(24, 9_014), as_many_bytes(173, 9_014)), (4, 29));
        assert_eq!((as_many_bytes(16, 9_230), as_many_bytes(2, 9_014)), (4, 2));
    }
}
