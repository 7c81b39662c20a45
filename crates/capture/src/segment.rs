//! Decodes a captured frame down to its payload: link layer, tunnels, IP, TCP or UDP.
//!
//! Lengths come from the headers, because a snap length cuts frames and Ethernet pads them. The IP headers of segments
//! that the NIC will split (TSO, BIG TCP) have length 0. Their length is the record's length on the wire.
//!
//! A packet in a tunnel (VXLAN, Geneve, GRE, IP in IP) counts as the inner packet: its ends are the addresses that the
//! application used. A capture on both sides of the tunnel then sees one connection and not two.

use std::net::IpAddr;

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, ip_number};

use crate::records::Record;

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW: [u32; 5] = [101, 12, 14, 228, 229];
const LOOP: u32 = 108;
const SLL: u32 = 113;
const SLL2: u32 = 276;

/// Link types of sFlow's headers: Ethernet, and bare IP.
pub(crate) const LINK_ETHERNET: u32 = ETHERNET;
pub(crate) const LINK_IP: u32 = RAW[0];

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const MPLS: [u16; 2] = [0x8847, 0x8848];

/// UDP ports of tunnels: VXLAN with Linux's default port and with IANA's; Geneve.
const VXLAN: [u16; 2] = [8472, 4789];
const GENEVE: u16 = 6081;

/// Largest number of nested tunnels that are decoded.
const MOST_LAYERS: u32 = 4;

/// The facts in one packet about bytes between two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment<'a> {
    /// The sender.
    pub source: IpAddr,
    /// The receiver.
    pub target: IpAddr,
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// TCP's sequence number of the first payload byte.
    pub sequence: Option<u32>,
    /// Whether it opens a connection (SYN).
    pub starts: bool,
    /// Payload on the wire.
    pub payload_bytes: u64,
    /// The captured part of the payload.
    pub payload: &'a [u8],
    /// Identifies the place where the packet was seen: the interface, and the direction.
    pub vantage: u64,
}

/// An unsupported link type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLink(pub u32);

/// Reads a record's headers. Returns `None` for anything but TCP and UDP over IP, for a later fragment, or for a packet
/// cut before its ports.
///
/// # Errors
/// The link type, if it is not supported.
pub fn decode<'a>(record: &Record<'a>) -> Result<Option<Segment<'a>>, UnknownLink> {
    let vantage = u64::from(record.interface) << 40;
    let packet = Packet {
        data: record.data,
        wire_bytes: record.wire_bytes,
        layers: 0,
    };
    let decoded = match record.link {
        ETHERNET => packet.ethernet(),
        SLL => packet.typed(16, 14),
        SLL2 => packet.typed(20, 0),
        NULL | LOOP => packet.after(4).and_then(Packet::ip),
        link if RAW.contains(&link) => packet.ip(),
        link => return Err(UnknownLink(link)),
    };
    let outgoing = |at: usize| u64::from(record.data.get(at) == Some(&4));
    Ok(decoded.map(|segment| Segment {
        vantage: vantage
            | match record.link {
                SLL => outgoing(1),
                SLL2 => u64::from(long(record.data, 4).unwrap_or(0)) << 8 | outgoing(10),
                _ => 0,
            },
        ..segment
    }))
}

fn short(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?))
}

fn long(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// A packet from one layer on.
#[derive(Clone, Copy)]
struct Packet<'a> {
    data: &'a [u8],
    wire_bytes: u64,
    layers: u32,
}

/// The facts from the IP header about the inner packet.
#[derive(Clone, Copy)]
struct Ends {
    source: IpAddr,
    target: IpAddr,
    /// Whether further fragments follow. Then only the UDP header has the length of the datagram.
    more: bool,
}

impl<'a> Packet<'a> {
    fn after(self, bytes: usize) -> Option<Self> {
        Some(Self {
            data: self.data.get(bytes..)?,
            wire_bytes: self.wire_bytes.saturating_sub(bytes as u64),
            ..self
        })
    }

    fn inner(self, bytes: usize) -> Option<Self> {
        let inside = self.after(bytes)?;
        (self.layers < MOST_LAYERS).then_some(Self {
            layers: self.layers + 1,
            ..inside
        })
    }

    fn ethernet(self) -> Option<Segment<'a>> {
        self.typed(14, 12)
    }

    /// The content after a link header of `header` bytes; the type of the next header is at `at`.
    fn typed(self, header: usize, at: usize) -> Option<Segment<'a>> {
        self.after(header)?.of(short(self.data, at)?)
    }

    fn of(self, mut kind: u16) -> Option<Segment<'a>> {
        let mut packet = self;
        while VLANS.contains(&kind) {
            kind = short(packet.data, 2)?;
            packet = packet.after(4)?;
        }
        if MPLS.contains(&kind) {
            while long(packet.data, 0)? & 0x100 == 0 {
                packet = packet.after(4)?;
            }
            return packet.after(4)?.ip();
        }
        match kind {
            IPV4 | IPV6 => packet.ip(),
            TRANSPARENT_ETHERNET => packet.ethernet(),
            _ => None,
        }
    }

    fn ip(self) -> Option<Segment<'a>> {
        match self.data.first()? >> 4 {
            4 => self.ipv4(),
            6 => self.ipv6(),
            _ => None,
        }
    }

    fn ipv4(self) -> Option<Segment<'a>> {
        let header = Ipv4HeaderSlice::from_slice(self.data).ok()?;
        if header.fragments_offset().value() > 0 {
            return None;
        }
        let wire_bytes = match header.total_len() {
            0 => self.wire_bytes,
            total => u64::from(total),
        };
        let ends = Ends {
            source: header.source_addr().into(),
            target: header.destination_addr().into(),
            more: header.more_fragments(),
        };
        let (size, protocol) = (header.slice().len(), header.protocol().0);
        Self { wire_bytes, ..self }.after(size)?.transport(protocol, ends)
    }

    fn ipv6(self) -> Option<Segment<'a>> {
        let header = Ipv6HeaderSlice::from_slice(self.data).ok()?;
        let wire_bytes = match header.payload_length() {
            0 => self.wire_bytes,
            payload => u64::from(payload) + 40,
        };
        let mut body = Self { wire_bytes, ..self }.after(40)?;
        let mut ends = Ends {
            source: IpAddr::from(header.source_addr()).to_canonical(),
            target: IpAddr::from(header.destination_addr()).to_canonical(),
            more: false,
        };
        // Extension headers are read by hand. etherparse's iterator trusts the lengths that a lax reading found, and
        // reads beyond the end of a header that is cut off.
        let mut protocol = header.next_header();
        loop {
            let size = match protocol {
                ip_number::IPV6_HEADER_HOP_BY_HOP
                | ip_number::IPV6_ROUTE_HEADER
                | ip_number::IPV6_DESTINATION_OPTIONS
                | ip_number::MOBILITY_HEADER
                | ip_number::HIP
                | ip_number::SHIM6 => 8 * (usize::from(*body.data.get(1)?) + 1),
                ip_number::AUTHENTICATION_HEADER => 4 * (usize::from(*body.data.get(1)?) + 2),
                ip_number::IPV6_FRAGMENTATION_HEADER => {
                    let place = short(body.data, 2)?;
                    if place >> 3 > 0 {
                        return None;
                    }
                    ends.more = place & 1 == 1;
                    8
                }
                _ => return body.transport(protocol.0, ends),
            };
            protocol = etherparse::IpNumber(*body.data.first()?);
            body = body.after(size)?;
        }
    }

    fn transport(self, protocol: u8, ends: Ends) -> Option<Segment<'a>> {
        match etherparse::IpNumber(protocol) {
            ip_number::TCP => self.tcp(ends),
            ip_number::UDP => self.udp(ends),
            ip_number::IPV4 | ip_number::IPV6 => self.inner(0)?.ip(),
            ip_number::GRE => self.gre(),
            _ => None,
        }
    }

    /// Reads TCP by hand: a snap length of 54 bytes keeps the fixed header without its options, and a parser rejects
    /// that.
    fn tcp(self, ends: Ends) -> Option<Segment<'a>> {
        let data = self.data;
        let header = u64::from(*data.get(12)? >> 4) * 4;
        let starts = data.get(13)? & 0x02 != 0;
        // A SYN takes the number before the first byte.
        let sequence = long(data, 4)?.wrapping_add(u32::from(starts));
        Some(Segment {
            source: ends.source,
            target: ends.target,
            source_port: short(data, 0)?,
            target_port: short(data, 2)?,
            sequence: Some(sequence),
            starts,
            payload_bytes: self.wire_bytes.checked_sub(header)?,
            payload: data.get(header as usize..).unwrap_or_default(),
            vantage: 0,
        })
    }

    fn udp(self, ends: Ends) -> Option<Segment<'a>> {
        let target_port = short(self.data, 2)?;
        if !ends.more
            && let Some(inside) = self.tunnel(target_port)
        {
            return Some(inside);
        }
        let size = u64::from(short(self.data, 4)?);
        let payload_bytes = if ends.more { size } else { self.wire_bytes }.checked_sub(8)?;
        let payload = self.data.get(8..).unwrap_or_default();
        Some(Segment {
            source: ends.source,
            target: ends.target,
            source_port: short(self.data, 0)?,
            target_port,
            sequence: None,
            starts: false,
            payload_bytes,
            payload: &payload[..payload.len().min(payload_bytes as usize)],
            vantage: 0,
        })
    }

    /// The packet in a UDP tunnel; `None` if the port is a tunnel's but the content is not.
    fn tunnel(self, port: u16) -> Option<Segment<'a>> {
        let head = self.after(8)?;
        if VXLAN.contains(&port) && long(head.data, 0)? == 0x0800_0000 {
            return head.inner(8)?.ethernet();
        }
        if port == GENEVE && head.data.first()? >> 6 == 0 {
            let options = usize::from(head.data[0] & 0x3f) * 4;
            let kind = short(head.data, 2)?;
            return head.inner(8 + options)?.of(kind);
        }
        None
    }

    fn gre(self) -> Option<Segment<'a>> {
        let flags = short(self.data, 0)?;
        let kind = short(self.data, 2)?;
        // Checksum, key and sequence number are present if their bits are set; version 1 is PPTP's.
        let optional = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count();
        if flags & 0x7 != 0 {
            return None;
        }
        self.inner(4 + 4 * optional)?.of(kind)
    }
}
