//! Flows of hosts with bandwidth guarantees, step by step: TCP windows, queues that mark and drop, and the agents.
//!
//! Where [`crate::simulate`] shares links by definition, here rates come about: each pair of hosts sends through a limiter
//! that the code of `gavotte-limiter` moves every 15 ms by what the receiver counted, as agents do on real hosts.

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
