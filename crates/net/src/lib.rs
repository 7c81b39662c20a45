//! The network that the other crates reckon with: hosts, what joins them, and which links traffic loads.
//!
//! In go [`NetworkParts`]: hosts with their caps, the rate and latency of each ordered pair of hosts, groups behind
//! shared links, and a [`Sharing`] model. Out comes a [`Network`], checked once, that says which [`Link`]s lie between
//! two hosts and how fast each is. [`max_min`] shares links fairly among weighted flows.
//!
//! Units: bit/s and seconds. Hosts and groups are known by their index; names serve messages only. An unknown rate or
//! latency stays distinguishable from an unlimited one, whatever a reader makes of it.

mod error;
mod fill;
mod links;
mod network;
mod units;

pub use error::{InputError, NetworkError, check_index, check_length, check_value};
pub use fill::{Held, max_min};
pub use links::Link;
pub use network::{Group, Host, Network, NetworkParts, Sharing};
pub use units::BitsPerSec;
