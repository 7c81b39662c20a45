//! The MTU of a path: the size of the largest IP packet that the path carries in one piece.
//!
//! The kernel knows the MTU of its route, and what routers report by ICMP. If ICMP is filtered, larger packets vanish.
//! Before a train, the sender therefore confirms the kernel's MTU with an authenticated packet of that size. Without an
//! answer it searches for the largest size that arrives, in the manner of RFC 8899 (PLPMTUD).
//!
//! [`search::Search`] has no socket and no clock; [`crate::sockets::path::Path`] runs it.

pub mod search;
pub mod wire;

/// Largest MTU that probes use. Loopback has 65,536, which no network between hosts has.
pub const MOST_BYTES: u32 = 9_216;
/// Smallest MTU of IPv6 (RFC 8200, section 5).
pub const LEAST_V6_BYTES: u32 = 1_280;
/// Size that IPv4 hosts must accept (RFC 791, section 3.1).
pub const LEAST_V4_BYTES: u32 = 576;
/// Ethernet's header, which shapers count and MTUs do not.
pub const ETHERNET_BYTES: u32 = 14;

/// The address family of a path, which determines the size of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: std::net::IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Bytes of an IP packet around its UDP payload: 28 for IPv4, 48 for IPv6.
    pub fn headers_bytes(self) -> u32 {
        match self {
            Self::V4 => 28,
            Self::V6 => 48,
        }
    }

    /// Bytes of an IP packet around its TCP payload, without TCP's options: 40 for IPv4, 60 for IPv6.
    pub fn tcp_headers_bytes(self) -> u32 {
        self.headers_bytes() + 12
    }

    /// Largest UDP payload of an IP packet of `mtu_bytes`.
    pub fn payload_bytes(self, mtu_bytes: u32) -> u32 {
        mtu_bytes.saturating_sub(self.headers_bytes())
    }

    /// Size of the IP packet with a UDP payload of `payload_bytes`.
    pub fn packet_bytes(self, payload_bytes: u32) -> u32 {
        payload_bytes.saturating_add(self.headers_bytes())
    }

    /// Bytes of the Ethernet frame with a UDP payload of `payload_bytes`, as a shaper counts them.
    pub fn wire_bytes(self, payload_bytes: u32) -> u32 {
        self.packet_bytes(payload_bytes).saturating_add(ETHERNET_BYTES)
    }

    /// Smallest MTU that a search considers.
    pub fn least_bytes(self) -> u32 {
        match self {
            Self::V4 => LEAST_V4_BYTES,
            Self::V6 => LEAST_V6_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_both_families_are_counted() {
        assert_eq!(
            (Family::V4.payload_bytes(1500), Family::V4.wire_bytes(1472)),
            (1472, 1514)
        );
        assert_eq!(
            (Family::V6.payload_bytes(1500), Family::V6.wire_bytes(1452)),
            (1452, 1514)
        );
        assert_eq!(Family::V4.packet_bytes(1372), 1400);
        assert_eq!(Family::V6.payload_bytes(40), 0);
    }
}
