//! The data path of bandwidth guarantees on one host.
//!
//! What leaves the host waits in a class of its pair below a class of the host (HTB, changed by rtnetlink); BPF
//! classifiers find the class of each packet, count and number packets per pair, find gaps in the numbers and marks where they arrive, and
//! run a phantom queue there. What decides about rates is elsewhere: here are only mechanisms.
//!
//! Numbers go into packets before they wait in their class, since nothing of the host's own lies behind it. So that a full
//! class leaves no gap in them, the classifier reckons what waits and drops before it numbers: every gap is the network's.

mod behind;
mod claim;
mod device;
mod error;
mod freeze;
mod loaded;
mod port;
mod programs;
mod sizes;
mod tc;

pub use behind::namespace_behind;
pub use claim::sweep;
pub use device::{PairRate, Received, Sent, Setup, Shaper, UNSHAPED};
pub use error::ShaperError;
pub use freeze::freeze;
pub use loaded::MAX_PAIRS;
pub use port::Port;
pub use programs::CONTROL as UNNUMBERED;
pub use sizes::UNLIMITED_BPS;
pub use tc::ClassCounts;
