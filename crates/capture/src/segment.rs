//! Decodes a captured frame down to its payload: link layer, tunnels, IP, TCP or UDP.
//!
//! Lengths come from the headers, because a snap length cuts frames and Ethernet pads them. The IP headers of segments
//! that the NIC will split (TSO, BIG TCP) have length 0. Their length is the record's length on the wire.
//!
//! A packet in a tunnel (VXLAN, Geneve, GRE, IP in IP, a PIM register) counts as the inner packet: its ends are the
//! addresses that the application used. A capture on both sides of the tunnel then sees one connection and not two.

use std::net::IpAddr;

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice, ip_number};

use crate::records::Record;
use crate::skipped::{MOST_LENGTH, Skip};

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const RAW: [u32; 5] = [101, 12, 14, 228, 229];
const LOOP: u32 = 108;
const SLL: u32 = 113;
const SLL2: u32 = 276;
const NFLOG: u32 = 239;
const IP_OVER_INFINIBAND: u32 = 242;
/// PPP with or without framing, or Cisco's HDLC.
const PPP: [u32; 2] = [9, 50];
/// PPP after a byte for the direction.
const PPP_WITH_DIRECTION: [u32; 2] = [166, 204];
const PPPOE: u32 = 51;
const CISCO_HDLC: u32 = 104;

/// Link types of sFlow's headers: Ethernet, bare IP, PPP, and bare MPLS, for which captures have no number.
pub(crate) const LINK_ETHERNET: u32 = ETHERNET;
pub(crate) const LINK_IP: u32 = RAW[0];
pub(crate) const LINK_PPP: u32 = PPP[0];
pub(crate) const LINK_MPLS: u32 = 1 << 16;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
/// The header of IEEE 802.2 that an Ethernet type follows (SNAP).
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
/// The first two bytes of a PPP frame, which peers may agree to leave out.
const PPP_FRAME: [u8; 2] = [0xff, 3];
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
const PPP_MPLS: u16 = 0x0281;
/// Version 2 of PIM, and its message type that carries a whole packet.
const PIM_REGISTER: u8 = 0x21;

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

/// Reads a record's headers.
///
/// # Errors
/// The reason why the record has no payload that counts: for example neither TCP nor UDP over IP, a later fragment, or
/// a packet cut before its ports.
pub fn decode<'a>(record: &Record<'a>) -> Result<Segment<'a>, Skip> {
    let vantage = u64::from(record.interface) << 40;
    let packet = Packet {
        data: record.data,
        wire_bytes: record.wire_bytes,
        layers: 0,
    };
    let segment = match record.link {
        ETHERNET => packet.ethernet(),
        SLL => packet.typed(16, 14),
        SLL2 => packet.typed(20, 0),
        NULL | LOOP => packet.after(4).and_then(Packet::ip),
        IP_OVER_INFINIBAND => packet.typed(44, 40),
        NFLOG => packet.nflog(),
        CISCO_HDLC => packet.typed(4, 2),
        LINK_MPLS => packet.of(MPLS[0]),
        PPPOE => packet.after(6).and_then(Packet::ppp),
        link if PPP.contains(&link) => packet.ppp(),
        link if PPP_WITH_DIRECTION.contains(&link) => packet.after(1).and_then(Packet::ppp),
        link if RAW.contains(&link) => packet.ip(),
        link => return Err(Skip::Link(link)),
    }?;
    let outgoing = |at: usize| u64::from(record.data.get(at) == Some(&4));
    Ok(Segment {
        vantage: vantage
            | match record.link {
                SLL => outgoing(1),
                SLL2 => u64::from(long(record.data, 4).unwrap_or(0)) << 8 | outgoing(10),
                _ => 0,
            },
        ..segment
    })
}

fn byte(data: &[u8], at: usize) -> Result<u8, Skip> {
    data.get(at).copied().ok_or(Skip::Cut)
}

fn bytes<const N: usize>(data: &[u8], at: usize) -> Result<[u8; N], Skip> {
    data.get(at..at + N)
        .and_then(|part| part.try_into().ok())
        .ok_or(Skip::Cut)
}

fn short(data: &[u8], at: usize) -> Result<u16, Skip> {
    bytes(data, at).map(u16::from_be_bytes)
}

fn long(data: &[u8], at: usize) -> Result<u32, Skip> {
    bytes(data, at).map(u32::from_be_bytes)
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
    fn after(self, bytes: usize) -> Result<Self, Skip> {
        Ok(Self {
            data: self.data.get(bytes..).ok_or(Skip::Cut)?,
            wire_bytes: self.wire_bytes.saturating_sub(bytes as u64),
            ..self
        })
    }

    fn inner(self, bytes: usize) -> Result<Self, Skip> {
        if self.layers >= MOST_LAYERS {
            return Err(Skip::Nested);
        }
        Ok(Self {
            layers: self.layers + 1,
            ..self.after(bytes)?
        })
    }

    fn ethernet(self) -> Result<Segment<'a>, Skip> {
        self.typed(14, 12)
    }

    /// The content after a link header of `header` bytes; the type of the next header is at `at`.
    fn typed(self, header: usize, at: usize) -> Result<Segment<'a>, Skip> {
        self.after(header)?.of(short(self.data, at)?)
    }

    fn of(self, mut kind: u16) -> Result<Segment<'a>, Skip> {
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
            PPPOE_SESSION => packet.after(6)?.ppp(),
            length if length <= MOST_LENGTH && packet.data.starts_with(&SNAP) => {
                let kind = short(packet.data, SNAP.len())?;
                packet.inner(SNAP.len() + 2)?.of(kind)
            }
            other => Err(Skip::Kind(other)),
        }
    }

    /// PPP, framed or not. The first two bytes of a frame and the first byte of the protocol may be missing.
    fn ppp(self) -> Result<Segment<'a>, Skip> {
        if matches!(self.data, [0x0f | 0x8f, 0, ..]) {
            return self.typed(4, 2); // Cisco's HDLC
        }
        let framed = match self.data {
            data if data.starts_with(&PPP_FRAME) => 2,
            // A byte for the direction replaced the first one.
            [3, ..] => 1,
            _ => 0,
        };
        let packet = self.after(framed)?;
        let first = byte(packet.data, 0)?;
        let (protocol, size) = match first & 1 {
            1 => (u16::from(first), 1),
            _ => (short(packet.data, 0)?, 2),
        };
        let packet = packet.after(size)?;
        match protocol {
            PPP_IPV4 | PPP_IPV6 => packet.ip(),
            PPP_MPLS => packet.of(MPLS[0]),
            other => Err(Skip::Ppp(other)),
        }
    }

    /// Linux's packets from a firewall rule: a list of lengths, types and values, one of which is the packet.
    fn nflog(self) -> Result<Segment<'a>, Skip> {
        let mut list = self.after(4)?;
        loop {
            let size = usize::from(u16::from_le_bytes(bytes(list.data, 0)?));
            if u16::from_le_bytes(bytes(list.data, 2)?) == 9 {
                return list.after(4)?.ip();
            }
            if size < 4 {
                return Err(Skip::Cut);
            }
            list = list.after(size.next_multiple_of(4))?;
        }
    }

    fn ip(self) -> Result<Segment<'a>, Skip> {
        match byte(self.data, 0)? >> 4 {
            4 => self.ipv4(),
            6 => self.ipv6(),
            _ => Err(Skip::Cut),
        }
    }

    fn ipv4(self) -> Result<Segment<'a>, Skip> {
        let header = Ipv4HeaderSlice::from_slice(self.data).map_err(|_| Skip::Cut)?;
        if header.fragments_offset().value() > 0 {
            return Err(Skip::Fragment);
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

    fn ipv6(self) -> Result<Segment<'a>, Skip> {
        let header = Ipv6HeaderSlice::from_slice(self.data).map_err(|_| Skip::Cut)?;
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
                | ip_number::SHIM6 => 8 * (usize::from(byte(body.data, 1)?) + 1),
                ip_number::AUTHENTICATION_HEADER => 4 * (usize::from(byte(body.data, 1)?) + 2),
                ip_number::IPV6_FRAGMENTATION_HEADER => {
                    let place = short(body.data, 2)?;
                    if place >> 3 > 0 {
                        return Err(Skip::Fragment);
                    }
                    ends.more = place & 1 == 1;
                    8
                }
                _ => return body.transport(protocol.0, ends),
            };
            protocol = etherparse::IpNumber(byte(body.data, 0)?);
            body = body.after(size)?;
        }
    }

    fn transport(self, protocol: u8, ends: Ends) -> Result<Segment<'a>, Skip> {
        match etherparse::IpNumber(protocol) {
            ip_number::TCP => self.tcp(ends),
            ip_number::UDP => self.udp(ends),
            ip_number::IPV4 | ip_number::IPV6 => self.inner(0)?.ip(),
            ip_number::GRE => self.gre(),
            ip_number::PIM if self.data.first() == Some(&PIM_REGISTER) => self.inner(8)?.ip(),
            other => Err(Skip::Protocol(other.0)),
        }
    }

    /// Reads TCP by hand: a snap length of 54 bytes keeps the fixed header without its options, and a parser rejects
    /// that.
    fn tcp(self, ends: Ends) -> Result<Segment<'a>, Skip> {
        let data = self.data;
        let header = u64::from(byte(data, 12)? >> 4) * 4;
        let starts = byte(data, 13)? & 0x02 != 0;
        // A SYN takes the number before the first byte.
        let sequence = long(data, 4)?.wrapping_add(u32::from(starts));
        Ok(Segment {
            source: ends.source,
            target: ends.target,
            source_port: short(data, 0)?,
            target_port: short(data, 2)?,
            sequence: Some(sequence),
            starts,
            payload_bytes: self.wire_bytes.checked_sub(header).ok_or(Skip::Cut)?,
            payload: data.get(header as usize..).unwrap_or_default(),
            vantage: 0,
        })
    }

    fn udp(self, ends: Ends) -> Result<Segment<'a>, Skip> {
        let target_port = short(self.data, 2)?;
        if !ends.more
            && let Some(inside) = self.tunnel(target_port)
        {
            return inside;
        }
        let size = u64::from(short(self.data, 4)?);
        let payload_bytes = if ends.more { size } else { self.wire_bytes };
        let payload_bytes = payload_bytes.checked_sub(8).ok_or(Skip::Cut)?;
        let payload = self.data.get(8..).unwrap_or_default();
        Ok(Segment {
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
    fn tunnel(self, port: u16) -> Option<Result<Segment<'a>, Skip>> {
        let head = self.after(8).ok()?;
        if VXLAN.contains(&port) && long(head.data, 0).ok()? == 0x0800_0000 {
            return Some(head.inner(8).and_then(Self::ethernet));
        }
        if port == GENEVE && head.data.first()? >> 6 == 0 {
            let options = usize::from(head.data[0] & 0x3f) * 4;
            let kind = short(head.data, 2).ok()?;
            if [IPV4, IPV6, TRANSPARENT_ETHERNET].contains(&kind) {
                return Some(head.inner(8 + options).and_then(|inside| inside.of(kind)));
            }
        }
        None
    }

    fn gre(self) -> Result<Segment<'a>, Skip> {
        let flags = short(self.data, 0)?;
        let kind = short(self.data, 2)?;
        // Checksum, key and sequence number are present if their bits are set; version 1 is PPTP's.
        let optional = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count();
        if flags & 0x7 != 0 {
            return Err(Skip::Protocol(ip_number::GRE.0));
        }
        self.inner(4 + 4 * optional)?.of(kind)
    }
}
