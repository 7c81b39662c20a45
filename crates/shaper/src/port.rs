//! A switch port that marks packets.

use std::os::fd::AsRawFd;

use crate::before::Before;
use crate::claim::remove;
use crate::error::ShaperError;
use crate::programs::{self, Maps, phantom};
use crate::tc::{self, Link, Way};
use gavotte_kernel::bpf::{self, Array, Kind};
use gavotte_kernel::netlink::Netlink;

/// A switch port that marks packets: a phantom queue for the packets that leave an interface, until this value is
/// dropped.
#[derive(Debug)]
pub struct Port {
    netlink: Netlink,
    link: Link,
    before: Before,
    phantom: Array<{ phantom::WORDS }>,
}

impl Port {
    /// Adds a phantom queue to the interface `device` that drains at `drain_bps`. It sets CE on ECN-capable packets
    /// that find more than `threshold_bytes` in it.
    ///
    /// # Errors
    /// If the interface does not exist, or the kernel refuses.
    pub fn install(device: &str, drain_bps: u64, threshold_bytes: u64) -> Result<Self, ShaperError> {
        let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
        let links = tc::links(&mut netlink).map_err(ShaperError::kernel("list interfaces"))?;
        let link = links.into_iter().find(|link| link.name == device);
        let link = link.ok_or_else(|| ShaperError::Device(format!("no interface `{device}` here")))?;
        remove(&mut netlink, &link, None)?;
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
            rest: -1,
        };
        let program = bpf::load(&programs::port(maps), Kind::Classifier, "gv_port").map_err(failed())?;
        let qdiscs = tc::qdiscs(&mut netlink).map_err(failed())?;
        let has_clsact = qdiscs
            .iter()
            .any(|qdisc| qdisc.device == link.index && qdisc.is_clsact());
        if !has_clsact {
            netlink.one(tc::clsact(link.index)).map_err(failed())?;
        }
        let before = Before::of(&link, has_clsact, None);
        netlink
            .one(tc::program(
                link.index,
                Way::Egress,
                program.as_raw_fd(),
                &before.names()[0],
            ))
            .map_err(failed())?;
        Ok(Self {
            netlink,
            link,
            before,
            phantom,
        })
    }

    /// The number of packets that passed, and the number of those that found the queue too long.
    pub fn counts(&self) -> (u64, u64) {
        let words = self.phantom.get(0);
        (words[phantom::PACKETS], words[phantom::MARKED])
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _ = remove(&mut self.netlink, &self.link, Some(&self.before));
    }
}
