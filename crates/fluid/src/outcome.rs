//! The results of a simulation.

use gavotte_net::BitsPerSec;

use crate::platform::LinkId;

/// The use of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkUse {
    /// The link's number.
    pub link: LinkId,
    /// The link's rate.
    pub rate: BitsPerSec,
    /// Bytes of all flows and of the background that crossed the link.
    pub bytes: f64,
    /// How long it limited flows: it was full, and they would have been faster without it.
    pub busy_s: f64,
}

/// When flows started and finished, and how much links carried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By flow: the time when it was due to start and the flows before it were done, without latency. NaN = never.
    pub start_s: Vec<f64>,
    /// By flow: the time when its last byte was sent. NaN = not before the end.
    pub finish_s: Vec<f64>,
    /// By flow: the link that limited it when it finished; `None` if no link did, or its own cap.
    pub holder: Vec<Option<LinkId>>,
    /// The limited links that carried any bytes, in ascending order.
    pub links: Vec<LinkUse>,
    /// When the last flow finished, or the requested end.
    pub end_s: f64,
    /// Starts and ends of flows, background included.
    pub events: u64,
}

impl Outcome {
    /// The mean used share of a link's rate, from time 0 to the end.
    pub fn utilisation(&self, link: &LinkUse) -> f64 {
        if self.end_s > 0.0 {
            link.bytes / (link.rate.bytes_per_s() * self.end_s)
        } else {
            0.0
        }
    }
}
