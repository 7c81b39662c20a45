//! The pairs of a host: the addresses of their packets, and their classes.

use std::net::{IpAddr, Ipv6Addr};

use gavotte_kernel::netlink::Message;

use crate::device::Shaper;
use crate::error::ShaperError;
use crate::loaded::MAX_PAIRS;
use crate::peer::{CHANGED, LOWERED, PairClass, Peer};
use crate::programs::out;
use crate::sizes::ESTIMATED;
use crate::tc::{self, NEWCOMERS, VM};

/// The rates of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRate {
    /// The receiving host, by the address that names it.
    pub target: IpAddr,
    /// The rate that is always available to the pair, in bit/s.
    pub rate_bps: f64,
    /// The highest rate of the pair, in bit/s.
    pub ceil_bps: f64,
}

impl Shaper {
    /// The message that creates the class of a pair, or changes its rates.
    pub(crate) fn pair_class(&self, class: &PairClass) -> Message {
        let sizes = self.link.sizes;
        tc::class(
            self.link.index,
            class.minor,
            tc::ROOT | u32::from(VM),
            sizes.rates(class.rate_bps.min(class.ceil_bps), class.ceil_bps, class.bucket_bytes),
            sizes.quantum(class.rate_bps),
            0,
        )
    }

    /// Sets further addresses that packets of this host may have at the interface, because a NAT on the host changes
    /// them. Call it before the first peer is added.
    pub fn known_as(&mut self, further: &[IpAddr]) {
        self.own = vec![self.setup.address];
        for address in further {
            if !self.own.contains(address) {
                self.own.push(*address);
            }
        }
    }

    /// Adds a peer whose packets have the address that names it. Traffic to and from it is counted, and belongs to the
    /// newcomers' class until [`Self::set`] gives it its own.
    ///
    /// # Errors
    /// If there are too many peers, or the kernel refuses.
    pub fn watch(&mut self, peer: IpAddr) -> Result<(), ShaperError> {
        if !self.peers.contains_key(&peer) {
            self.reach(peer, &[peer])?;
        }
        Ok(())
    }

    /// Sets the addresses that a peer's packets come from and go to, and adds the peer if it is new. An address belongs
    /// to the peer that it was set for last. Returns whether anything has changed.
    ///
    /// # Errors
    /// If there are too many peers, or the kernel refuses.
    pub fn reach(&mut self, peer: IpAddr, addresses: &[IpAddr]) -> Result<bool, ShaperError> {
        let count = self.peers.len() as u32;
        let is_new = !self.peers.contains_key(&peer);
        if is_new && count >= MAX_PAIRS / 2 {
            return Err(ShaperError::Full(MAX_PAIRS / 2));
        }
        let known = self.peers.entry(peer).or_insert(Peer {
            place: count,
            addresses: Vec::new(),
            class: None,
        });
        let (place, minor) = (known.place, known.class.map_or(NEWCOMERS, |class| class.minor));
        let before = std::mem::replace(&mut known.addresses, addresses.to_vec());
        let owned = addresses.iter().all(|address| self.owners.get(address) == Some(&peer));
        if !is_new && before == addresses && owned {
            return Ok(false);
        }
        for address in before {
            if !addresses.contains(&address) && self.owners.get(&address) == Some(&peer) {
                self.owners.remove(&address);
                self.forget(address)?;
            }
        }
        for address in addresses {
            self.owners.insert(*address, peer);
            self.count(*address, place)?;
        }
        self.colour(place);
        self.point(peer, minor)?;
        Ok(true)
    }

    /// Counts what arrives from an address for the peer at a place.
    fn count(&self, address: IpAddr, place: u32) -> Result<(), ShaperError> {
        let Some(programs) = &self.programs else {
            return Ok(());
        };
        for own in &self.own {
            programs
                .pairs
                .set(key(address, *own), join(place.to_ne_bytes(), [0; 4]))
                .map_err(ShaperError::kernel("count a pair"))?;
        }
        Ok(())
    }

    /// Lets packets from and to an address pass, uncounted and in no pair's class.
    fn forget(&self, address: IpAddr) -> Result<(), ShaperError> {
        let Some(programs) = &self.programs else {
            return Ok(());
        };
        for own in &self.own {
            for key in [key(address, *own), key(*own, address)] {
                programs
                    .pairs
                    .remove(key)
                    .map_err(ShaperError::kernel("forget a pair"))?;
            }
        }
        Ok(())
    }

    /// Sets whether segments of TCP to a peer are made ECN-capable.
    fn colour(&self, place: u32) {
        if let Some(programs) = &self.programs {
            programs.out.set_word(place, out::ECT, self.setup.ect.into());
        }
    }

    /// Makes segments of TCP between the hosts ECN-capable from now on, or leaves them unchanged. Whatever may contain
    /// packets of others stays as it is, since a tunnel's end drops what was marked although its sender cannot react.
    pub fn set_ect(&mut self, ect: bool) {
        self.setup.ect = ect;
        for peer in self.peers.values() {
            self.colour(peer.place);
        }
    }

    /// Directs the packets to all peers into their classes.
    pub(crate) fn point_all(&mut self) -> Result<(), ShaperError> {
        let peers: Vec<_> = self
            .peers
            .iter()
            .filter_map(|(address, peer)| Some((*address, peer.class?.minor)))
            .collect();
        for (peer, minor) in peers {
            self.point(peer, minor)?;
        }
        Ok(())
    }

    /// Directs the packets to a peer into a class.
    fn point(&mut self, peer: IpAddr, minor: u16) -> Result<(), ShaperError> {
        let failed = || ShaperError::kernel("classify a pair");
        let known = &self.peers[&peer];
        let own = |address: &&IpAddr| self.owners.get(*address) == Some(&peer);
        if let Some(programs) = &self.programs {
            let value = join(known.place.to_ne_bytes(), (tc::ROOT | u32::from(minor)).to_ne_bytes());
            for address in known.addresses.iter().filter(own) {
                for source in &self.own {
                    programs.pairs.set(key(*source, *address), value).map_err(failed())?;
                }
            }
        } else if minor != NEWCOMERS {
            for address in known.addresses.iter().filter(own) {
                let filter = tc::u32_filter(self.link.index, *address, minor);
                self.netlink.one(filter).map_err(failed())?;
            }
        }
        Ok(())
    }

    /// Sets the rates of pairs in batches. Creates missing classes and changes those that are too low by more than
    /// `CHANGED`, or too high by more than `LOWERED`. Returns the
    /// number of classes touched.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&mut self, pairs: &[PairRate]) -> Result<usize, ShaperError> {
        let mut messages = Vec::new();
        let mut fresh = Vec::new();
        let mut touched = 0;
        let count = pairs.len() as u32;
        for pair in pairs {
            self.watch(pair.target)?;
            let device = self.link.index;
            let before = self.peers[&pair.target].class;
            let is_near = |class: PairClass| {
                let rate = (pair.rate_bps - class.rate_bps).abs() <= LOWERED * class.rate_bps;
                let more_bps = pair.ceil_bps - class.ceil_bps;
                rate && more_bps <= CHANGED * class.ceil_bps && -more_bps <= LOWERED * class.ceil_bps
            };
            if before.is_some_and(is_near) {
                continue;
            }
            touched += 1;
            let minor = match before {
                Some(class) => class.minor,
                None => self.minor()?,
            };
            // The large bucket is for a new pair. One that stays would fill it whenever its connection pauses after a loss,
            // and then send it into a full link.
            let bucket_bytes = if before.is_some() {
                self.link.sizes.lasting_bucket_bytes(count)
            } else {
                self.link.sizes.bucket_bytes(count)
            };
            let spent_bytes = before.map_or(0, |class| class.bucket_bytes.saturating_sub(bucket_bytes));
            // The classifier drops packets by its estimate, before the queue is full, also if the bucket is empty.
            let wanted = 2 * self.link.sizes.leaf_bytes(pair.ceil_bps) + bucket_bytes;
            let mut leaf = before.map_or(0, |class| class.leaf_bytes);
            let mut queue = None;
            // Do not change the queue at every step: its length may be a little off.
            if wanted > leaf + leaf / 4 || wanted < leaf / 2 {
                leaf = wanted;
                queue = Some(tc::leaf(device, minor, wanted));
            }
            self.set_estimate(pair.target, pair.ceil_bps, bucket_bytes);
            self.take_from_estimate(pair.target, spent_bytes);
            let class = PairClass {
                minor,
                rate_bps: pair.rate_bps,
                ceil_bps: pair.ceil_bps,
                leaf_bytes: leaf,
                bucket_bytes,
            };
            messages.push(self.pair_class(&class));
            if let Some(leaf) = queue {
                messages.push(leaf);
            }
            if let Some(peer) = self.peers.get_mut(&pair.target) {
                peer.class = Some(class);
            }
            if before.is_none() {
                fresh.push((pair.target, minor));
            }
        }
        self.netlink
            .all(messages)
            .map_err(ShaperError::kernel("change rates"))?;
        for (peer, minor) in fresh {
            self.point(peer, minor)?;
        }
        Ok(touched)
    }

    /// Makes the classifier estimate what a pair's class has sent at once and what waits in it, and drop packets that
    /// do not fit; 0 bit/s = stop.
    fn set_estimate(&self, peer: IpAddr, ceil_bps: f64, bucket_bytes: u32) {
        if let Some(programs) = &self.programs {
            let place = self.peers[&peer].place;
            programs.out.set_word(
                place,
                out::ROOM,
                (self.link.sizes.leaf_bytes(ceil_bps) + bucket_bytes).into(),
            );
            programs
                .out
                .set_word(place, out::DRAIN, (ceil_bps / 8.0 * ESTIMATED) as u64);
        }
    }

    /// Lowers the estimate of what a pair's class has sent at once and what waits in it, since its bucket is gone.
    fn take_from_estimate(&self, peer: IpAddr, bucket_bytes: u32) {
        if let Some(programs) = self.programs.as_ref().filter(|_| bucket_bytes > 0) {
            let place = self.peers[&peer].place;
            let level = programs.out.get(place)[out::LEVEL];
            programs
                .out
                .set_word(place, out::LEVEL, level.saturating_sub(bucket_bytes.into()));
        }
    }

    fn minor(&mut self) -> Result<u16, ShaperError> {
        if let Some(minor) = self.free_minors.pop() {
            return Ok(minor);
        }
        let minor = self.next_minor;
        // Handles of leaf queues need the upper bit.
        if minor >= 0x7ff0 {
            return Err(ShaperError::Full(MAX_PAIRS / 2));
        }
        self.next_minor += 1;
        Ok(minor)
    }

    /// Removes a pair's class: its packets return to the newcomers' class.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn idle(&mut self, peer: IpAddr) -> Result<(), ShaperError> {
        // Without BPF, classes stay: a filter points to each.
        if self.programs.is_none() {
            return Ok(());
        }
        let Some(class) = self.peers.get_mut(&peer).and_then(|peer| peer.class.take()) else {
            return Ok(());
        };
        self.point(peer, NEWCOMERS)?;
        self.set_estimate(peer, 0.0, 0);
        // Its next class begins with an empty queue and a full bucket.
        if let Some(programs) = &self.programs {
            programs.out.set_word(self.peers[&peer].place, out::LEVEL, 0);
        }
        self.netlink
            .one(tc::drop_class(self.link.index, class.minor))
            .map_err(ShaperError::kernel("remove a class"))?;
        self.free_minors.push(class.minor);
        Ok(())
    }
}

fn join(left: [u8; 4], right: [u8; 4]) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&left);
    both[4..].copy_from_slice(&right);
    both
}

/// The key of a pair in the map: both addresses, with IPv4 mapped into IPv6.
fn key(source: IpAddr, target: IpAddr) -> [u8; 32] {
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
