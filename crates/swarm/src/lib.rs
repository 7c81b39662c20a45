//! Moves data among hosts, as pure code: no sockets, no clocks, and no randomness but by a seed.
//!
//! [`Fabric`] says which limited links lie between two ports. [`shuffle`] gives the flows of one transfer rates at which
//! all end together, as early as any schedule could end them. [`orders`] says which of several transfers goes first, and
//! [`simulate`] what that does to a [`Trace`] of them.
//!
//! [`broadcast`] has all that agents and controller decide while one object goes to many hosts.
//!
//! Units: bit/s, bytes and seconds.

pub mod broadcast;
mod fabric;
pub mod orders;
pub mod shuffle;
mod simulate;
mod trace;

pub use fabric::{Fabric, Path};
pub use simulate::{Outcome, simulate};
pub use trace::{Listed, Trace, TraceError};
