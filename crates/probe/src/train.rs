//! The shape of a packet train and the record of its arrivals.

use std::time::Duration;

use thiserror::Error;

use crate::choreo::BurstArrivals;
use crate::packet::{HEADER_BYTES, MAX_PAYLOAD_BYTES};

/// Largest number of bursts in one train.
pub const MAX_BURSTS: u32 = 1_000;
/// Largest number of packets in one burst.
pub const MAX_PACKETS: u32 = 20_000;
/// Largest number of packets in one train; bounds the memory of its receiver.
pub const MAX_TRAIN_PACKETS: u64 = 1_000_000;
/// Largest UDP payload of one burst, in bytes: the sender prepares a burst as a whole.
pub const MAX_BURST_BYTES: u64 = 64 << 20;
/// Longest pause between two bursts, in seconds.
pub const MAX_GAP_S: f64 = 10.0;
/// Longest time of all pauses of a train together, in seconds.
pub const MAX_PAUSES_S: f64 = 120.0;

/// A train with Choreo's parameters (section 4.1): K bursts of B packets of P bytes, with pauses of delta between
/// bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    bursts: u32,
    packets: u32,
    payload_bytes: u32,
    gap: Duration,
}

/// Why the requested train cannot be sent.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum ShapeError {
    /// The number of bursts is out of range.
    #[error("a train has 1 to {MAX_BURSTS} bursts, not {0}")]
    Bursts(u32),
    /// The number of packets in a burst is out of range.
    #[error("a burst has 2 to {MAX_PACKETS} packets, not {0}")]
    Packets(u32),
    /// The train has too many packets.
    #[error("a train has at most {MAX_TRAIN_PACKETS} packets, not {0}")]
    Train(u64),
    /// The payload is out of range.
    #[error("the payload of a train packet is {HEADER_BYTES} to {MAX_PAYLOAD_BYTES} bytes, not {0}")]
    Payload(u32),
    /// The burst has too many bytes.
    #[error("a burst has at most {MAX_BURST_BYTES} bytes, not {0}")]
    Burst(u64),
    /// The pause is out of range.
    #[error("the pause between bursts is 0 to {MAX_GAP_S} s and {MAX_PAUSES_S} s in all, not {0} s each")]
    Gap(f64),
}

impl Shape {
    /// Checks a train's parameters. `gap_s` is the time from the end of one burst to the start of the next, in seconds.
    ///
    /// # Errors
    /// A [`ShapeError`] that names the parameter that is out of range.
    pub fn new(bursts: u32, packets: u32, payload_bytes: u32, gap_s: f64) -> Result<Self, ShapeError> {
        if !(1..=MAX_BURSTS).contains(&bursts) {
            return Err(ShapeError::Bursts(bursts));
        }
        if !(2..=MAX_PACKETS).contains(&packets) {
            return Err(ShapeError::Packets(packets));
        }
        let total = u64::from(bursts) * u64::from(packets);
        if total > MAX_TRAIN_PACKETS {
            return Err(ShapeError::Train(total));
        }
        if !(HEADER_BYTES..=MAX_PAYLOAD_BYTES).contains(&(payload_bytes as usize)) {
            return Err(ShapeError::Payload(payload_bytes));
        }
        let burst = u64::from(packets) * u64::from(payload_bytes);
        if burst > MAX_BURST_BYTES {
            return Err(ShapeError::Burst(burst));
        }
        if !(0.0..=MAX_GAP_S).contains(&gap_s) || gap_s * f64::from(bursts) > MAX_PAUSES_S {
            return Err(ShapeError::Gap(gap_s));
        }
        Ok(Self {
            bursts,
            packets,
            payload_bytes,
            gap: Duration::from_secs_f64(gap_s),
        })
    }

    /// The same train with packets of at most `payload_bytes`.
    #[must_use]
    pub fn fitting(self, payload_bytes: u32) -> Self {
        let least = HEADER_BYTES as u32;
        Self {
            payload_bytes: self.payload_bytes.min(payload_bytes.max(least)),
            ..self
        }
    }

    /// Number of bursts (the paper's K).
    pub fn bursts(&self) -> u32 {
        self.bursts
    }

    /// Packets in each burst (B).
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// UDP payload of one packet, in bytes (P).
    pub fn payload_bytes(&self) -> u32 {
        self.payload_bytes
    }

    /// Pause between two bursts (delta).
    pub fn gap(&self) -> Duration {
        self.gap
    }

    /// Number of packets of the whole train.
    pub fn total_packets(&self) -> u64 {
        u64::from(self.bursts) * u64::from(self.packets)
    }

    /// UDP payload of the whole train, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.total_packets() * u64::from(self.payload_bytes)
    }

    /// Duration of all pauses together.
    pub fn pauses(&self) -> Duration {
        self.gap * (self.bursts - 1)
    }
}

/// Collects the packets of one train into the observations that Choreo's estimate needs.
#[derive(Clone, Debug)]
pub struct Arrivals {
    shape: Shape,
    bursts: Vec<Tally>,
    seen: Vec<u64>,
    received: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    received: u32,
    first_seq: u32,
    last_seq: u32,
    first_ns: u64,
    last_ns: u64,
}

impl Arrivals {
    /// Creates an empty record for a train of this shape.
    pub fn new(shape: Shape) -> Self {
        let words = shape.total_packets().div_ceil(64) as usize;
        Self {
            shape,
            bursts: vec![Tally::default(); shape.bursts as usize],
            seen: vec![0; words],
            received: 0,
        }
    }

    /// Records one packet with the kernel's receive timestamp in nanoseconds. Returns false and changes nothing for a
    /// duplicate or a packet outside the train.
    pub fn record(&mut self, burst: u32, seq: u32, stamp_ns: u64) -> bool {
        if burst >= self.shape.bursts || seq >= self.shape.packets {
            return false;
        }
        let index = u64::from(burst) * u64::from(self.shape.packets) + u64::from(seq);
        let (word, bit) = ((index / 64) as usize, 1u64 << (index % 64));
        if self.seen[word] & bit != 0 {
            return false;
        }
        self.seen[word] |= bit;
        self.received += 1;
        let tally = &mut self.bursts[burst as usize];
        if tally.received == 0 {
            *tally = Tally {
                received: 1,
                first_seq: seq,
                last_seq: seq,
                first_ns: stamp_ns,
                last_ns: stamp_ns,
            };
        } else {
            tally.received += 1;
            tally.first_seq = tally.first_seq.min(seq);
            tally.last_seq = tally.last_seq.max(seq);
            tally.first_ns = tally.first_ns.min(stamp_ns);
            tally.last_ns = tally.last_ns.max(stamp_ns);
        }
        true
    }

    /// Number of packets that arrived, each counted once.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether every packet of the train has arrived.
    pub fn is_complete(&self) -> bool {
        self.received == self.shape.total_packets()
    }

    /// Time from the first to the last packet of the whole train, in seconds; 0 if fewer than two arrived.
    pub fn span_s(&self) -> f64 {
        let came = || self.bursts.iter().filter(|tally| tally.received > 0);
        let first = came().map(|tally| tally.first_ns).min().unwrap_or(0);
        let last = came().map(|tally| tally.last_ns).max().unwrap_or(0);
        seconds(last - first)
    }

    /// The observations of each burst, in the order in which they were sent.
    pub fn bursts(&self) -> Vec<BurstArrivals> {
        let burst = |tally: &Tally| BurstArrivals {
            received: tally.received,
            first_seq: tally.first_seq,
            last_seq: tally.last_seq,
            span_s: seconds(tally.last_ns - tally.first_ns),
        };
        self.bursts.iter().map(burst).collect()
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(bursts: u32, packets: u32) -> Shape {
        Shape::new(bursts, packets, 1472, 0.001).unwrap()
    }

    #[test]
    fn shapes_out_of_range_are_named() {
        assert_eq!(Shape::new(0, 200, 1472, 0.001), Err(ShapeError::Bursts(0)));
        assert_eq!(Shape::new(10, 1, 1472, 0.001), Err(ShapeError::Packets(1)));
        assert_eq!(
            Shape::new(1000, 20_000, 1472, 0.001),
            Err(ShapeError::Train(20_000_000))
        );
        assert_eq!(Shape::new(10, 200, 43, 0.001), Err(ShapeError::Payload(43)));
        assert_eq!(Shape::new(10, 200, 1472, -1.0), Err(ShapeError::Gap(-1.0)));
        assert_eq!(Shape::new(1000, 2, 1472, 1.0), Err(ShapeError::Gap(1.0)));
        assert!(Shape::new(10, 200, 1472, f64::NAN).is_err());
        assert!(Shape::new(10, 200, 1472, f64::INFINITY).is_err());
    }

    #[test]
    fn a_shape_knows_its_totals() {
        let train = shape(10, 200);
        assert_eq!((train.total_packets(), train.total_bytes()), (2000, 2_944_000));
        assert_eq!(train.pauses(), Duration::from_millis(9));
    }

    #[test]
    fn duplicates_and_strangers_change_nothing() {
        let mut arrivals = Arrivals::new(shape(1, 3));
        assert!(arrivals.record(0, 1, 100));
        assert!(!arrivals.record(0, 1, 900));
        assert!(!arrivals.record(1, 0, 100));
        assert!(!arrivals.record(0, 3, 100));
        assert_eq!(arrivals.received(), 1);
        assert!(!arrivals.is_complete());
        assert!(arrivals.bursts()[0].span_s.abs() < f64::EPSILON);
    }

    proptest! {
        #[test]
        fn the_record_does_not_depend_on_the_order(
            order in Just((0u32..100).collect::<Vec<_>>()).prop_shuffle(), keep in 2usize..100,
        ) {
            let kept = &order[..keep];
            let stamp = |seq: u32| 1_000 + u64::from(seq) * 7;
            let mut shuffled = Arrivals::new(shape(2, 100));
            for seq in kept {
                shuffled.record(1, *seq, stamp(*seq));
            }
            let (low, high) = (*kept.iter().min().unwrap(), *kept.iter().max().unwrap());
            let burst = shuffled.bursts()[1];
            prop_assert_eq!((burst.received as usize, burst.first_seq, burst.last_seq), (keep, low, high));
            prop_assert!((burst.span_s - f64::from(high - low) * 7e-9).abs() < 1e-15);
            prop_assert!((shuffled.span_s() - burst.span_s).abs() < 1e-15);
            prop_assert_eq!(shuffled.bursts()[0], BurstArrivals::default());
        }

        #[test]
        fn any_packet_is_safe(packets in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u64>()), 0..100)) {
            let mut arrivals = Arrivals::new(shape(3, 70));
            for (burst, seq, stamp) in packets {
                arrivals.record(burst % 5, seq % 100, stamp);
            }
            prop_assert!(arrivals.received() <= 210);
            prop_assert!(arrivals.span_s() >= 0.0);
        }
    }
}
