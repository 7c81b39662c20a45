//! Decides how data moves among hosts, as pure code: no sockets, no clocks, and randomness only from a seed.
//!
//! [`Fabric`] lists the limited links between two ports. [`shuffle`] computes rates for the flows of one transfer such
//! that all flows end together, as early as any schedule could end them. [`orders`] decides how concurrent transfers
//! share the links. [`simulate`] runs a [`Trace`] of transfers under such a policy.
//!
//! [`broadcast`] makes all decisions of agents and controller while one object goes to many hosts.
//!
//! Units: bit/s, bytes and seconds.

pub mod broadcast;
mod fabric;
pub mod orders;
pub mod shuffle;
mod simulate;
mod trace;

pub use fabric::{Fabric, Path};
pub use simulate::{Admission, Outcome, simulate};
pub use trace::{Listed, Trace, TraceError};
