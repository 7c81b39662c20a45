//! How long queues, buckets and bursts are.

use crate::tc::Rates;

/// What stands for no limit: more than any interface carries.
pub const UNLIMITED_BPS: u64 = 400_000_000_000;

/// Segments of the largest packet that is handed down whole: of 64 kB, HTB would send as many at once, and a queue of
/// 30 ms at 10 Mbit/s holds less.
pub(crate) const GSO_SEGMENTS: u32 = 4;
const PACKET_BYTES: u32 = 1514;
/// Depth of a class's bucket, as time at its rate: what a timer may be late.
const BURST_S: f64 = 0.001;
/// Length of a class's queue, as time at its rate.
const LEAF_S: f64 = 0.03;
const LEAST_LEAF_BYTES: u32 = 8 * PACKET_BYTES;
/// A class is reckoned to be a little slower than it is, so that its queue never holds more than the reckoning says.
pub(crate) const RECKONED: f64 = 0.995;

pub(crate) fn rates(rate_bps: f64, ceil_bps: f64) -> Rates {
    let burst = (ceil_bps / 8.0 * BURST_S).max(f64::from(GSO_SEGMENTS * PACKET_BYTES));
    Rates {
        rate_bps: (rate_bps.max(8000.0) as u64).min(UNLIMITED_BPS),
        ceil_bps: (ceil_bps.max(8000.0) as u64).min(UNLIMITED_BPS),
        burst_bytes: burst.min(f64::from(u32::MAX)) as u32,
    }
}

pub(crate) fn quantum(rate_bps: f64) -> u32 {
    // HTB shares what is left among classes by these.
    (rate_bps / 8.0 * 0.01).clamp(f64::from(PACKET_BYTES), 200_000.0) as u32
}

pub(crate) fn leaf_bytes(ceil_bps: f64) -> u32 {
    let bytes = (ceil_bps / 8.0 * LEAF_S).min(16e6) as u32;
    bytes.max(LEAST_LEAF_BYTES)
}
