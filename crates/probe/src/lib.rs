//! The measurement core of Gavotte's agent: the packets of a train, the end of its reception, and the rate that its
//! arrivals show.
//!
//! All modules except [`sockets`] are free of I/O: bytes, sequence numbers and timestamps are arguments, and the same
//! arrivals always give the same result. The method is Choreo's (IMC 2013, section 3.1).

pub mod choreo;
pub mod drain;
pub mod gated;
pub mod mtu;
pub mod packet;
pub mod sockets;
pub mod stream;
pub mod train;
