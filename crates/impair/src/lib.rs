//! Links with latency, jitter, loss and policers, between two interfaces of a lab.
//!
//! The core has no sockets and reads no clock. A [`Lane`] is one direction of a link for one class of packets. An
//! [`Element`] holds all lanes and knows which packet leaves next. [`Server`] moves frames between the interfaces of
//! one network namespace and the element, following a [`Plan`].
//!
//! ```
//! use gavotte_impair::{Element, Nanos, Profile};
//!
//! let mut element = Element::new(1 << 20);
//! let lane = element.add(Profile { latency: Nanos(2_000_000), ..Profile::default() });
//! element.offer(lane, Nanos(500), 1514, "a packet");
//! assert_eq!(element.next(), Some(Nanos(2_000_500)));
//! assert_eq!(element.take(Nanos(2_000_499)), None);
//! assert_eq!(element.take(Nanos(2_000_500)), Some("a packet"));
//! ```

mod bucket;
mod element;
mod jitter;
mod lane;
mod plan;
mod serve;
mod time;

pub use bucket::BucketShape;
pub use element::{Counts, Element, LaneId};
pub use lane::{Fate, Lane, Profile};
pub use plan::{BucketPlan, LanePlan, Match, Plan, Wire};
pub use serve::{Faults, Server};
pub use time::Nanos;
