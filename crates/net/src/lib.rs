//! The network model of the other crates: hosts, the links between them, and which links traffic loads.
//!
//! The input is [`NetworkParts`]: hosts with their caps, the rate and latency of each ordered pair of hosts, groups
//! behind shared links, and a [`Sharing`] model. With many hosts, [`SparseParts`] replace the matrices. The result is a [`Network`], checked once. It lists the [`Link`]s
//! between two hosts and their rates. [`max_min`] shares links fairly among weighted flows.
//!
//! [`Seconds`], [`Bytes`], [`Volume`] and [`Bandwidth`] are parameters of all crates. Hosts and groups are identified by
//! their index; names serve only in messages. An unknown rate or latency stays different from an unlimited one.

mod error;
mod fill;
mod links;
mod network;
mod sparse;
mod units;

pub use error::{InputError, NetworkError, check_index, check_length, check_value};
pub use fill::{Held, max_min};
pub use links::Link;
pub use network::{Bucket, Group, Host, Network, NetworkParts, Sharing};
pub use sparse::{Exception, SparseParts};
pub use units::{Bandwidth, BitsPerSec, Bytes, Seconds, Volume};
