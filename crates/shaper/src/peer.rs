//! What is known of a peer: the addresses of its packets, and the class of the packets to it.

use std::net::IpAddr;

/// Smallest relative difference for which a class gets its new rate. Each change takes the kernel 30 us and the routing
/// lock. With 0.01, changes were half of the cost of a host with one pair.
pub(crate) const CHANGED: f64 = 0.03;
/// The same where the class has more than it should have, and for the rate that it may not share with others.
pub(crate) const LOWERED: f64 = 0.08;

/// The state of a peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) place: u32,
    /// The addresses that the peer's packets come from and go to.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) class: Option<PairClass>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PairClass {
    pub(crate) minor: u16,
    pub(crate) rate_bps: f64,
    pub(crate) ceil_bps: f64,
    pub(crate) leaf_bytes: u32,
    /// What it may send at once after it has been idle.
    pub(crate) bucket_bytes: u32,
}
