//! Counts of packets between a host and its peers.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::device::Shaper;
use crate::error::ShaperError;
use crate::peer::Peer;
use crate::programs::{arrived, out, rest};
use crate::tc::{self, ClassCounts};

/// Counts of packets to a host since the interface was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that were numbered and entered their class.
    pub packets: u64,
    /// Bytes of those packets, with Ethernet headers.
    pub bytes: u64,
    /// Packets that found the class's queue full; they have no number.
    pub dropped: u64,
}

/// Counts of packets from a host since the interface was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets with a number.
    pub packets: u64,
    /// Bytes of all packets but the agents' own datagrams, with Ethernet headers.
    pub bytes: u64,
    /// Bytes of the agents' own datagrams, with Ethernet headers.
    pub control_bytes: u64,
    /// Numbers that did not arrive (yet).
    pub gaps: u64,
    /// Packets with CE marks.
    pub ce: u64,
    /// Packets that found the phantom queue too long.
    pub would_mark: u64,
}

impl Shaper {
    /// Returns the counts of packets to a peer; all are 0 without BPF.
    pub fn sent(&self, peer: IpAddr) -> Sent {
        let Some((programs, peer)) = self.programs.as_ref().zip(self.peers.get(&peer)) else {
            return Sent::default();
        };
        let words = programs.out.get(peer.place);
        Sent {
            packets: words[out::PACKETS],
            bytes: words[out::BYTES],
            dropped: words[out::DROPPED],
        }
    }

    /// Returns the counts of packets from a peer; all are 0 without BPF.
    pub fn received(&self, peer: IpAddr) -> Received {
        let Some((programs, peer)) = self.programs.as_ref().zip(self.peers.get(&peer)) else {
            return Received::default();
        };
        let words = programs.arrived.get(peer.place);
        let numbers = words[arrived::NEXT].saturating_sub(words[arrived::FIRST]);
        Received {
            packets: words[arrived::PACKETS],
            bytes: words[arrived::BYTES],
            control_bytes: words[arrived::CONTROL_BYTES],
            gaps: numbers.saturating_sub(words[arrived::PACKETS]),
            ce: words[arrived::CE],
            would_mark: words[arrived::WOULD_MARK],
        }
    }

    /// Restarts the count of packets and gaps from a peer, which restarts its numbers.
    pub fn renumber(&self, peer: IpAddr) {
        if let Some((programs, peer)) = self.programs.as_ref().zip(self.peers.get(&peer)) {
            programs.arrived.set_word(peer.place, arrived::PACKETS, 0);
            programs.arrived.set_word(peer.place, arrived::NEXT, 0);
            programs.arrived.set_word(peer.place, arrived::FIRST, 0);
        }
    }

    /// The bytes of all packets that left in no pair since the interface was set up; 0 without BPF.
    pub fn rest_bytes(&self) -> u64 {
        let programs = self.programs.as_ref();
        programs.map_or(0, |programs| programs.rest.get(0)[rest::BYTES])
    }

    /// The kernel's counts for the class of each pair that has one. Costs a system call, unlike [`Self::sent`].
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn classes(&mut self) -> Result<HashMap<IpAddr, ClassCounts>, ShaperError> {
        let counts = tc::counts(&mut self.netlink, self.link.index).map_err(ShaperError::kernel("read classes"))?;
        let of = |(peer, known): (&IpAddr, &Peer)| Some((*peer, *counts.get(&known.class?.minor)?));
        Ok(self.peers.iter().filter_map(of).collect())
    }
}
