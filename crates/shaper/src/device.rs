//! One interface under guarantees: its classes, programs and counters.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;

use crate::before::Before;
use crate::claim::{Claim, find, remove};
use crate::error::ShaperError;
use crate::loaded::{MAX_PAIRS, Programs};
use crate::programs::{arrived, out, phantom, rest};
use crate::sizes::{GSO_SEGMENTS, RECKONED};
use crate::tc::{self, ClassCounts, FIRST_PAIR, Link, NEWCOMERS, REST, VM, Way};
use gavotte_kernel::bpf::socket_cookie;
use gavotte_kernel::netlink::{Hearing, Message, Netlink};

/// Smallest relative difference for which a class gets its new rate. Each change takes the kernel 30 us and the routing
/// lock. With 0.01, changes were half of the cost of a host with one pair.
const CHANGED: f64 = 0.03;

/// The setup of an interface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The host's own address, which identifies the interface.
    pub address: IpAddr,
    /// Highest rate of the host, in bit/s.
    pub limit_bps: u64,
    /// Highest rate of all pairs without their own class together, in bit/s.
    pub newcomers_bps: u64,
    /// Whether segments of TCP are made ECN-capable between the hosts.
    pub ect: bool,
    /// Whether to use BPF if the kernel allows it.
    pub bpf: bool,
}

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
    /// Bytes of all packets, with Ethernet headers.
    pub bytes: u64,
    /// Numbers that did not arrive (yet).
    pub gaps: u64,
    /// Packets with CE marks.
    pub ce: u64,
    /// Packets that found the phantom queue too long.
    pub would_mark: u64,
}

/// The state of a peer.
#[derive(Debug)]
pub(crate) struct Peer {
    place: u32,
    /// The addresses that the peer's packets come from and go to.
    addresses: Vec<IpAddr>,
    pub(crate) class: Option<PairClass>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PairClass {
    pub(crate) minor: u16,
    pub(crate) rate_bps: f64,
    pub(crate) ceil_bps: f64,
    pub(crate) leaf_bytes: u32,
}

/// An interface under guarantees, until this value is dropped.
#[derive(Debug)]
pub struct Shaper {
    pub(crate) netlink: Netlink,
    /// Announcements of changes that other programs make.
    pub(crate) hearing: Hearing,
    pub(crate) link: Link,
    pub(crate) setup: Setup,
    before: Before,
    /// Whether its state stays in the kernel when it is dropped.
    leaves: bool,
    /// The highest rate of packets in no pair, in bit/s.
    rest_bps: u64,
    pub(crate) programs: Option<Programs>,
    without_bpf: Option<String>,
    /// The host's own addresses in packets: those behind and outside a NAT.
    own: Vec<IpAddr>,
    pub(crate) peers: HashMap<IpAddr, Peer>,
    /// The peer whose packets have an address.
    owners: HashMap<IpAddr, IpAddr>,
    free_minors: Vec<u16>,
    next_minor: u16,
    _claim: Claim,
}

impl Shaper {
    /// Sets up the interface with the host's address in this thread's network namespace: a root HTB, and classifiers.
    /// First removes the state that a killed process left there.
    ///
    /// # Errors
    /// If there is no such interface, it has a root qdisc of another program, or the kernel refuses.
    pub fn install(setup: Setup) -> Result<Self, ShaperError> {
        let claim = Claim::take()?.ok_or(ShaperError::Claimed)?;
        let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
        let hearing = tc::changes(&netlink).map_err(ShaperError::kernel("watch for changes to queues"))?;
        let mut link = find(&mut netlink, setup.address)?;
        if remove(&mut netlink, &link, None)? {
            link = find(&mut netlink, setup.address)?;
        }
        let qdiscs = tc::qdiscs(&mut netlink).map_err(ShaperError::kernel("list qdiscs"))?;
        // Qdiscs that the kernel chose itself have no handle.
        if let Some(other) = qdiscs
            .iter()
            .find(|qdisc| qdisc.device == link.index && qdisc.is_root() && qdisc.handle != 0)
        {
            return Err(ShaperError::Occupied {
                device: link.name,
                kind: other.kind.clone(),
            });
        }
        let of_link = |qdisc: &&tc::Qdisc| qdisc.device == link.index;
        let before = Before::of(&link, qdiscs.iter().filter(of_link).any(tc::Qdisc::is_clsact));
        let (programs, without_bpf) = match setup.bpf.then(Programs::load) {
            Some(Ok(programs)) => (Some(programs), None),
            Some(Err(error)) => (None, Some(format!("the kernel refuses BPF programs: {error}"))),
            None => (None, Some("BPF was not asked for".to_owned())),
        };
        if programs.is_some() && qdiscs.iter().filter(of_link).any(tc::Qdisc::is_ingress) {
            return Err(ShaperError::Ingress(link.name));
        }
        let mut shaper = Self {
            netlink,
            hearing,
            link,
            setup,
            before,
            leaves: false,
            rest_bps: setup.newcomers_bps,
            programs,
            without_bpf,
            own: vec![setup.address],
            peers: HashMap::new(),
            owners: HashMap::new(),
            free_minors: Vec::new(),
            next_minor: FIRST_PAIR,
            _claim: claim,
        };
        shaper.build()?;
        // The kernel does not say whose a change to a link was.
        shaper.is_disturbed();
        Ok(shaper)
    }

    fn build(&mut self) -> Result<(), ShaperError> {
        let device = self.link.index;
        let name = self.link.name.clone();
        let mut messages = vec![tc::gso_max_segs(device, GSO_SEGMENTS), tc::htb_root(device, false)];
        messages.extend(self.host_classes());
        // One by one, so that the first refusal is the one reported.
        for message in messages {
            self.netlink
                .one(message)
                .map_err(ShaperError::kernel(format!("shape {name}")))?;
        }
        self.attach()
    }

    /// Attaches the classifiers in both directions, unless they are attached.
    pub(crate) fn attach(&mut self) -> Result<(), ShaperError> {
        let Some(programs) = &self.programs else {
            return Ok(());
        };
        let device = self.link.index;
        let failed = || ShaperError::kernel(format!("classify on {}", self.link.name));
        let has_clsact = tc::qdiscs(&mut self.netlink)
            .map_err(failed())?
            .iter()
            .any(|qdisc| qdisc.device == device && qdisc.is_clsact());
        if !has_clsact {
            self.netlink.one(tc::clsact(device)).map_err(failed())?;
        }
        for (way, program) in [(Way::Egress, &programs.egress), (Way::Ingress, &programs.ingress)] {
            let present = tc::filters(&mut self.netlink, device, way).map_err(failed())?;
            if present.ours.is_none() {
                let message = tc::program(device, way, program.as_raw_fd(), &self.before.name());
                self.netlink.one(message).map_err(failed())?;
            }
        }
        Ok(())
    }

    /// The messages that create the classes of the host, of its newcomers and of the rest, or change their rates.
    pub(crate) fn host_classes(&self) -> Vec<Message> {
        let device = self.link.index;
        let mut messages = vec![self.host_class(VM)];
        for minor in [NEWCOMERS, REST] {
            messages.push(self.host_class(minor));
            messages.push(tc::leaf(
                device,
                minor,
                self.link.sizes.leaf_bytes(self.host_rate_bps(minor)),
            ));
        }
        messages
    }

    /// The rate of a class that is no pair's, in bit/s.
    pub(crate) fn host_rate_bps(&self, minor: u16) -> f64 {
        let bps = match minor {
            VM => self.setup.limit_bps,
            REST => self.rest_bps,
            _ => self.setup.newcomers_bps,
        };
        bps as f64
    }

    fn host_class(&self, minor: u16) -> Message {
        let bps = self.host_rate_bps(minor);
        let parent = if minor == VM {
            tc::ROOT
        } else {
            tc::ROOT | u32::from(VM)
        };
        tc::class(
            self.link.index,
            minor,
            parent,
            self.link.sizes.rates(bps, bps),
            self.link.sizes.quantum(bps),
            0,
        )
    }

    /// The message that creates the class of a pair, or changes its rates.
    pub(crate) fn pair_class(&self, class: &PairClass) -> Message {
        let sizes = self.link.sizes;
        tc::class(
            self.link.index,
            class.minor,
            tc::ROOT | u32::from(VM),
            sizes.rates(class.rate_bps.min(class.ceil_bps), class.ceil_bps),
            sizes.quantum(class.rate_bps),
            0,
        )
    }

    /// The interface's name.
    pub fn device(&self) -> &str {
        &self.link.name
    }

    /// The reason why it works without BPF, in which case packets are neither counted nor numbered and only static
    /// rates make sense. `None` with BPF.
    pub fn without_bpf(&self) -> Option<&str> {
        self.without_bpf.as_deref()
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

    /// Sets the rates of pairs in batches. Creates missing classes and changes those that differ by more than `CHANGED`. Returns the
    /// number of classes touched.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set(&mut self, pairs: &[PairRate]) -> Result<usize, ShaperError> {
        let mut messages = Vec::new();
        let mut fresh = Vec::new();
        let mut touched = 0;
        for pair in pairs {
            self.watch(pair.target)?;
            let device = self.link.index;
            let before = self.peers[&pair.target].class;
            let differs = |old: f64, new: f64| (new - old).abs() > CHANGED * old;
            if before
                .is_some_and(|class| !differs(class.rate_bps, pair.rate_bps) && !differs(class.ceil_bps, pair.ceil_bps))
            {
                continue;
            }
            touched += 1;
            let minor = match before {
                Some(class) => class.minor,
                None => self.minor()?,
            };
            // The classifier drops packets by its estimate, before the queue is full.
            let wanted = 2 * self.link.sizes.leaf_bytes(pair.ceil_bps);
            let mut leaf = before.map_or(0, |class| class.leaf_bytes);
            let mut queue = None;
            // Do not change the queue at every step: its length may be a little off.
            if wanted > leaf + leaf / 4 || wanted < leaf / 2 {
                leaf = wanted;
                queue = Some(tc::leaf(device, minor, wanted));
            }
            self.reckon(pair.target, pair.ceil_bps);
            let class = PairClass {
                minor,
                rate_bps: pair.rate_bps,
                ceil_bps: pair.ceil_bps,
                leaf_bytes: leaf,
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

    /// Makes the classifier estimate the queue of a pair's class and drop packets that do not fit; 0 bit/s = stop.
    fn reckon(&self, peer: IpAddr, ceil_bps: f64) {
        if let Some(programs) = &self.programs {
            let place = self.peers[&peer].place;
            programs
                .out
                .set_word(place, out::ROOM, self.link.sizes.leaf_bytes(ceil_bps).into());
            programs
                .out
                .set_word(place, out::DRAIN, (ceil_bps / 8.0 * RECKONED) as u64);
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
        self.reckon(peer, 0.0);
        self.netlink
            .one(tc::drop_class(self.link.index, class.minor))
            .map_err(ShaperError::kernel("remove a class"))?;
        self.free_minors.push(class.minor);
        Ok(())
    }

    /// Changes the highest rates of the host and of its newcomers, in bit/s.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn limit(&mut self, limit_bps: u64, newcomers_bps: u64) -> Result<(), ShaperError> {
        if (limit_bps, newcomers_bps) == (self.setup.limit_bps, self.setup.newcomers_bps) {
            return Ok(());
        }
        self.setup.limit_bps = limit_bps;
        self.setup.newcomers_bps = newcomers_bps;
        let messages = self.host_classes();
        self.netlink.all(messages).map_err(ShaperError::kernel("change limits"))
    }

    /// Changes the highest rate of all packets together that leave in no pair, in bit/s.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn limit_rest(&mut self, bps: u64) -> Result<(), ShaperError> {
        let before = self.rest_bps as f64;
        if (bps as f64 - before).abs() <= CHANGED * before {
            return Ok(());
        }
        self.rest_bps = bps;
        let leaf = tc::leaf(self.link.index, REST, self.link.sizes.leaf_bytes(bps as f64));
        let messages = vec![self.host_class(REST), leaf];
        self.netlink.all(messages).map_err(ShaperError::kernel("change limits"))
    }

    /// The bytes of all packets that left in no pair since the interface was set up; 0 without BPF.
    pub fn rest_bytes(&self) -> u64 {
        let programs = self.programs.as_ref();
        programs.map_or(0, |programs| programs.rest.get(0)[rest::BYTES])
    }

    /// Leaves the classes and classifiers in the kernel when this value is dropped. [`crate::freeze`] then makes them
    /// static, and the next process that shapes here removes them.
    pub fn leave(&mut self) {
        self.leaves = true;
    }

    /// Lets the datagrams of a socket wait in no class, if they have the type of service [`crate::UNNUMBERED`].
    ///
    /// # Errors
    /// If the kernel does not identify the socket.
    pub fn exempt(&self, socket: &impl AsRawFd) -> Result<(), ShaperError> {
        let cookie = socket_cookie(socket).map_err(ShaperError::kernel("identify the agent's socket"))?;
        if let Some(programs) = &self.programs {
            programs.rest.set_word(0, rest::COOKIE, cookie);
        }
        Ok(())
    }

    /// Sets the phantom queue of all arriving packets: the rate at which it drains, in bit/s (0 = no queue), and the
    /// length from which it marks.
    pub fn phantom(&mut self, drain_bps: u64, threshold_bytes: u64) {
        if let Some(programs) = &self.programs {
            programs.phantom.set_word(0, phantom::THRESHOLD, threshold_bytes.max(1));
            programs.phantom.set_word(0, phantom::DRAIN, drain_bps / 8);
        }
    }

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

impl Drop for Shaper {
    fn drop(&mut self) {
        if self.leaves {
            return;
        }
        // The interface may have disappeared with its namespace.
        let _ = remove(&mut self.netlink, &self.link, Some(self.before));
    }
}

/// The priority that keeps a socket's packets out of the classes where no classifier chooses them, for the agents' own
/// messages.
pub const UNSHAPED: u32 = tc::ROOT;

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
