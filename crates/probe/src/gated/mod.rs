//! The gated train: what a token bucket hides from Choreo's train, measured and proven.
//!
//! A sender keeps a window of packets in flight. While the receiver can *prove* that a packet waited in a queue of the path,
//! the spacing of its neighbours is the path's, not the sender's; only such packets count. From them come the sustained
//! rate r, the depth b of the bucket in front of it and the rate C while the bucket lasted, or a refusal.
//!
//! [`sender::Sender`] and [`receiver::Receiver`] are the two ends without sockets and clocks: packets, answers and the time come
//! in as arguments, and what to do next comes out. The agent runs them over UDP, the tests over a simulated network. What
//! the receiver wrote down is judged by a pure function: [`Train`] in, [`Answer`] or [`Refusal`] out.

mod answer;
mod blocks;
pub mod receiver;
mod record;
pub mod recorder;
mod saturation;
pub mod sender;
mod shape;
mod slope;
mod stop;
mod trace;
pub mod window;
pub mod wire;

pub use answer::{Answer, Refusal, Verdict, estimate};
pub use record::{Arrival, Limit, Train};
pub use shape::{End, Shape};
pub use slope::Interval;
pub use stop::enough;
pub use trace::{TraceError, parse_trace, write_trace};
