//! The right to shape in a network namespace, and the removal of state that an ended process left there.

use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::before::Before;
use crate::error::ShaperError;
use crate::tc::{self, Link, Way};
use gavotte_kernel::netlink::Netlink;

/// The right to shape in this network namespace. One process at a time holds it, and the kernel releases it when the
/// process ends.
#[derive(Debug)]
pub(crate) struct Claim(#[allow(dead_code)] UnixListener);

impl Claim {
    /// Returns `None` if another process, or another part of this one, holds the right.
    pub(crate) fn take() -> Result<Option<Self>, ShaperError> {
        let failed = || ShaperError::kernel("claim this network namespace");
        // Each network namespace has its own abstract names.
        let name = SocketAddr::from_abstract_name(b"gavotte-shaper").map_err(failed())?;
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Ok(Some(Self(listener))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(failed()(error)),
        }
    }
}

/// Removes the state that an ended process of ours left on any interface of this network namespace. Returns the
/// interfaces' names. Changes nothing while a process shapes here.
///
/// # Errors
/// If the kernel does not answer or refuses.
pub fn sweep() -> Result<Vec<String>, ShaperError> {
    let Some(_claim) = Claim::take()? else {
        return Ok(Vec::new());
    };
    let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
    let links = tc::links(&mut netlink).map_err(ShaperError::kernel("list interfaces"))?;
    let mut swept = Vec::new();
    for link in links {
        if remove(&mut netlink, &link, None)? {
            swept.push(link.name);
        }
    }
    Ok(swept)
}

/// Removes our state from an interface, and restores what it had before. Without `before`, our filters' names say what
/// that was. Returns whether there was any state.
pub(crate) fn remove(netlink: &mut Netlink, link: &Link, before: Option<&Before>) -> Result<bool, ShaperError> {
    let failed = || ShaperError::kernel(format!("tidy up {}", link.name));
    let qdiscs = tc::qdiscs(netlink).map_err(failed())?;
    let of_link: Vec<_> = qdiscs.iter().filter(|qdisc| qdisc.device == link.index).collect();
    let (mut others, mut names) = (0, [None, None]);
    if of_link.iter().any(|qdisc| qdisc.is_clsact()) {
        for (way, kept) in [Way::Egress, Way::Ingress].into_iter().zip(&mut names) {
            let filters = tc::filters(netlink, link.index, way).map_err(failed())?;
            others += filters.count;
            if let Some(name) = filters.ours {
                netlink.one(tc::drop_program(link.index, way)).map_err(failed())?;
                others -= 1;
                *kept = Some(name);
            }
        }
    }
    let filtered = names.iter().any(Option::is_some);
    let before = before.cloned().or(Before::of_names(names)).unwrap_or_default();
    if filtered && others == 0 && !before.clsact {
        netlink.one(tc::drop_clsact(link.index)).map_err(failed())?;
    }
    let rooted = of_link.iter().any(|qdisc| qdisc.is_root() && qdisc.handle == tc::ROOT);
    if rooted {
        netlink.one(tc::drop_root(link.index)).map_err(failed())?;
        for message in before.queues.iter().flat_map(|queues| queues.messages(link.index)) {
            netlink.one(message).map_err(failed())?;
        }
    }
    if rooted || filtered {
        netlink
            .one(tc::gso_max_segs(link.index, before.gso_max_segs))
            .map_err(failed())?;
    }
    Ok(rooted || filtered)
}

/// Finds the interface with an address.
pub(crate) fn find(netlink: &mut Netlink, address: IpAddr) -> Result<Link, ShaperError> {
    let index = tc::device_of(netlink, address)
        .map_err(ShaperError::kernel("list addresses"))?
        .ok_or_else(|| ShaperError::Device(format!("no interface here has the address {address}")))?;
    let links = tc::links(netlink).map_err(ShaperError::kernel("list interfaces"))?;
    links
        .into_iter()
        .find(|link| link.index == index)
        .ok_or_else(|| ShaperError::Device(format!("the interface with the address {address} is gone")))
}
