//! The network namespace at the other end of a veth.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use gavotte_kernel::netlink::{Message, Netlink, attribute, text, u32_at};

const RTM_GETLINK: u16 = 18;
const RTM_GETNSID: u16 = 90;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK_NETNSID: u16 = 37;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

/// Finds the network namespace at the other end of a veth among the candidates.
///
/// # Errors
/// If the device does not exist, does not lead to another namespace, or leads to one that is not a candidate.
pub fn namespace_behind(device: &str, candidates: impl IntoIterator<Item = OwnedFd>) -> io::Result<OwnedFd> {
    let mut netlink = Netlink::open()?;
    let mut peer_id = None;
    netlink.dump(Message::new(RTM_GETLINK, 0, &[0; 16]), |body| {
        let rest = body.get(16..).unwrap_or_default();
        if attribute(rest, IFLA_IFNAME).map(text).as_deref() == Some(device) {
            peer_id = Some(attribute(rest, IFLA_LINK_NETNSID).and_then(|value| u32_at(value, 0)));
        }
    })?;
    let missing = |what| io::Error::new(io::ErrorKind::NotFound, what);
    let wanted = peer_id
        .ok_or_else(|| missing("no such interface"))?
        .ok_or_else(|| missing("it does not lead into another network namespace"))?;
    for candidate in candidates {
        // struct rtgenmsg: one byte and its padding.
        let ask = Message::new(RTM_GETNSID, 0, &[0; 4]).put_u32(NETNSA_FD, candidate.as_raw_fd() as u32);
        let mut id = None;
        let asked = netlink.ask(ask, |body| {
            id = attribute(body.get(4..).unwrap_or_default(), NETNSA_NSID).and_then(|value| u32_at(value, 0));
        });
        // Skip descriptors that no longer refer to a namespace.
        if asked.is_ok() && id == Some(wanted) {
            return Ok(candidate);
        }
    }
    Err(missing(
        "no process here is in the network namespace that it leads into",
    ))
}
