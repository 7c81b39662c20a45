//! Places the tasks of an application on the hosts of a network, and computes how good the placement is.
//!
//! The input is a [`Problem`]: tasks with their needs and transfers, hosts with their capacity, and the measured network between them.
//! A [`Policy`] turns it into an [`Assignment`]. [`Problem::evaluate`] returns the [`Completion`] of any assignment. No assignment can
//! beat [`Problem::bound_s`], [`Problem::sets_bound_s`] or [`Problem::flows_bound_s`].
//!
//! * `problem`: tasks, hosts, rules, and the completion-time model.
//! * `packing`: which task is on which host, and what else fits.
//! * `bound`: proven lower bounds.
//! * `policies`: greedy and the baselines.
//! * `cuts`: placements by minimum cuts.
//! * `search`: annealing, its starts, and the loads of links that it watches.
//!
//! Units: bytes, bit/s, seconds and CPU cores. Rates may be infinite, which means unlimited. Hosts, tasks and groups
//! are known by their index in the problem; names serve messages only. Nothing here reads a clock, a file or an
//! environment variable, and the same problem and seed always give the same answer.

mod bound;
mod cuts;
mod error;
mod explain;
mod packing;
mod policies;
mod problem;
mod search;

pub use bound::star_knapsack::{HostOffer, Mates};
pub use cuts::blocks::UnitGraph;
pub use error::{PlaceError, ProblemError, UnknownPolicy};
pub use explain::RunnerUp;
pub use packing::capacity_left::Room;
pub use packing::task_by_task::Partial;
pub use policies::baselines::{MinMachines, Random, RoundRobin};
pub use policies::greedy::Greedy;
pub use policies::policy::Policy;
pub use policies::{policies, policy};
pub use problem::completion::{Bottleneck, Completion, LinkTime};
pub use problem::cores::Cores;
pub use problem::parts::{Capacity, Load, Parts, Task, Transfer};
pub use problem::rules::{MaxHosts, MaxLatency, MaxPrice, NO_ZONE, Quota, Rules};
pub use problem::stores::{Stores, UNLIMITED_BYTES};
pub use problem::units::{Edge, Limit, Units};
pub use problem::{Assignment, Problem};
pub use search::{DEFAULT_STEPS, Found, Search};
