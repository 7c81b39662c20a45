//! What a simulation tells.

use gavotte_net::BitsPerSec;

use crate::platform::LinkId;

/// What a link carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkUse {
    /// The link.
    pub link: LinkId,
    /// Its rate.
    pub rate: BitsPerSec,
    /// Bytes that crossed it, of all flows and the background.
    pub bytes: f64,
    /// For how long it held flows back: it was full, and they would have been faster without it.
    pub busy_s: f64,
}

/// When flows started and finished, and what links carried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By flow: when it was due to start, latency not counted, and the flows before it were done. NaN = never.
    pub start_s: Vec<f64>,
    /// By flow: when its last byte was sent. NaN = not before the end.
    pub finish_s: Vec<f64>,
    /// By flow: the link that held it back when it finished; `None` if no link did, or its own cap.
    pub holder: Vec<Option<LinkId>>,
    /// The limited links that anything crossed, in ascending order.
    pub links: Vec<LinkUse>,
    /// When the last flow finished, or the end that was asked for.
    pub end_s: f64,
    /// Starts and ends of flows, background included.
    pub events: u64,
}

impl Outcome {
    /// The mean share of a link's rate that was used from time 0 to the end.
    pub fn utilisation(&self, link: &LinkUse) -> f64 {
        if self.end_s > 0.0 {
            link.bytes / (link.rate.bytes_per_s() * self.end_s)
        } else {
            0.0
        }
    }
}
