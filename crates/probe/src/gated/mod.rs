//! The gated train: measures and proves what a token bucket hides from Choreo's train.
//!
//! A sender keeps a window of packets in flight. Only packets count of which the receiver can *prove* that they waited
//! in a queue of the path: then the spacing of their neighbours is the path's, not the sender's. From them follow the
//! sustained rate r, the depth b of the token bucket in front of it and the rate C before the bucket was empty. Without
//! proof the train is refused.
//!
//! [`sender::Sender`] and [`receiver::Receiver`] are the two ends without sockets and clocks: packets, acknowledgements
//! and the time are arguments, the next action is the result. The agent runs them over UDP, the tests over a simulated
//! network. A pure function evaluates the receiver's record: [`Train`] in, [`Answer`] or [`Refusal`] out.

mod answer;
mod blocks;
mod line;
mod policed;
mod random;
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
pub use random::Unqueued;
pub use record::{Arrival, Limit, Train};
pub use shape::{End, Shape, Way};
pub use slope::Interval;
pub use stop::enough;
pub use trace::{TraceError, parse_trace, write_trace};
