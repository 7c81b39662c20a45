//! What the shaper knows about a peer, and its key in the map of pairs.

use std::net::{IpAddr, Ipv6Addr};

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
}

pub(crate) fn join(left: [u8; 4], right: [u8; 4]) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&left);
    both[4..].copy_from_slice(&right);
    both
}

/// The key of a pair in the map: both addresses, with IPv4 mapped into IPv6.
pub(crate) fn key(source: IpAddr, target: IpAddr) -> [u8; 32] {
    let mut both = [0; 32];
    for (at, address) in [(0, source), (16, target)] {
        let wide: Ipv6Addr = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        both[at..at + 16].copy_from_slice(&wide.octets());
    }
    both
}
