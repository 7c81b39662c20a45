//! The agent: a daemon on each host of an inventory. It measures the paths to its peers and sends them bytes when a
//! controller asks for it.
//!
//! The modules form five floors; each imports only from floors before it:
//!
//! 1. [`error`], [`contract`] and [`log`];
//! 2. [`hold`]: what a run may do on this host;
//! 3. [`plane`]: authenticated connections between agents, and [`guarantee`]: bandwidth guarantees of this host;
//! 4. [`work`]: the probes and transfers that use the plane;
//! 5. [`control`]: the service for controllers.
//!
//! The crate `gavotte-probe` defines and evaluates packet trains.

pub mod contract;
pub mod control;
pub mod error;
pub mod guarantee;
pub mod hold;
pub mod log;
pub mod plane;
pub mod work;
