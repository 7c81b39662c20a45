//! One interface under guarantees: its classes, programs and counters.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use crate::before::Before;
use crate::claim::{Claim, find, remove};
use crate::error::ShaperError;
use crate::loaded::Programs;
use crate::peer::{CHANGED, Peer};
use crate::programs::{phantom, rest};
use crate::queues::Queues;
use crate::sizes::{BUCKET_BYTES, GSO_SEGMENTS};
use crate::tc::{self, FIRST_PAIR, Link, NEWCOMERS, REST, VM, Way};
use gavotte_kernel::bpf::socket_cookie;
use gavotte_kernel::netlink::{Hearing, Message, Netlink};

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
    pub(crate) own: Vec<IpAddr>,
    pub(crate) peers: HashMap<IpAddr, Peer>,
    /// The peer whose packets have an address.
    pub(crate) owners: HashMap<IpAddr, IpAddr>,
    pub(crate) free_minors: Vec<u16>,
    pub(crate) next_minor: u16,
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
        let mut of_link = qdiscs;
        of_link.retain(|qdisc| qdisc.device == link.index);
        let queues = replaceable(&link, &of_link)?;
        let before = Before::of(&link, of_link.iter().any(tc::Qdisc::is_clsact), queues);
        if !before.fits() {
            let (device, kind) = (link.name, "too many different qdiscs".into());
            return Err(ShaperError::Queues { device, kind });
        }
        let (programs, without_bpf) = match setup.bpf.then(Programs::load) {
            Some(Ok(programs)) => (Some(programs), None),
            Some(Err(error)) => (None, Some(format!("the kernel refuses BPF programs: {error}"))),
            None => (None, Some("BPF was not asked for".to_owned())),
        };
        if programs.is_some() && of_link.iter().any(tc::Qdisc::is_ingress) {
            return Err(ShaperError::Ingress(link.name));
        }
        if programs.is_none() && before.queues.is_some() {
            let (device, kind) = (link.name, "mq".into());
            return Err(ShaperError::Occupied { device, kind });
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
        let mut messages = vec![
            tc::gso_max_segs(device, GSO_SEGMENTS),
            tc::htb_root(device, self.before.queues.is_some()),
        ];
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
        let ways = [(Way::Egress, &programs.egress), (Way::Ingress, &programs.ingress)];
        for ((way, program), name) in ways.into_iter().zip(self.before.names()) {
            let present = tc::filters(&mut self.netlink, device, way).map_err(failed())?;
            if present.ours.is_none() {
                let message = tc::program(device, way, program.as_raw_fd(), &name);
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
            self.link
                .sizes
                .rates(bps, bps, if minor == NEWCOMERS { BUCKET_BYTES } else { 0 }),
            self.link.sizes.quantum(bps),
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
}

/// Checks that the interface has no root qdisc of another program, but for an `mq` that can be made again. Returns that.
fn replaceable(link: &Link, of_link: &[tc::Qdisc]) -> Result<Option<Queues>, ShaperError> {
    // Qdiscs that the kernel chose itself have no handle.
    let Some(root) = of_link.iter().find(|qdisc| qdisc.is_root() && qdisc.handle != 0) else {
        return Ok(None);
    };
    let device = link.name.clone();
    if root.kind != "mq" {
        let kind = root.kind.clone();
        return Err(ShaperError::Occupied { device, kind });
    }
    Queues::read(root, of_link)
        .map(Some)
        .map_err(|kind| ShaperError::Queues { device, kind })
}

impl Drop for Shaper {
    fn drop(&mut self) {
        if self.leaves {
            return;
        }
        // The interface may have disappeared with its namespace.
        let _ = remove(&mut self.netlink, &self.link, Some(&self.before));
    }
}

/// The priority that keeps a socket's packets out of the classes where no classifier chooses them, for the agents' own
/// messages.
pub const UNSHAPED: u32 = tc::ROOT;
