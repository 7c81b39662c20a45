//! Trees along which collective operations run fast on a network of unequal pairs.
//!
//! The input is [`Costs`], the alpha-beta model of each directed pair, and a [`TreeOperation`], the bytes from the root
//! to each host. A [`Tree`] is the order in which each host sends to others, and [`time`] computes its duration. These
//! functions make trees:
//!
//! * [`binomial`] builds the binomial tree by rank;
//! * [`fnf`] builds Fastest-Node-First's tree;
//! * [`ecef`] builds the tree of earliest completion first;
//! * [`search`] improves trees and numbers of segments by local search.
//!
//! If every host needs the data of every other, a [`Ring`] may be faster: [`search_ring`] searches for one,
//! [`ring_time`] computes its duration. Independently of both, [`exchange`] maps tasks to hosts.
//!
//! For these functions a reduction or a gather is the broadcast or scatter on the transposed costs, in reverse order.
//!
//! [`Ranks`] computes what MPI takes for a tree or ring: it replays the operations of each rank by the model of
//! `gavotte_replay`, in which messages share links, and large ones ask the receiver first.
//!
//! Units: seconds and bytes. Nothing here reads a clock or a file, and the same input and seed give the same tree.

mod costs;
mod error;
mod exchange;
mod greedy;
mod job;
mod operation;
mod paths;
mod priced;
mod ranks;
mod ring;
mod ring_search;
mod script;
mod search;
mod shape;
mod shared;
mod tiers;
mod time;
mod tree;

pub use costs::Costs;
pub use error::TreeError;
pub use exchange::{Message, exchange};
pub use greedy::{Eager, binomial, ecef, fnf};
pub use operation::TreeOperation;
pub use ranks::{LISTED_RANKS, Ranks};
pub use ring::{Ring, RingOperation, ring_time};
pub use ring_search::{FoundRing, search_ring};
pub use search::{Found, search};
pub use time::{begun, time};
pub use tree::Tree;
