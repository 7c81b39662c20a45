//! Packets without TCP or UDP payload that counts: how many, and why.

use std::collections::HashMap;
use std::fmt;

use etherparse::IpNumber;

use crate::error::CaptureError;

/// The reason why a packet has no payload that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Skip {
    /// A link type that is not read, by its number at tcpdump.org.
    Link(u32),
    /// Not IP: the type in the Ethernet header, or the length in one of IEEE 802.3.
    Kind(u16),
    /// Not IP: the protocol in the PPP header.
    Ppp(u16),
    /// IP, but neither TCP nor UDP.
    Protocol(u8),
    /// A later fragment of a datagram. The first one counts for all.
    Fragment,
    /// More tunnels inside each other than are decoded.
    Nested,
    /// A sampled header of another protocol than those that are read, by sFlow's number.
    Header(u32),
    /// An export without the packet's header: only what a switch or router did with it.
    NoHeader,
    /// A datagram of another kind of export, or of none.
    Datagram(&'static str),
    /// A flow without both addresses, as of a network layer that is not IP.
    NoAddress,
    /// A flow without the number of its IP protocol.
    NoProtocol,
    /// A packet that is cut off, or whose lengths contradict each other, before its ports.
    Cut,
}

/// Largest 802.3 length; larger numbers are Ethernet types.
pub(crate) const MOST_LENGTH: u16 = 1500;

impl fmt::Display for Skip {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Link(link) => match link_name(link) {
                Some(name) => write!(to, "link type {link} ({name})"),
                None => write!(to, "link type {link}"),
            },
            Self::Kind(length) if length <= MOST_LENGTH => to.write_str("IEEE 802.2"),
            Self::Kind(kind) => match kind_name(kind) {
                Some(name) => to.write_str(name),
                None => write!(to, "Ethernet type 0x{kind:04x}"),
            },
            Self::Ppp(protocol) => write!(to, "PPP protocol 0x{protocol:04x}"),
            Self::Protocol(protocol) => match IpNumber(protocol) {
                IpNumber::IPV6_ICMP => to.write_str("ICMPv6"),
                IpNumber(89) => to.write_str("OSPF"),
                other => match other.keyword_str() {
                    Some(name) => to.write_str(name),
                    None => write!(to, "IP protocol {protocol}"),
                },
            },
            Self::Fragment => to.write_str("later fragments"),
            Self::Nested => to.write_str("tunnels in tunnels"),
            Self::Header(protocol) => write!(to, "sFlow header protocol {protocol}"),
            Self::Datagram(kind) => to.write_str(kind),
            Self::NoHeader => to.write_str("without a header"),
            Self::NoAddress => to.write_str("without IP addresses"),
            Self::NoProtocol => to.write_str("without an IP protocol"),
            Self::Cut => to.write_str("cut or wrong headers"),
        }
    }
}

fn kind_name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x0806 => "ARP",
        0x2000 => "CDP",
        0x8035 => "RARP or SLARP",
        0x8100 | 0x88a8 => "VLAN tags",
        0x8808 => "pause frames",
        0x8809 => "LACP",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL",
        0x88cc => "LLDP",
        0x88e5 => "MACsec",
        0x8906 => "FCoE",
        0x8915 => "RoCE version 1",
        0xfefe => "OSI",
        _ => return None,
    })
}

fn link_name(link: u32) -> Option<&'static str> {
    Some(match link {
        6 => "token ring",
        8 => "SLIP",
        10 => "FDDI",
        105 | 119 | 127 | 163 => "802.11",
        107 => "frame relay",
        123 => "ATM",
        129 => "ARCnet",
        147..=162 => "private use",
        187 | 201 | 254 => "Bluetooth",
        189 | 220 | 249 => "USB",
        192 => "PPI",
        195 | 215 | 230 | 283 => "802.15.4",
        227 => "CAN",
        231 => "D-Bus",
        253 => "netlink",
        258 => "PKTAP",
        252 => "exported PDUs",
        271 => "vsock",
        _ => return None,
    })
}

/// The number of packets skipped for each reason.
#[derive(Clone, Debug, Default)]
pub struct Skipped {
    counts: HashMap<Skip, u64>,
}

impl Skipped {
    /// Counts a packet.
    pub fn add(&mut self, why: Skip) {
        *self.counts.entry(why).or_default() += 1;
    }

    /// Adds the packets of another capture.
    pub fn merge(&mut self, other: &Self) {
        for (why, count) in &other.counts {
            *self.counts.entry(*why).or_default() += count;
        }
    }

    /// The number of all packets.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Each reason's name with the number of its packets, largest first.
    pub fn named(&self) -> Vec<(String, u64)> {
        let mut named: HashMap<String, u64> = HashMap::new();
        for (why, count) in &self.counts {
            *named.entry(why.to_string()).or_default() += count;
        }
        let mut named: Vec<_> = named.into_iter().collect();
        named.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        named
    }

    /// The error for a capture none of whose `packets` has a link type that is read.
    pub(crate) fn refusal(&self, packets: u64) -> Option<CaptureError> {
        let mut links: Vec<_> = self
            .counts
            .iter()
            .filter(|(why, _)| matches!(why, Skip::Link(_)))
            .collect();
        if links.is_empty() || links.iter().map(|(_, count)| **count).sum::<u64>() < packets {
            return None;
        }
        links.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.to_string().cmp(&b.0.to_string())));
        let names: Vec<_> = links.iter().take(3).map(|(why, _)| why.to_string()).collect();
        Some(CaptureError::UnknownLinks(names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named_and_the_largest_comes_first() {
        let mut skipped = Skipped::default();
        for (why, count) in [
            (Skip::Protocol(58), 2),
            (Skip::Kind(0x0806), 3),
            (Skip::Kind(38), 1),
            (Skip::Kind(39), 1),
            (Skip::Protocol(103), 1),
            (Skip::Protocol(253), 1),
        ] {
            (0..count).for_each(|_| skipped.add(why));
        }
        let named: Vec<_> = skipped
            .named()
            .into_iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        assert_eq!(named[..3], ["3 ARP", "2 ICMPv6", "2 IEEE 802.2"]);
        assert_eq!(skipped.total(), 9);
        assert!(skipped.refusal(9).is_none());
    }

    #[test]
    fn only_a_capture_without_any_known_link_is_refused() {
        let mut skipped = Skipped::default();
        skipped.add(Skip::Link(127));
        assert!(skipped.refusal(2).is_none());
        let refusal = skipped.refusal(1).map(|error| error.to_string());
        assert!(refusal.is_some_and(|text| text.contains("link type 127 (802.11)")));
    }
}
