//! The agent's service for controllers.

pub mod doors;
mod forwarding;
pub mod host;
mod letters;
pub mod lifeline;
pub mod serve;
pub mod service;
pub mod socket;
pub mod watching;
