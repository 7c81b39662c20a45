//! The gated train: what a token bucket hides from Choreo's train, measured and proven.
//!
//! A sender keeps a window of packets in flight. While the receiver can *prove* that a packet waited in a queue of the path,
//! the spacing of its neighbours is the path's, not the sender's; only such packets count. From them come the sustained
//! rate r, the depth b of the bucket in front of it and the rate C while the bucket lasted, or a refusal.
//!
//! Everything here is a pure function of recorded arrivals: [`Train`] in, [`Answer`] or [`Refusal`] out.

mod answer;
mod blocks;
mod record;
pub mod recorder;
mod saturation;
mod slope;
mod stop;
mod trace;
pub mod window;
pub mod wire;

pub use answer::{Answer, Interval, Refusal, Verdict, estimate};
pub use record::{Arrival, Limit, Train};
pub use stop::enough;
pub use trace::{TraceError, parse_trace, write_trace};
