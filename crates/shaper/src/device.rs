//! One interface under guarantees: its classes, programs and counters.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::error::ShaperError;
use crate::programs::{self, Maps, arrived, out, phantom};
use crate::tc::{self, ClassCounts, Link, Rates, Way};
use gavotte_kernel::bpf::{self, Array, Kind};
use gavotte_kernel::netlink::{Message, Netlink};

/// Most pairs of one interface, both directions together.
pub const MAX_PAIRS: u32 = 8192;
/// What stands for no limit: more than any interface carries.
pub const UNLIMITED_BPS: u64 = 400_000_000_000;

/// Segments of the largest packet that is handed down whole: of 64 kB, HTB would send as many at once, and a queue of
/// 30 ms at 10 Mbit/s holds less.
const GSO_SEGMENTS: u32 = 4;
const PACKET_BYTES: u32 = 1514;
/// Depth of a class's bucket, as time at its rate: what a timer may be late.
const BURST_S: f64 = 0.001;
/// Length of a class's queue, as time at its rate.
const LEAF_S: f64 = 0.03;
const LEAST_LEAF_BYTES: u32 = 8 * PACKET_BYTES;
/// A class is reckoned to be a little slower than it is, so that its queue never holds more than the reckoning says.
const RECKONED: f64 = 0.995;
/// A class is told its rate anew when that differs by more than this.
const CHANGED: f64 = 0.01;

/// Class of everything of the host.
const VM: u16 = 1;
/// Class of pairs that have none of their own yet.
const NEWCOMERS: u16 = 2;
const FIRST_PAIR: u16 = 16;

/// How an interface is set up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The host's own address, by which the interface is found.
    pub address: Ipv4Addr,
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
    pub target: Ipv4Addr,
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

/// The programs and maps of an interface.
#[derive(Debug)]
struct Programs {
    pairs: bpf::HashMap<8, 8>,
    out: Array<{ out::WORDS }>,
    arrived: Array<{ arrived::WORDS }>,
    phantom: Array<{ phantom::WORDS }>,
    egress: OwnedFd,
    ingress: OwnedFd,
}

impl Programs {
    fn load(ect: bool) -> io::Result<Self> {
        let pairs = bpf::HashMap::new(MAX_PAIRS, "gv_pairs")?;
        let out = Array::new(MAX_PAIRS, "gv_out")?;
        let arrived = Array::new(MAX_PAIRS, "gv_arrived")?;
        let phantom = Array::new(1, "gv_phantom")?;
        let maps = Maps {
            pairs: pairs.fd(),
            out: out.fd(),
            arrived: arrived.fd(),
            phantom: phantom.fd(),
        };
        let egress = bpf::load(&programs::egress(maps, tc::MAJOR, ect), Kind::Classifier, "gv_egress")?;
        let ingress = bpf::load(&programs::ingress(maps, ect), Kind::Classifier, "gv_ingress")?;
        Ok(Self {
            pairs,
            out,
            arrived,
            phantom,
            egress,
            ingress,
        })
    }
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
    peers: HashMap<Ipv4Addr, Peer>,
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
        let (programs, without_bpf) = match setup.bpf.then(|| Programs::load(setup.ect)) {
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
    pub fn watch(&mut self, peer: Ipv4Addr) -> Result<(), ShaperError> {
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
            let (own, other) = (self.setup.address.octets(), peer.octets());
            let key = join(other, own);
            let value = join(place.to_ne_bytes(), [0; 4]);
            programs
                .pairs
                .set(key, value)
                .map_err(ShaperError::kernel("count a pair"))?;
        }
        Ok(())
    }

    /// Sends what goes to a peer to a class.
    fn point(&mut self, peer: Ipv4Addr, minor: u16) -> Result<(), ShaperError> {
        if let Some(programs) = &self.programs {
            let place = self.peers[&peer].place;
            let key = join(self.setup.address.octets(), peer.octets());
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
    fn reckon(&self, peer: Ipv4Addr, ceil_bps: f64) {
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
    pub fn idle(&mut self, peer: Ipv4Addr) -> Result<(), ShaperError> {
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
            programs.phantom.set_word(0, phantom::THRESHOLD, threshold_bytes);
            programs.phantom.set_word(0, phantom::DRAIN, drain_bps / 8);
        }
    }

    /// Counts of what goes to a peer; all 0 without BPF.
    pub fn sent(&self, peer: Ipv4Addr) -> Sent {
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
    pub fn received(&self, peer: Ipv4Addr) -> Received {
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
    pub fn renumber(&self, peer: Ipv4Addr) {
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
    pub fn classes(&mut self) -> Result<HashMap<Ipv4Addr, ClassCounts>, ShaperError> {
        let counts = tc::counts(&mut self.netlink, self.link.index).map_err(ShaperError::kernel("read classes"))?;
        let of = |(peer, known): (&Ipv4Addr, &Peer)| Some((*peer, *counts.get(&known.class?.minor)?));
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
/// The type of service (class selector 6) of packets that are not numbered, since they overtake others.
pub const UNNUMBERED: u8 = 0xc0;

/// The right to shape in this network namespace, which one process at a time has. The kernel takes it back when that ends.
#[derive(Debug)]
struct Claim(#[allow(dead_code)] UnixListener);

impl Claim {
    /// `None` when another process, or another part of this one, has it.
    fn take() -> Result<Option<Self>, ShaperError> {
        let failed = || ShaperError::kernel("claim this network namespace");
        // Abstract names are apart in each network namespace.
        let name = SocketAddr::from_abstract_name(b"gavotte-shaper").map_err(failed())?;
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Ok(Some(Self(listener))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(failed()(error)),
        }
    }
}

/// Removes whatever a process of ours that has ended left on any interface of this network namespace; gives their names.
/// Leaves everything alone while one lives that shapes here.
///
/// # Errors
/// When the kernel does not answer, or does not let us.
pub fn sweep() -> Result<Vec<String>, ShaperError> {
    let Some(_claim) = Claim::take()? else {
        return Ok(Vec::new());
    };
    let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
    let links = tc::links(&mut netlink).map_err(ShaperError::kernel("list interfaces"))?;
    let mut swept = Vec::new();
    for link in links {
        if remove(&mut netlink, &link)? {
            swept.push(link.name);
        }
    }
    Ok(swept)
}

/// Removes what is ours from an interface; tells whether anything was.
fn remove(netlink: &mut Netlink, link: &Link) -> Result<bool, ShaperError> {
    let failed = || ShaperError::kernel(format!("tidy up {}", link.name));
    let qdiscs = tc::qdiscs(netlink).map_err(failed())?;
    let of_link: Vec<_> = qdiscs.iter().filter(|qdisc| qdisc.device == link.index).collect();
    let mut found = false;
    if of_link.iter().any(|qdisc| qdisc.is_root() && qdisc.handle == tc::ROOT) {
        netlink.one(tc::drop_root(link.index)).map_err(failed())?;
        netlink
            .one(tc::gso_max_segs(link.index, GSO_SEGMENTS_OF_LINUX))
            .map_err(failed())?;
        found = true;
    }
    if of_link.iter().any(|qdisc| qdisc.is_clsact()) {
        let mut others = 0;
        let mut ours = false;
        for way in [Way::Egress, Way::Ingress] {
            let (count, own) = tc::filters(netlink, link.index, way).map_err(failed())?;
            others += count;
            if own {
                netlink.one(tc::drop_program(link.index, way)).map_err(failed())?;
                others -= 1;
                ours = true;
            }
        }
        if ours && others == 0 {
            netlink.one(tc::drop_clsact(link.index)).map_err(failed())?;
        }
        found |= ours;
    }
    Ok(found)
}

/// What an interface takes when nobody has set it.
const GSO_SEGMENTS_OF_LINUX: u32 = 65_535;

fn find(netlink: &mut Netlink, address: Ipv4Addr) -> Result<Link, ShaperError> {
    let index = tc::device_of(netlink, address)
        .map_err(ShaperError::kernel("list addresses"))?
        .ok_or_else(|| ShaperError::Device(format!("no interface here has the address {address}")))?;
    let links = tc::links(netlink).map_err(ShaperError::kernel("list interfaces"))?;
    links
        .into_iter()
        .find(|link| link.index == index)
        .ok_or_else(|| ShaperError::Device(format!("the interface with the address {address} is gone")))
}

fn rates(rate_bps: f64, ceil_bps: f64) -> Rates {
    let burst = (ceil_bps / 8.0 * BURST_S).max(f64::from(GSO_SEGMENTS * PACKET_BYTES));
    Rates {
        rate_bps: (rate_bps.max(8000.0) as u64).min(UNLIMITED_BPS),
        ceil_bps: (ceil_bps.max(8000.0) as u64).min(UNLIMITED_BPS),
        burst_bytes: burst.min(f64::from(u32::MAX)) as u32,
    }
}

fn quantum(rate_bps: f64) -> u32 {
    // HTB shares what is left among classes by these.
    (rate_bps / 8.0 * 0.01).clamp(f64::from(PACKET_BYTES), 200_000.0) as u32
}

fn leaf_bytes(ceil_bps: f64) -> u32 {
    let bytes = (ceil_bps / 8.0 * LEAF_S).min(16e6) as u32;
    bytes.max(LEAST_LEAF_BYTES)
}

fn join(left: [u8; 4], right: [u8; 4]) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&left);
    both[4..].copy_from_slice(&right);
    both
}

/// A port of a switch that marks: a phantom queue before what leaves an interface, until this is dropped.
#[derive(Debug)]
pub struct Port {
    netlink: Netlink,
    link: Link,
    phantom: Array<{ phantom::WORDS }>,
}

impl Port {
    /// Hangs a phantom queue before the interface `device`, which sets CE on ECN-capable packets that find more than
    /// `threshold_bytes` in it; it drains at `drain_bps`.
    ///
    /// # Errors
    /// When there is no such interface, or the kernel refuses.
    pub fn install(device: &str, drain_bps: u64, threshold_bytes: u64) -> Result<Self, ShaperError> {
        let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
        let links = tc::links(&mut netlink).map_err(ShaperError::kernel("list interfaces"))?;
        let link = links.into_iter().find(|link| link.name == device);
        let link = link.ok_or_else(|| ShaperError::Device(format!("no interface `{device}` here")))?;
        remove(&mut netlink, &link)?;
        let failed = || ShaperError::kernel(format!("mark at {device}"));
        let phantom = Array::<{ phantom::WORDS }>::new(1, "gv_phantom").map_err(failed())?;
        let mut words = [0; phantom::WORDS];
        words[phantom::DRAIN] = drain_bps / 8;
        words[phantom::THRESHOLD] = threshold_bytes;
        phantom.set(0, words);
        let maps = Maps {
            pairs: -1,
            out: -1,
            arrived: -1,
            phantom: phantom.fd(),
        };
        let program = bpf::load(&programs::port(maps), Kind::Classifier, "gv_port").map_err(failed())?;
        let qdiscs = tc::qdiscs(&mut netlink).map_err(failed())?;
        if !qdiscs
            .iter()
            .any(|qdisc| qdisc.device == link.index && qdisc.is_clsact())
        {
            netlink.one(tc::clsact(link.index)).map_err(failed())?;
        }
        netlink
            .one(tc::program(link.index, Way::Egress, program.as_raw_fd(), "gavotte"))
            .map_err(failed())?;
        Ok(Self { netlink, link, phantom })
    }

    /// Packets that passed, and those that found too much.
    pub fn counts(&self) -> (u64, u64) {
        let words = self.phantom.get(0);
        (words[phantom::PACKETS], words[phantom::MARKED])
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = remove(&mut self.netlink, &self.link);
    }
}
