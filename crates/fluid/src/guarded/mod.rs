//! Flows of hosts with bandwidth guarantees, step by step: TCP windows, queues that mark and drop, and the agents.
//!
//! [`crate::simulate`] shares links by definition. Here rates result from the mechanism: each pair of hosts sends
//! through a limiter, and the code of `gavotte-limiter` adjusts it every 15 ms by the receiver's counts, as agents do
//! on real hosts.

mod hosts;
mod pair;
mod port;
mod protection;
mod run;
mod transport;
mod uses;

pub use hosts::{Hose, Tenant};
pub use port::Queues;
pub use protection::{Guarding, Method, Protection};
pub use run::simulate_guarded;
pub use uses::{Guarded, PairUse};
