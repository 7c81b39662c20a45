//! Replays the operations of an MPI job's ranks on a network: when the job ends, and what it spent its time on.
//!
//! The input is a [`Program`] (what each rank computes, sends and receives, with loops folded), the host of each rank, a
//! [`Platform`](gavotte_fluid::Platform) and a [`Model`] of the MPI library. [`replay`] returns a [`Replayed`].
//!
//! The model is that of `LogGPS`, with shared links:
//!
//! 1. A message costs both ends processor time, and takes the path's latency and its share of all links on the way.
//! 2. Messages up to [`Model::eager_bytes`] are sent at once. Larger ones wait until the receiver has a matching receive and
//!    both are inside MPI, and take one more round trip. Their first bytes travel with the announcement.
//! 3. Messages between two ranks follow each other on one connection. Connections share links max-min fairly.
//! 4. A collective operation becomes the messages that Open MPI or MPICH would send, by the algorithm that they would take,
//!    or that a [`Setting`] makes them take.
//! 5. A loop whose passes take the same time for all ranks is not replayed to its end: the rest is extrapolated.
//!
//! No code here reads a clock; the same input and seed always give the same output.

mod actor;
mod bursts;
mod collectives;
mod engine;
mod error;
mod events;
mod matching;
mod messages;
mod model;
mod outcome;
mod placed;
mod program;
mod settings;
mod steady;

pub use collectives::default_algorithm;
pub use engine::replay;
pub use error::ReplayError;
pub use model::{Library, Model};
pub use outcome::{Replayed, Split};
pub use placed::Placed;
pub use program::{Collective, Kind, Op, Program};
pub use settings::Setting;
