//! The agent's service for controllers.

pub mod doors;
pub mod host;
pub mod lifeline;
pub mod serve;
pub mod service;
pub mod socket;
pub mod watching;
