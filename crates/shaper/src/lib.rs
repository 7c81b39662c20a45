//! The data path of bandwidth guarantees on one host.
//!
//! 1. Outgoing packets wait in a class of their pair, below a class of the host (HTB, changed by rtnetlink). Packets
//!    that leave the interface in no pair, whatever their addresses are, share a class.
//! 2. A BPF classifier finds the class of each packet, and counts and numbers packets per pair.
//! 3. At the receiver another classifier finds gaps in the numbers and marks, and runs a phantom queue.
//!
//! Other programs may replace what was built. The kernel announces their changes, and [`Shaper::repair`] builds again
//! what is missing.
//!
//! This crate has mechanisms only; other crates decide rates.
//!
//! Packets get their numbers before they wait in their class, since no later hook exists on the host. A full class must
//! not leave a gap in the numbers. The classifier therefore estimates the queue and drops packets before it numbers
//! them. Every gap is thus a loss in the network.

mod before;
mod behind;
mod claim;
mod counts;
mod device;
mod error;
mod freeze;
mod intact;
mod loaded;
mod packet;
mod pairs;
mod peer;
mod port;
mod programs;
mod queues;
mod sizes;
mod tc;

pub use behind::namespace_behind;
pub use claim::sweep;
pub use counts::{Received, Sent};
pub use device::{Setup, Shaper, UNSHAPED};
pub use error::ShaperError;
pub use freeze::freeze;
pub use loaded::{MAX_PAIRS, try_programs};
pub use pairs::PairRate;
pub use port::Port;
pub use programs::CONTROL as UNNUMBERED;
pub use sizes::UNLIMITED_BPS;
pub use tc::ClassCounts;
