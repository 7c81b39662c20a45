//! The data path of bandwidth guarantees on one host.
//!
//! What leaves the host waits in a class of its pair below a class of the host (HTB, changed by rtnetlink); BPF
//! classifiers find the class of each packet, count and number packets per pair, find gaps in the numbers and marks where they arrive, and
//! run a phantom queue there. What decides about rates is elsewhere: here are only mechanisms.
//!
//! Numbers go into packets before they wait in their class, since nothing of the host's own lies behind it. So that a full
//! class leaves no gap in them, the classifier reckons what waits and drops before it numbers: every gap is the network's.

mod device;
mod error;
mod programs;
mod tc;

pub use device::{
    MAX_PAIRS, PairRate, Port, Received, Sent, Setup, Shaper, UNLIMITED_BPS, UNNUMBERED, UNSHAPED, sweep,
};
pub use error::ShaperError;
pub use tc::ClassCounts;
