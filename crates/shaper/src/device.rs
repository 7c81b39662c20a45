//! One interface under guarantees: its classes, programs and counters.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;

use crate::claim::{Claim, find, remove};
use crate::error::ShaperError;
use crate::loaded::{MAX_PAIRS, Programs};
use crate::programs::{arrived, out, phantom};
use crate::sizes::{GSO_SEGMENTS, RECKONED, leaf_bytes, quantum, rates};
use crate::tc::{self, ClassCounts, FIRST_PAIR, Link, NEWCOMERS, VM, Way};
use gavotte_kernel::netlink::{Message, Netlink};

/// A class is told its rate anew when that differs by more than this. Each telling takes the kernel 30 us, and the routing
/// lock: with 0.01 that was half of what a host with one pair cost.
const CHANGED: f64 = 0.03;

/// How an interface is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The host's own address, by which the interface is found.
    pub address: IpAddr,
    /// What the host may send at most, bit/s.
    pub limit_bps: u64,
    /// What pairs without a class of their own may send together, bit/s.
    pub newcomers_bps: u64,
    /// Whether packets are made ECN-capable between the hosts.
    pub ect: bool,
    /// Whether to use BPF where the kernel allows it.
    pub bpf: bool,
}

/// What a pair may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairRate {
    /// Whereto.
    pub target: IpAddr,
    /// What it may always send, bit/s.
    pub rate_bps: f64,
    /// What it may send at most, bit/s.
    pub ceil_bps: f64,
}

/// What was counted of packets to a host, since the interface was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that were numbered and went into their class.
    pub packets: u64,
    /// Bytes that did, with Ethernet's header.
    pub bytes: u64,
    /// Packets that the class had no room for; they have no number.
    pub dropped: u64,
}

/// What was counted of packets from a host, since the interface was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets that bore a number.
    pub packets: u64,
    /// All bytes with Ethernet's header.
    pub bytes: u64,
    /// Numbers that did not arrive (yet).
    pub gaps: u64,
    /// Packets with CE.
    pub ce: u64,
    /// Packets that found too much in the phantom queue.
    pub would_mark: u64,
}

/// What is known of a peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    place: u32,
    class: Option<PairClass>,
}

#[derive(Clone, Copy, Debug)]
struct PairClass {
    minor: u16,
    rate_bps: f64,
    ceil_bps: f64,
    leaf_bytes: u32,
}

/// An interface under guarantees, until this is dropped.
#[derive(Debug)]
pub struct Shaper {
    netlink: Netlink,
    link: Link,
    setup: Setup,
    programs: Option<Programs>,
    without_bpf: Option<String>,
    peers: HashMap<IpAddr, Peer>,
    free_minors: Vec<u16>,
    next_minor: u16,
    _claim: Claim,
}

impl Shaper {
    /// Takes the interface that has the host's address, in the network namespace of this thread: a root HTB, and
    /// classifiers. What a process left there that died is removed first.
    ///
    /// # Errors
    /// When there is no such interface, somebody else's root qdisc is there, or the kernel refuses.
    pub fn install(setup: Setup) -> Result<Self, ShaperError> {
        let claim = Claim::take()?.ok_or(ShaperError::Claimed)?;
        let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
        let link = find(&mut netlink, setup.address)?;
        remove(&mut netlink, &link)?;
        let qdiscs = tc::qdiscs(&mut netlink).map_err(ShaperError::kernel("list qdiscs"))?;
        // Those that the kernel chose itself have no handle.
        if let Some(other) = qdiscs
            .iter()
            .find(|qdisc| qdisc.device == link.index && qdisc.is_root() && qdisc.handle != 0)
        {
            return Err(ShaperError::Occupied {
                device: link.name,
                kind: other.kind.clone(),
            });
        }
        let (programs, without_bpf) = match setup.bpf.then(Programs::load) {
            Some(Ok(programs)) => (Some(programs), None),
            Some(Err(error)) => (None, Some(format!("the kernel refuses BPF programs: {error}"))),
            None => (None, Some("BPF was not asked for".to_owned())),
        };
        let mut shaper = Self {
            netlink,
            link,
            setup,
            programs,
            without_bpf,
            peers: HashMap::new(),
            free_minors: Vec::new(),
            next_minor: FIRST_PAIR,
            _claim: claim,
        };
        shaper.build()?;
        Ok(shaper)
    }

    fn build(&mut self) -> Result<(), ShaperError> {
        let device = self.link.index;
        let name = self.link.name.clone();
        let mut messages = vec![
            tc::gso_max_segs(device, GSO_SEGMENTS),
            tc::htb_root(device),
            self.vm_class(),
            self.newcomers_class(),
            tc::leaf(device, NEWCOMERS, leaf_bytes(self.setup.newcomers_bps as f64)),
        ];
        if let Some(programs) = &self.programs {
            let has_clsact = tc::qdiscs(&mut self.netlink)
                .map_err(ShaperError::kernel("list qdiscs"))?
                .iter()
                .any(|qdisc| qdisc.device == device && qdisc.is_clsact());
            if !has_clsact {
                messages.push(tc::clsact(device));
            }
            messages.push(tc::program(device, Way::Egress, programs.egress.as_raw_fd(), "gavotte"));
            messages.push(tc::program(
                device,
                Way::Ingress,
                programs.ingress.as_raw_fd(),
                "gavotte",
            ));
        }
        // One by one, so that the first refusal is the one that is told.
        for message in messages {
            self.netlink
                .one(message)
                .map_err(ShaperError::kernel(format!("shape {name}")))?;
        }
        Ok(())
    }

    fn vm_class(&self) -> Message {
        let bps = self.setup.limit_bps;
        tc::class(
            self.link.index,
            VM,
            tc::ROOT,
            rates(bps as f64, bps as f64),
            quantum(bps as f64),
            0,
        )
    }

    fn newcomers_class(&self) -> Message {
        let bps = self.setup.newcomers_bps as f64;
        let parent = tc::ROOT | u32::from(VM);
        tc::class(self.link.index, NEWCOMERS, parent, rates(bps, bps), quantum(bps), 0)
    }

    /// The interface's name.
    pub fn device(&self) -> &str {
        &self.link.name
    }

    /// Why it works without BPF: packets are neither counted nor numbered, and only static rates make sense. `None` with.
    pub fn without_bpf(&self) -> Option<&str> {
        self.without_bpf.as_deref()
    }

    /// Knows a peer from now on: what goes to it and comes from it is counted, and belongs to the newcomers until
    /// [`Self::set`] gives it a class.
    ///
    /// # Errors
    /// When there are too many, or the kernel refuses.
    pub fn watch(&mut self, peer: IpAddr) -> Result<(), ShaperError> {
        if self.peers.contains_key(&peer) {
            return Ok(());
        }
        let place = self.peers.len() as u32;
        if place >= MAX_PAIRS / 2 {
            return Err(ShaperError::Full(MAX_PAIRS / 2));
        }
        self.peers.insert(peer, Peer { place, class: None });
        self.point(peer, NEWCOMERS)?;
        if let Some(programs) = &self.programs {
            let value = join(place.to_ne_bytes(), [0; 4]);
            programs
                .pairs
                .set(key(peer, self.setup.address), value)
                .map_err(ShaperError::kernel("count a pair"))?;
            self.colour(place);
        }
        Ok(())
    }

    /// Says whether packets to and from a peer are made ECN-capable on their way.
    fn colour(&self, place: u32) {
        if let Some(programs) = &self.programs {
            programs.out.set_word(place, out::ECT, self.setup.ect.into());
            programs.arrived.set_word(place, arrived::ECT, self.setup.ect.into());
        }
    }

    /// Makes packets ECN-capable between the hosts from now on, or leaves them as they are.
    pub fn set_ect(&mut self, ect: bool) {
        self.setup.ect = ect;
        for peer in self.peers.values() {
            self.colour(peer.place);
        }
    }

    /// Sends what goes to a peer to a class.
    fn point(&mut self, peer: IpAddr, minor: u16) -> Result<(), ShaperError> {
        if let Some(programs) = &self.programs {
            let place = self.peers[&peer].place;
            let key = key(self.setup.address, peer);
            let value = join(place.to_ne_bytes(), (tc::ROOT | u32::from(minor)).to_ne_bytes());
            programs
                .pairs
                .set(key, value)
                .map_err(ShaperError::kernel("classify a pair"))
        } else if minor == NEWCOMERS {
            Ok(())
        } else {
            let filter = tc::u32_filter(self.link.index, peer, minor);
            self.netlink.one(filter).map_err(ShaperError::kernel("classify a pair"))
        }
    }

    /// Gives pairs their rates: makes the classes that are not there, changes those that differ by more than 1 %, in
    /// batches. Gives the number of classes touched.
    ///
    /// # Errors
    /// When the kernel refuses.
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
            let rates = rates(pair.rate_bps.min(pair.ceil_bps), pair.ceil_bps);
            let parent = tc::ROOT | u32::from(VM);
            messages.push(tc::class(device, minor, parent, rates, quantum(pair.rate_bps), 0));
            // The reckoning drops first.
            let wanted = 2 * leaf_bytes(pair.ceil_bps);
            let mut leaf = before.map_or(0, |class| class.leaf_bytes);
            // Not at every step: a queue may be a little off.
            if wanted > leaf + leaf / 4 || wanted < leaf / 2 {
                leaf = wanted;
                messages.push(tc::leaf(device, minor, wanted));
            }
            self.reckon(pair.target, pair.ceil_bps);
            let class = PairClass {
                minor,
                rate_bps: pair.rate_bps,
                ceil_bps: pair.ceil_bps,
                leaf_bytes: leaf,
            };
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

    /// Has the classifier reckon what waits in a pair's class, and drop what that has no room for; 0 bit/s = no more.
    fn reckon(&self, peer: IpAddr, ceil_bps: f64) {
        if let Some(programs) = &self.programs {
            let place = self.peers[&peer].place;
            programs.out.set_word(place, out::ROOM, leaf_bytes(ceil_bps).into());
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
        // Leaf handles need the upper bit.
        if minor >= 0x7ff0 {
            return Err(ShaperError::Full(MAX_PAIRS / 2));
        }
        self.next_minor += 1;
        Ok(minor)
    }

    /// Takes a pair's class away: its packets are newcomers again.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn idle(&mut self, peer: IpAddr) -> Result<(), ShaperError> {
        // Without BPF classes stay: a filter points at each.
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

    /// Changes what the host may send at most, and its newcomers, bit/s.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn limit(&mut self, limit_bps: u64, newcomers_bps: u64) -> Result<(), ShaperError> {
        if (limit_bps, newcomers_bps) == (self.setup.limit_bps, self.setup.newcomers_bps) {
            return Ok(());
        }
        self.setup.limit_bps = limit_bps;
        self.setup.newcomers_bps = newcomers_bps;
        let leaf = tc::leaf(self.link.index, NEWCOMERS, leaf_bytes(newcomers_bps as f64));
        let messages = vec![self.vm_class(), self.newcomers_class(), leaf];
        self.netlink.all(messages).map_err(ShaperError::kernel("change limits"))
    }

    /// Sets the phantom queue that everything arriving goes through: what drains it, bit/s (0 = there is none), and how
    /// much in it is too much.
    pub fn phantom(&mut self, drain_bps: u64, threshold_bytes: u64) {
        if let Some(programs) = &self.programs {
            programs.phantom.set_word(0, phantom::THRESHOLD, threshold_bytes.max(1));
            programs.phantom.set_word(0, phantom::DRAIN, drain_bps / 8);
        }
    }

    /// Counts of what goes to a peer; all 0 without BPF.
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

    /// Counts of what comes from a peer; all 0 without BPF.
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

    /// Begins the count of packets and gaps from a peer anew, which numbers its own anew.
    pub fn renumber(&self, peer: IpAddr) {
        if let Some((programs, peer)) = self.programs.as_ref().zip(self.peers.get(&peer)) {
            programs.arrived.set_word(peer.place, arrived::PACKETS, 0);
            programs.arrived.set_word(peer.place, arrived::NEXT, 0);
            programs.arrived.set_word(peer.place, arrived::FIRST, 0);
        }
    }

    /// What the kernel counted at the class of each pair that has one. Costs a system call, unlike [`Self::sent`].
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn classes(&mut self) -> Result<HashMap<IpAddr, ClassCounts>, ShaperError> {
        let counts = tc::counts(&mut self.netlink, self.link.index).map_err(ShaperError::kernel("read classes"))?;
        let of = |(peer, known): (&IpAddr, &Peer)| Some((*peer, *counts.get(&known.class?.minor)?));
        Ok(self.peers.iter().filter_map(of).collect())
    }
}

impl Drop for Shaper {
    fn drop(&mut self) {
        // The interface may be gone with its namespace.
        let _ = remove(&mut self.netlink, &self.link);
    }
}

/// The priority that keeps a socket's packets out of the classes: for agents' own talk.
pub const UNSHAPED: u32 = tc::ROOT;

fn join(left: [u8; 4], right: [u8; 4]) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&left);
    both[4..].copy_from_slice(&right);
    both
}

/// What a pair has in the map: both addresses, IPv4 as mapped into IPv6.
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
