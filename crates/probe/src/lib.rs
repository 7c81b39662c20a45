//! The measurement core of Gavotte's agent: what a train packet looks like, when a train has arrived, and
//! what rate its arrivals stand for.
//!
//! Everything but [`sockets`] is free of I/O: bytes, sequence numbers and stamps come in as arguments,
//! and the same arrivals always give the same answer. The method is Choreo's (IMC 2013, section 3.1).

pub mod choreo;
pub mod drain;
pub mod gated;
pub mod packet;
pub mod sockets;
pub mod train;
