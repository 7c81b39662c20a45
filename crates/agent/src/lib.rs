//! The agent: one daemon on each host of an inventory, which measures the paths to its peers and moves bytes to
//! them when a controller asks.
//!
//! Requests come in over gRPC ([`doors`], [`service`]); schedules and replays run against the enrolled peers
//! of one [`session`]; bytes pass over the data plane, whose door is [`listener`] and whose language is [`handshake`].
//! What trains look like and how they are judged is in `gavotte-probe`.

pub mod budget;
pub mod bulk;
pub mod contract;
pub mod cpu;
pub mod dial;
pub mod doors;
pub mod dropped;
pub mod error;
pub mod frames;
pub mod gated;
pub mod handshake;
pub mod host;
pub mod iperf;
pub mod iperf_report;
mod leash;
pub mod lifeline;
pub mod listener;
pub mod measure;
pub mod peers;
pub mod ping;
pub mod pingpong;
pub mod plane;
pub mod pulse;
pub mod replay;
pub mod rounds;
pub mod route;
pub mod serve;
pub mod service;
pub mod session;
pub mod socket;
pub mod stream;
pub mod train;
