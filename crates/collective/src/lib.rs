//! Trees along which collective operations run fast on a network of unequal pairs.
//!
//! In go [`Costs`], the alpha-beta model of each directed pair, and a [`TreeOperation`], what goes from the root to whom. A
//! [`Tree`] says who sends to whom in which order, [`time`] how long that takes, and the functions that make trees are
//! the binomial tree by rank ([`binomial`]), Fastest-Node-First ([`fnf`]), earliest completion first ([`ecef`]) and a
//! local search over trees and numbers of segments ([`search`]).
//!
//! Where everybody needs what everybody has, a [`Ring`] may be faster: [`search_ring`] looks for one, [`ring_time`] times it.
//! Apart from both, [`exchange`] maps tasks to hosts.
//!
//! A reduction or a gather is the broadcast or scatter on the transposed costs, read backwards; it takes as long.
//!
//! Units: seconds and bytes. Nothing here reads a clock or a file, and the same input and seed give the same tree.

mod costs;
mod error;
mod exchange;
mod greedy;
mod operation;
mod priced;
mod ranks;
mod ring;
mod ring_search;
mod script;
mod search;
mod shape;
mod shared;
mod time;
mod tree;

pub use costs::Costs;
pub use error::TreeError;
pub use exchange::{Message, exchange};
pub use greedy::{Eager, binomial, ecef, fnf};
pub use operation::TreeOperation;
pub use ranks::Ranks;
pub use ring::{Ring, RingOperation, ring_time};
pub use ring_search::{FoundRing, search_ring};
pub use search::{Found, search};
pub use time::{begun, time};
pub use tree::Tree;
