//! Traffic control as netlink messages: HTB classes, their leaf queues, classifiers, and the kernel's counts.
//!
//! Layouts are those of `linux/pkt_sched.h`, `linux/pkt_cls.h` and `linux/if_link.h`.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use gavotte_kernel::netlink::{
    Hearing, Message, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Netlink, attribute, text, u32_at, u64_at,
};

use crate::sizes::{Rates, Sizes};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const IFLA_ADDRESS_NAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFA_LOCAL: u16 = 2;
const IFA_ADDRESS: u16 = 1;

const TC_H_ROOT: u32 = 0xFFFF_FFFF;
const TC_H_CLSACT: u32 = 0xFFFF_FFF1;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const ETH_P_ALL: u32 = 3;
const ETH_P_IP: u32 = 0x0800;
const ETH_P_IPV6: u32 = 0x86dd;
/// One kernel tick of a token bucket is 64 ns.
const TICK_SHIFT: u32 = 6;

/// The major number of our root qdisc, by which a later process recognises it. It spells "gv".
pub(crate) const MAJOR: u32 = 0x6776;
/// The handle of our root qdisc.
pub(crate) const ROOT: u32 = MAJOR << 16;
/// The class of all traffic of the host.
pub(crate) const VM: u16 = 1;
/// The class of pairs that do not have their own class yet.
pub(crate) const NEWCOMERS: u16 = 2;
/// The class of packets that leave in no pair.
pub(crate) const REST: u16 = 3;
/// The first class of a pair.
pub(crate) const FIRST_PAIR: u16 = 16;
/// Linux's default for the segments of a packet.
pub(crate) const GSO_SEGMENTS_OF_LINUX: u32 = 65_535;
/// The priority of our filters.
const FILTER_PRIORITY: u32 = 0x6776;

/// The direction in which packets cross an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Arriving packets, before the host sees them.
    Ingress,
    /// Leaving packets, before they wait in a qdisc.
    Egress,
}

impl Way {
    fn parent(self) -> u32 {
        match self {
            Self::Ingress => 0xFFFF_FFF2,
            Self::Egress => 0xFFFF_FFF3,
        }
    }
}

/// The kernel's counts for a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Bytes that have left the class.
    pub bytes: u64,
    /// Packets that have left the class, with GSO packets counted as segments.
    pub packets: u64,
    /// Packets that found the queue full; a GSO packet counts once.
    pub drops: u64,
    /// Bytes that wait.
    pub backlog_bytes: u32,
}

/// `RTMGRP_LINK` and `RTMGRP_TC`: changes to interfaces, and to their qdiscs, classes and filters.
const CHANGES: u32 = 1 | 1 << 3;

/// Subscribes to changes that others than this socket make.
pub(crate) fn changes(except: &Netlink) -> io::Result<Hearing> {
    Hearing::routes(CHANGES, except.port()?)
}

fn tcmsg(device: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for word in [device, handle, parent, info] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Makes our HTB the root qdisc. It may replace another one only if `replace` is set.
pub(crate) fn htb_root(device: u32, replace: bool) -> Message {
    // Version 3, rate2quantum 10. Packets that match no class wait in that of the rest, also when the classifier is gone.
    let words: Vec<u8> = [3u32, 10, REST.into(), 0, 0]
        .iter()
        .flat_map(|word| word.to_ne_bytes())
        .collect();
    let exclusive = if replace { NLM_F_REPLACE } else { NLM_F_EXCL };
    Message::new(
        RTM_NEWQDISC,
        NLM_F_CREATE | exclusive,
        &tcmsg(device, ROOT, TC_H_ROOT, 0),
    )
    .put_text(TCA_KIND, "htb")
    .nest(TCA_OPTIONS, |inside| inside.put(TCA_HTB_INIT, &words))
}

/// Creates a class below `parent`, or changes its rates.
pub(crate) fn class(device: u32, minor: u16, parent: u32, rates: Rates, quantum_bytes: u32, priority: u32) -> Message {
    let spec = |bps: u64| {
        let mut spec = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0];
        spec.extend_from_slice(&u32::try_from(bps / 8).unwrap_or(u32::MAX).to_ne_bytes());
        spec
    };
    let ticks = |bps: u64| {
        let ns = u128::from(rates.burst_bytes) * 8 * 1_000_000_000 / u128::from(bps.max(1));
        u32::try_from(ns >> TICK_SHIFT).unwrap_or(u32::MAX).max(1)
    };
    let mut options = [spec(rates.rate_bps), spec(rates.ceil_bps)].concat();
    for word in [ticks(rates.rate_bps), ticks(rates.ceil_bps), quantum_bytes, 0, priority] {
        options.extend_from_slice(&word.to_ne_bytes());
    }
    let handle = ROOT | u32::from(minor);
    Message::new(RTM_NEWTCLASS, NLM_F_CREATE, &tcmsg(device, handle, parent, 0))
        .put_text(TCA_KIND, "htb")
        .nest(TCA_OPTIONS, |inside| {
            inside
                .put(TCA_HTB_PARMS, &options)
                .put(TCA_HTB_RATE64, &(rates.rate_bps / 8).to_ne_bytes())
                .put(TCA_HTB_CEIL64, &(rates.ceil_bps / 8).to_ne_bytes())
        })
}

pub(crate) fn drop_class(device: u32, minor: u16) -> Message {
    Message::new(RTM_DELTCLASS, 0, &tcmsg(device, ROOT | u32::from(minor), 0, 0))
}

/// Creates the queue of a class, or changes its length.
pub(crate) fn leaf(device: u32, minor: u16, limit_bytes: u32) -> Message {
    let handle = (0x8000 | u32::from(minor)) << 16;
    Message::new(
        RTM_NEWQDISC,
        NLM_F_CREATE | NLM_F_REPLACE,
        &tcmsg(device, handle, ROOT | u32::from(minor), 0),
    )
    .put_text(TCA_KIND, "bfifo")
    .put_u32(TCA_OPTIONS, limit_bytes)
}

pub(crate) fn clsact(device: u32) -> Message {
    Message::new(
        RTM_NEWQDISC,
        NLM_F_CREATE | NLM_F_EXCL,
        &tcmsg(device, 0xFFFF_0000, TC_H_CLSACT, 0),
    )
    .put_text(TCA_KIND, "clsact")
}

pub(crate) fn drop_clsact(device: u32) -> Message {
    Message::new(RTM_DELQDISC, 0, &tcmsg(device, 0xFFFF_0000, TC_H_CLSACT, 0)).put_text(TCA_KIND, "clsact")
}

/// Makes `mq` the root qdisc, with the queues that Linux chooses.
pub(crate) fn mq_root(device: u32, major: u16) -> Message {
    Message::new(
        RTM_NEWQDISC,
        NLM_F_CREATE | NLM_F_EXCL,
        &tcmsg(device, u32::from(major) << 16, TC_H_ROOT, 0),
    )
    .put_text(TCA_KIND, "mq")
}

/// Makes a qdisc with the options that the kernel has listed.
pub(crate) fn qdisc(device: u32, parent: u32, major: u16, kind: &str, options: &[u8]) -> Message {
    let message = Message::new(
        RTM_NEWQDISC,
        NLM_F_CREATE | NLM_F_REPLACE,
        &tcmsg(device, u32::from(major) << 16, parent, 0),
    )
    .put_text(TCA_KIND, kind);
    if options.is_empty() {
        message
    } else {
        message.put(TCA_OPTIONS, options)
    }
}

pub(crate) fn drop_root(device: u32) -> Message {
    Message::new(RTM_DELQDISC, 0, &tcmsg(device, ROOT, TC_H_ROOT, 0))
}

fn filter_info(protocol: u32) -> u32 {
    FILTER_PRIORITY << 16 | u32::from((protocol as u16).to_be())
}

/// Attaches a loaded program to a direction of an interface.
pub(crate) fn program(device: u32, way: Way, fd: i32, name: &str) -> Message {
    Message::new(
        RTM_NEWTFILTER,
        NLM_F_CREATE | NLM_F_EXCL,
        &tcmsg(device, 1, way.parent(), filter_info(ETH_P_ALL)),
    )
    .put_text(TCA_KIND, "bpf")
    .nest(TCA_OPTIONS, |inside| {
        inside
            .put_u32(TCA_BPF_FD, fd as u32)
            .put_text(TCA_BPF_NAME, name)
            .put_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT)
    })
}

pub(crate) fn drop_program(device: u32, way: Way) -> Message {
    Message::new(
        RTM_DELTFILTER,
        0,
        &tcmsg(device, 0, way.parent(), filter_info(ETH_P_ALL)),
    )
}

/// Directs packets for `target` to a class, without BPF.
pub(crate) fn u32_filter(device: u32, target: IpAddr, minor: u16) -> Message {
    // The position of the destination address in the header, in words of 4 bytes.
    let (protocol, begin, address) = match target {
        IpAddr::V4(address) => (ETH_P_IP, 16, address.octets().to_vec()),
        IpAddr::V6(address) => (ETH_P_IPV6, 24, address.octets().to_vec()),
    };
    // struct tc_u32_sel: flags (TC_U32_TERMINAL), offshift, nkeys, offmask, off, offoff, hoff, hmask; of each key:
    // mask, value, offset, offset mask.
    let mut selector = vec![1, 0, (address.len() / 4) as u8, 0];
    selector.extend_from_slice(&[0; 12]);
    for (word, value) in address.chunks(4).enumerate() {
        selector.extend_from_slice(&u32::MAX.to_ne_bytes());
        selector.extend_from_slice(value);
        selector.extend_from_slice(&(begin + 4 * word as i32).to_ne_bytes());
        selector.extend_from_slice(&0i32.to_ne_bytes());
    }
    // Filters of one priority must have the same protocol.
    let priority = FILTER_PRIORITY + u32::from(protocol == ETH_P_IPV6);
    let info = priority << 16 | u32::from((protocol as u16).to_be());
    Message::new(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, &tcmsg(device, 0, ROOT, info))
        .put_text(TCA_KIND, "u32")
        .nest(TCA_OPTIONS, |inside| {
            inside
                .put_u32(TCA_U32_CLASSID, ROOT | u32::from(minor))
                .put(TCA_U32_SEL, &selector)
        })
}

fn ifinfomsg(device: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&device.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes
}

pub(crate) fn gso_max_segs(device: u32, segments: u32) -> Message {
    Message::new(RTM_NEWLINK, 0, &ifinfomsg(device)).put_u32(IFLA_GSO_MAX_SEGS, segments)
}

/// An interface.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) sizes: Sizes,
    /// The largest number of segments that one packet may have until it leaves.
    pub(crate) gso_max_segs: u32,
}

pub(crate) fn links(netlink: &mut Netlink) -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    netlink.dump(Message::new(RTM_GETLINK, 0, &ifinfomsg(0)), |body| {
        let rest = body.get(16..).unwrap_or_default();
        if let (Some(index), Some(name)) = (u32_at(body, 4), attribute(rest, IFLA_ADDRESS_NAME)) {
            let number = |kind| attribute(rest, kind).and_then(|value| u32_at(value, 0));
            links.push(Link {
                index,
                name: text(name),
                sizes: Sizes::of_mtu(number(IFLA_MTU).unwrap_or(1500)),
                gso_max_segs: number(IFLA_GSO_MAX_SEGS).unwrap_or(GSO_SEGMENTS_OF_LINUX),
            });
        }
    })?;
    Ok(links)
}

/// The index of the interface that has an address.
pub(crate) fn device_of(netlink: &mut Netlink, address: IpAddr) -> io::Result<Option<u32>> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (libc::AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (libc::AF_INET6, address.octets().to_vec()),
    };
    let mut parent = None;
    netlink.dump(
        Message::new(RTM_GETADDR, 0, &[family as u8, 0, 0, 0, 0, 0, 0, 0]),
        |body| {
            let rest = body.get(8..).unwrap_or_default();
            let own = attribute(rest, IFA_LOCAL).or_else(|| attribute(rest, IFA_ADDRESS));
            if own == Some(bytes.as_slice()) {
                parent = u32_at(body, 4);
            }
        },
    )?;
    Ok(parent)
}

/// A qdisc, as the kernel lists it.
#[derive(Clone, Debug)]
pub(crate) struct Qdisc {
    pub(crate) device: u32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    /// Its options, as the kernel lists them.
    pub(crate) options: Vec<u8>,
}

impl Qdisc {
    pub(crate) fn is_root(&self) -> bool {
        self.parent == TC_H_ROOT
    }

    /// The upper half of its handle.
    pub(crate) fn major(&self) -> u16 {
        (self.handle >> 16) as u16
    }

    pub(crate) fn is_clsact(&self) -> bool {
        self.kind == "clsact"
    }

    /// The older qdisc of arriving packets alone, which excludes `clsact`.
    pub(crate) fn is_ingress(&self) -> bool {
        self.kind == "ingress"
    }
}

pub(crate) fn qdiscs(netlink: &mut Netlink) -> io::Result<Vec<Qdisc>> {
    let mut all = Vec::new();
    netlink.dump(Message::new(RTM_GETQDISC, 0, &tcmsg(0, 0, 0, 0)), |body| {
        if let (Some(device), Some(handle), Some(parent)) = (u32_at(body, 4), u32_at(body, 8), u32_at(body, 12)) {
            let rest = body.get(20..).unwrap_or_default();
            let kind = attribute(rest, TCA_KIND).map(text);
            all.push(Qdisc {
                device,
                handle,
                parent,
                kind: kind.unwrap_or_default(),
                options: attribute(rest, TCA_OPTIONS).unwrap_or_default().to_vec(),
            });
        }
    })?;
    Ok(all)
}

/// The filters in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filters {
    /// How many there are.
    pub(crate) count: usize,
    /// The name of ours, if it is one of them.
    pub(crate) ours: Option<String>,
}

pub(crate) fn filters(netlink: &mut Netlink, device: u32, way: Way) -> io::Result<Filters> {
    let mut all = Filters::default();
    netlink.dump(
        Message::new(RTM_GETTFILTER, 0, &tcmsg(device, 0, way.parent(), 0)),
        |body| {
            // Each chain is listed once without a handle.
            if u32_at(body, 8).is_none_or(|handle| handle == 0) {
                return;
            }
            all.count += 1;
            if u32_at(body, 16).is_some_and(|info| info >> 16 == FILTER_PRIORITY) {
                let options = attribute(body.get(20..).unwrap_or_default(), TCA_OPTIONS).unwrap_or_default();
                all.ours = Some(attribute(options, TCA_BPF_NAME).map(text).unwrap_or_default());
            }
        },
    )?;
    Ok(all)
}

/// The counts of each of our classes on an interface, by minor number.
pub(crate) fn counts(netlink: &mut Netlink, device: u32) -> io::Result<BTreeMap<u16, ClassCounts>> {
    let mut all = BTreeMap::new();
    netlink.dump(Message::new(RTM_GETTCLASS, 0, &tcmsg(device, 0, 0, 0)), |body| {
        let Some(handle) = u32_at(body, 8).filter(|handle| handle >> 16 == MAJOR) else {
            return;
        };
        let stats = attribute(body.get(20..).unwrap_or_default(), TCA_STATS2).unwrap_or_default();
        let basic = attribute(stats, TCA_STATS_BASIC).unwrap_or_default();
        let queue = attribute(stats, TCA_STATS_QUEUE).unwrap_or_default();
        // The kernel reports packets in 32 bits if these suffice.
        all.insert(
            handle as u16,
            ClassCounts {
                bytes: u64_at(basic, 0).unwrap_or(0),
                packets: u32_at(basic, 8).unwrap_or(0).into(),
                drops: u32_at(queue, 8).unwrap_or(0).into(),
                backlog_bytes: u32_at(queue, 4).unwrap_or(0),
            },
        );
    })?;
    Ok(all)
}

/// The rate that is always available to each of our classes on an interface, and its highest rate, in bytes per second,
/// by minor number.
pub(crate) fn class_rates(netlink: &mut Netlink, device: u32) -> io::Result<BTreeMap<u16, [u64; 2]>> {
    let mut all = BTreeMap::new();
    netlink.dump(Message::new(RTM_GETTCLASS, 0, &tcmsg(device, 0, 0, 0)), |body| {
        let Some(handle) = u32_at(body, 8).filter(|handle| handle >> 16 == MAJOR) else {
            return;
        };
        let options = attribute(body.get(20..).unwrap_or_default(), TCA_OPTIONS).unwrap_or_default();
        // struct tc_htb_opt begins with two tc_ratespec of 12 bytes, whose rates have 32 bits.
        let rate = |wide, narrow_at| {
            let wide = attribute(options, wide).and_then(|value| u64_at(value, 0));
            let narrow = attribute(options, TCA_HTB_PARMS).and_then(|value| u32_at(value, narrow_at));
            wide.or(narrow.map(u64::from))
        };
        if let Some((rate, ceil)) = rate(TCA_HTB_RATE64, 8).zip(rate(TCA_HTB_CEIL64, 20)) {
            all.insert(handle as u16, [rate, ceil]);
        }
    })?;
    Ok(all)
}
