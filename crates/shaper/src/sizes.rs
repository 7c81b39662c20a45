//! The lengths of queues, buckets and bursts.

/// The value for no limit: more than any interface carries.
pub const UNLIMITED_BPS: u64 = 400_000_000_000;

/// Segments of the largest packet that is passed down whole. With packets of 64 kB, HTB would send that much at once,
/// and a queue of 30 ms at 10 Mbit/s holds less.
pub(crate) const GSO_SEGMENTS: u32 = 4;
/// Depth of a class's bucket as a time at its rate: how late a timer may be.
const BURST_S: f64 = 0.001;
/// What a class that has been idle may send at the rate of the interface, so that short flows do not wait. All pairs of
/// a host together may send four times as much so.
pub(crate) const BUCKET_BYTES: u32 = 64 * 1024;
const BUCKETS: u32 = 4;
/// The same for a class that stays: a few short answers or requests of a pair below its guarantee pass at once. With more,
/// a connection that pauses after a loss would send it into a full link.
const LASTING_BUCKET_BYTES: u32 = 16 * 1024;
/// Length of a class's queue, as time at its rate.
const LEAF_S: f64 = 0.03;
const LEAST_LEAF_PACKETS: u32 = 8;
/// The estimate assumes a slightly lower rate than the class has, so that the queue never holds more than estimated.
pub(crate) const ESTIMATED: f64 = 0.995;

/// A class's rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// The rate that is always available to the class, in bit/s.
    pub(crate) rate_bps: u64,
    /// The highest rate of the class, in bit/s.
    pub(crate) ceil_bps: u64,
    /// Depth of the class's buckets.
    pub(crate) burst_bytes: u32,
}

/// The sizes for one interface, by its largest packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// MTU and Ethernet's header.
    packet_bytes: u32,
}

impl Sizes {
    /// Sizes for an interface of this MTU. Loopback's is the largest that counts.
    pub(crate) fn of_mtu(mtu_bytes: u32) -> Self {
        Self {
            packet_bytes: mtu_bytes.clamp(576, 65_536) + 14,
        }
    }

    /// The bucket of each of `pairs` active pairs.
    pub(crate) fn bucket_bytes(self, pairs: u32) -> u32 {
        (BUCKETS * BUCKET_BYTES / pairs.max(1)).clamp(GSO_SEGMENTS * self.packet_bytes, BUCKET_BYTES)
    }

    /// The bucket of each of `pairs` active pairs that has had its first.
    pub(crate) fn lasting_bucket_bytes(self, pairs: u32) -> u32 {
        self.bucket_bytes(pairs)
            .min(LASTING_BUCKET_BYTES.max(GSO_SEGMENTS * self.packet_bytes))
    }

    pub(crate) fn rates(self, rate_bps: f64, ceil_bps: f64, bucket_bytes: u32) -> Rates {
        let least_bytes = bucket_bytes.max(GSO_SEGMENTS * self.packet_bytes);
        let burst = (ceil_bps / 8.0 * BURST_S).max(f64::from(least_bytes));
        Rates {
            rate_bps: (rate_bps.max(8000.0) as u64).min(UNLIMITED_BPS),
            ceil_bps: (ceil_bps.max(8000.0) as u64).min(UNLIMITED_BPS),
            burst_bytes: burst.min(f64::from(u32::MAX)) as u32,
        }
    }

    pub(crate) fn quantum(self, rate_bps: f64) -> u32 {
        // HTB shares what is left among classes by these.
        (rate_bps / 8.0 * 0.01).clamp(f64::from(self.packet_bytes), 200_000.0) as u32
    }

    pub(crate) fn leaf_bytes(self, ceil_bps: f64) -> u32 {
        let bytes = (ceil_bps / 8.0 * LEAF_S).min(16e6) as u32;
        bytes.max(LEAST_LEAF_PACKETS * self.packet_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_classes_hold_whole_packets_of_the_interface() {
        let (usual, jumbo) = (Sizes::of_mtu(1500), Sizes::of_mtu(9000));
        assert_eq!((usual.leaf_bytes(1e4), jumbo.leaf_bytes(1e4)), (8 * 1514, 8 * 9014));
        assert_eq!((usual.quantum(1e4), jumbo.quantum(1e4)), (1514, 9014));
        assert_eq!(
            [usual, jumbo].map(|sizes| sizes.rates(1e4, 1e4, 0).burst_bytes),
            [4 * 1514, 4 * 9014]
        );
    }

    #[test]
    fn fast_classes_are_sized_by_their_rate() {
        let (usual, jumbo) = (Sizes::of_mtu(1500), Sizes::of_mtu(9000));
        assert_eq!(usual.leaf_bytes(1e9), jumbo.leaf_bytes(1e9));
        assert_eq!(
            usual.rates(1e9, 1e9, 0).burst_bytes,
            jumbo.rates(1e9, 1e9, 0).burst_bytes
        );
    }

    #[test]
    fn few_pairs_have_whole_buckets_and_many_share_four() {
        let usual = Sizes::of_mtu(1500);
        assert_eq!([0, 1, 4].map(|pairs| usual.bucket_bytes(pairs)), [BUCKET_BYTES; 3]);
        assert_eq!(usual.bucket_bytes(16), BUCKET_BYTES / 4);
        assert_eq!(usual.bucket_bytes(1000), 4 * 1514);
        assert_eq!(usual.rates(1e6, 1e6, usual.bucket_bytes(1)).burst_bytes, BUCKET_BYTES);
        assert_eq!(
            [1, 100].map(|pairs| usual.lasting_bucket_bytes(pairs)),
            [16 * 1024, 4 * 1514]
        );
    }
}
