//! Records a train while its packets arrive.

use std::time::Duration;

use super::record::{Arrival, Limit, Train};
use super::wire::Data;

/// Header bytes around a UDP payload as a shaper counts them, for IPv4: 8 of UDP, 20 of IP, 14 of Ethernet.
pub const HEADERS_V4_BYTES: u32 = 42;
/// The same for IPv6.
pub const HEADERS_V6_BYTES: u32 = 62;

/// The record of one train. Its memory is bounded by the number of packets of the train.
#[derive(Clone, Debug)]
pub struct Recorder {
    train: Train,
    seen: Vec<u64>,
    most: u32,
    highest: u64,
}

impl Recorder {
    /// The same record for a path whose round trips differed by `jitter`.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration) -> Self {
        self.train.jitter_ns = i64::try_from(jitter.as_nanos()).unwrap_or(0);
        self
    }

    /// An empty record of a train of at most `most` packets.
    pub fn new(payload_bytes: u32, wire_bytes: u32, most: u32) -> Self {
        Self {
            train: Train {
                wire_bytes,
                payload_bytes,
                ..Train::default()
            },
            seen: vec![0; (most as usize).div_ceil(64)],
            most,
            highest: 0,
        }
    }

    /// Records one packet with the kernel's receive timestamp and the number of packets that the socket has dropped
    /// since the train began. Returns false and changes nothing for a duplicate or a packet outside the train.
    pub fn take(&mut self, data: &Data, received_ns: u64, overflow: u32) -> bool {
        // A batch has at least one packet, so its number never exceeds the packet's number.
        if data.seq >= self.most || data.batch > data.seq {
            return false;
        }
        let (word, bit) = ((data.seq / 64) as usize, 1u64 << (data.seq % 64));
        if self.seen[word] & bit != 0 {
            return false;
        }
        self.seen[word] |= bit;
        self.highest = self.highest.max(u64::from(data.seq) + 1);
        if let Some(before) = data.batch.checked_sub(1) {
            self.ended(before, data.ended_ns);
        }
        let arrival = Arrival {
            seq: data.seq,
            batch: data.batch,
            sent_ns: nanoseconds(data.sent_ns),
            received_ns: nanoseconds(received_ns),
            overflow,
        };
        // Timestamps of different cores may be out of order by some microseconds.
        let at = self
            .train
            .arrivals
            .iter()
            .rposition(|other| other.received_ns <= arrival.received_ns)
            .map_or(0, |before| before + 1);
        self.train.arrivals.insert(at, arrival);
        true
    }

    /// Records the time at which a batch had been handed to the kernel.
    pub fn ended(&mut self, batch: u32, ended_ns: u64) {
        if batch < self.most {
            self.train.batch_ends_ns.insert(batch, nanoseconds(ended_ns));
        }
    }

    /// The train so far. Packets after the last arrival count as not sent, since they may still be on their way.
    pub fn train(&mut self, limit: Limit) -> &Train {
        self.train.sent = self.highest;
        self.train.limit = limit;
        &self.train
    }

    /// The whole train.
    pub fn into_train(mut self, limit: Limit) -> Train {
        self.train(limit);
        self.train
    }

    /// Number of packets that arrived, each counted once.
    pub fn received(&self) -> u64 {
        self.train.arrivals.len() as u64
    }
}

/// Limits timestamps, so that their differences cannot overflow. A limit of 36 years after 1970 or a boot would be
/// enough; this one is 146.
fn nanoseconds(stamp: u64) -> i64 {
    stamp.min(i64::MAX as u64 / 2) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(seq: u32, batch: u32) -> Data {
        Data {
            seq,
            batch,
            sent_ns: 10,
            ended_ns: 20 + u64::from(batch),
            ..Data::default()
        }
    }

    #[test]
    fn arrivals_are_kept_in_the_order_of_their_stamps() {
        let mut recorder = Recorder::new(1472, 1514, 100);
        for (seq, stamp) in [(0, 5), (2, 9), (1, 7), (3, 9)] {
            assert!(recorder.take(&data(seq, seq / 2), stamp, 0));
        }
        let train = recorder.train(Limit::Enough);
        let order: Vec<u32> = train.arrivals.iter().map(|a| a.seq).collect();
        assert_eq!(order, [0, 1, 2, 3]);
        assert_eq!(train.batch_ends_ns, [(0, 21)].into());
        assert_eq!(train.sent, 4);
    }

    #[test]
    fn duplicates_and_strangers_change_nothing() {
        let mut recorder = Recorder::new(1472, 1514, 10);
        assert!(recorder.take(&data(1, 0), 5, 0));
        assert!(!recorder.take(&data(1, 0), 6, 0));
        assert!(!recorder.take(&data(10, 0), 6, 0));
        assert!(!recorder.take(&data(3, 4), 6, 0));
        recorder.ended(u32::MAX, 9);
        assert_eq!(recorder.received(), 1);
        assert_eq!(recorder.train(Limit::Time).batch_ends_ns.len(), 0);
    }

    #[test]
    fn a_number_in_a_packet_asks_for_no_memory() {
        let mut recorder = Recorder::new(60, 102, 33_000_000);
        assert!(recorder.take(&data(32_999_999, 32_999_999), 5, 0));
        assert_eq!(recorder.train(Limit::Enough).batch_ends_ns.len(), 1);
    }

    #[test]
    fn wild_stamps_are_tamed() {
        let mut recorder = Recorder::new(1472, 1514, 10);
        let wild = Data {
            sent_ns: u64::MAX,
            ended_ns: u64::MAX,
            seq: 1,
            batch: 1,
            ..Data::default()
        };
        assert!(recorder.take(&wild, u64::MAX, 0));
        let arrival = recorder.train(Limit::Time).arrivals[0];
        assert!(arrival.received_ns.checked_sub(-arrival.sent_ns).is_some());
    }
}
