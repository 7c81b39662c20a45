//! Bandwidth guarantees between hosts (`ElasticSwitch`, SIGCOMM 2013): the guaranteed rate of each pair, and the pairs
//! that may exceed it.
//!
//! Each host has a *hose guarantee*: a minimum rate to all others together, and one from all others together.
//!
//! - A [`Partitioner`] runs at each end of every hose. It divides the hose guarantee among the active pairs
//!   ([`Partitioner::partition`]) and exchanges [`Offer`]s with the other ends. The guarantee of a pair is the lower of
//!   the shares of its two ends.
//! - An [`Arrivals`] runs at each receiving host and reports lost and marked packets of its pairs. A [`Delay`] for each
//!   pair measures how long its packets wait, which shows congestion if no queue marks. A [`Common`]
//!   holds what packets of all pairs of a host have waited at least.
//! - An [`Allocator`] runs at the sending end of each pair. It computes the pair's limit from the reports: never less
//!   than its guarantee, and more while no link is congested.
//! - [`Reports`] says when a host reports on its pairs with another one.
//! - [`divide`] divides the guarantee of a tenant among its hosts.
//!
//! [`Parameters`] holds every constant with its origin. No code here opens a socket, reads a clock or draws a random
//! number. The agent, the simulator and the tests run the same code and pass the time as an argument.
//!
//! Units: bit/s, bytes and seconds. Rates are those that the limiter counts, on the wire.
//!
//! ```
//! use gavotte_limiter::{Allocator, Arrivals, End, Parameters, Partitioner};
//! use gavotte_net::{Bandwidth, Bytes, Seconds};
//!
//! let parameters = Parameters::default();
//! // Host X sends to Y and Z with a hose of 450 Mbit/s; Y has one of 300 Mbit/s.
//! let mut x = Partitioner::new(End::Source, Bandwidth(450e6), &parameters.partition);
//! let mut y = Partitioner::new(End::Target, Bandwidth(300e6), &parameters.partition);
//! for round in 1..=20 {
//!     let now = Seconds(f64::from(round) * parameters.partition.period_s);
//!     // Both ends count bytes; the source knows its limiters, too. Here both pairs use all that they may.
//!     x.observe("y", Bytes(2_000_000), Bandwidth(300e6));
//!     x.observe("z", Bytes(2_000_000), Bandwidth(300e6));
//!     y.observe("x", Bytes(2_000_000), Bandwidth::UNLIMITED);
//!     let at_y = y.partition(now)[0];
//!     for share in x.partition(now) {
//!         if share.peer == "y" {
//!             x.hear("y", now, at_y.offer());
//!             y.hear("x", now, share.offer());
//!         }
//!     }
//! }
//! let shares = x.partition(Seconds(1.05));
//! assert_eq!(shares.iter().map(|share| share.guarantee_bps).sum::<f64>().round(), 450e6);
//! ```

mod allocate;
mod arrivals;
mod delay;
mod fill;
mod parameters;
mod partition;
mod reports;
mod tenant;

pub use allocate::{Allocator, Feedback, Held};
pub use arrivals::{Arrivals, Counts};
pub use delay::{Common, Delay};
pub use parameters::{Allocation, Parameters, Partition};
pub use partition::{End, Offer, Partitioner, Share};
pub use reports::{Reports, Unreported};
pub use tenant::{Need, divide};
