//! The plan of an element, as JSON: its wires, each with the lanes of both directions.

use serde::Deserialize;

use crate::bucket::BucketShape;
use crate::lane::Profile;
use crate::time::Nanos;

/// The plan of one element.
#[derive(Clone, Debug, Deserialize)]
pub struct Plan {
    /// The wires.
    pub wires: Vec<Wire>,
    /// Largest frame that can arrive, in bytes.
    pub largest_bytes: usize,
}

/// Two interfaces of the element's network namespace. Frames that one of them receives leave by the other.
#[derive(Clone, Debug, Deserialize)]
pub struct Wire {
    /// Index numbers of the two interfaces.
    pub ends: [u32; 2],
    /// The lanes from the first interface to the second, and from the second to the first.
    pub ways: [Vec<LanePlan>; 2],
}

/// Frames of one direction that share a lane.
#[derive(Clone, Debug, Deserialize)]
pub struct LanePlan {
    /// Ethernet address that selects frames; `null` = any. A frame takes the first lane that matches; a frame without a
    /// match passes at once.
    pub address: Option<Match>,
    /// Delay of each frame, in seconds.
    pub latency_s: f64,
    /// Largest random addition to the delay, in seconds.
    pub jitter_s: f64,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// Token bucket, if any.
    pub bucket: Option<BucketPlan>,
    /// Seed of losses and jitter.
    pub seed: u64,
}

/// An Ethernet address in one of the two address fields of a frame.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// The sender's address.
    Source([u8; 6]),
    /// The receiver's address.
    Target([u8; 6]),
}

/// A token bucket.
#[derive(Clone, Debug, Deserialize)]
pub struct BucketPlan {
    /// Rate in bit/s.
    pub rate_bps: f64,
    /// Depth in bytes.
    pub burst_bytes: u64,
    /// Bytes that may wait; 0 = a policer.
    pub queue_bytes: u64,
}

impl Match {
    /// Whether a frame, from its Ethernet header on, has the address.
    pub(crate) fn fits(&self, frame: &[u8]) -> bool {
        let (place, address) = match self {
            Self::Target(address) => (0..6, address),
            Self::Source(address) => (6..12, address),
        };
        frame.get(place) == Some(address.as_slice())
    }
}

impl LanePlan {
    pub(crate) fn profile(&self) -> Profile {
        Profile {
            latency: Nanos::from_seconds(self.latency_s),
            jitter: Nanos::from_seconds(self.jitter_s),
            loss: self.loss,
            bucket: self.bucket.as_ref().map(|bucket| BucketShape {
                rate_bps: bucket.rate_bps,
                burst_bytes: bucket.burst_bytes,
                queue_bytes: bucket.queue_bytes,
            }),
            seed: self.seed,
        }
    }
}
