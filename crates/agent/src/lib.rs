//! The agent: one daemon on each host of an inventory, which measures the paths to its peers and moves bytes to
//! them when a controller asks.
//!
//! Five floors, each of which imports only from those before it: [`error`], [`contract`] and [`log`]; [`hold`], what a run may do
//! here; [`plane`], authenticated connections between agents, and [`guarantee`], bandwidth that is kept for the host; [`work`], what
//! is done over the plane; [`control`], the controller's side. What trains look like and how they are judged is in `gavotte-probe`.

pub mod contract;
pub mod control;
pub mod error;
pub mod guarantee;
pub mod hold;
pub mod log;
pub mod plane;
pub mod work;
