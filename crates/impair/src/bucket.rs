//! A token bucket: a shaper if packets may wait for tokens, a policer if they may not.

use crate::time::Nanos;

const BITS_TIMES_NANOS: f64 = 8e9;

/// Rate, depth and queue of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketShape {
    /// Rate at which tokens arrive, in bit/s. A packet costs its whole frame with the Ethernet header, as in a shaper.
    pub rate_bps: f64,
    /// Depth in bytes: the bytes that pass at once after a long pause.
    pub burst_bytes: u64,
    /// Bytes that may wait for tokens. With 0 the bucket is a policer: it drops each packet that finds too few tokens.
    pub queue_bytes: u64,
}

/// A token bucket. It starts full.
///
/// Its whole state is one number: the time until the bucket is full again, including the packets that wait for tokens.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    shape: BucketShape,
    debt_ns: f64,
    updated: Nanos,
}

impl Bucket {
    pub(crate) fn new(shape: BucketShape) -> Self {
        Self {
            shape,
            debt_ns: 0.0,
            updated: Nanos::ZERO,
        }
    }

    /// Charges a packet that arrives at `now`.
    ///
    /// Returns how long the packet waits for its tokens. Returns `None` if the queue is full; the packet then costs no
    /// tokens. A packet larger than the whole bucket passes a full bucket.
    pub(crate) fn charge(&mut self, now: Nanos, bytes: usize) -> Option<Nanos> {
        self.debt_ns = (self.debt_ns - now.saturating_sub(self.updated).as_f64()).max(0.0);
        self.updated = self.updated.max(now);
        let cost_ns = self.time_of(bytes as f64);
        let depth_ns = self.time_of(self.shape.burst_bytes as f64).max(cost_ns);
        let wait_ns = self.debt_ns + cost_ns - depth_ns;
        if wait_ns > self.time_of(self.shape.queue_bytes as f64) {
            return None;
        }
        self.debt_ns += cost_ns;
        Some(Nanos::from_f64(wait_ns))
    }

    fn time_of(&self, bytes: f64) -> f64 {
        bytes * BITS_TIMES_NANOS / self.shape.rate_bps
    }
}
