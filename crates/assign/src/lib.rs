//! Places the tasks of an application on the hosts of a network, and says how good the placement is.
//!
//! In goes a [`Problem`]: tasks with their needs and transfers, hosts with their capacity, and what the network
//! between them was measured to carry. A [`Policy`] turns it into an [`Assignment`], [`Problem::evaluate`] gives the
//! [`Completion`] of any assignment, and [`Problem::bound_s`],
//! [`Problem::sets_bound_s`] and [`Problem::flows_bound_s`] are times that no assignment can beat.
//!
//! Units: bytes, bit/s, seconds and CPU cores. Rates may be infinite, which means unlimited. Hosts, tasks and groups
//! are known by their index in the problem; names serve messages only. Nothing here reads a clock, a file or an
//! environment variable, and the same problem and seed always give the same answer.

mod anneal;
mod baselines;
mod bound;
mod completion;
mod connected;
mod cores;
mod error;
mod explain;
mod flows;
mod greedy;
mod joined;
mod loads;
mod needs;
mod packing;
mod pairs;
mod partial;
mod parts;
mod policies;
mod policy;
mod polish;
mod problem;
mod room;
mod rules;
mod search;
mod sets;
mod starts;
mod stores;
mod tree;
mod units;
mod validate;

pub use baselines::{MinMachines, Random, RoundRobin};
pub use bound::{HostOffer, Mates};
pub use completion::{Bottleneck, Completion, LinkTime};
pub use cores::Cores;
pub use error::{PlaceError, ProblemError, UnknownPolicy};
pub use explain::RunnerUp;
pub use greedy::Greedy;
pub use partial::Partial;
pub use parts::{Capacity, Load, Parts, Task, Transfer};
pub use policies::{policies, policy};
pub use policy::Policy;
pub use problem::{Assignment, Problem};
pub use room::Room;
pub use rules::{MaxHosts, MaxLatency, MaxPrice, Quota, Rules};
pub use search::{DEFAULT_STEPS, Found, Search};
pub use stores::{Stores, UNLIMITED_BYTES};
pub use units::{Edge, Units};
