//! What a process left that was killed, made static: each pair its guarantee and no more.

use std::collections::BTreeMap;

use crate::claim::Claim;
use crate::error::ShaperError;
use crate::sizes::{UNLIMITED_BPS, leaf_bytes, quantum, rates};
use crate::tc::{self, FIRST_PAIR, NEWCOMERS, VM};
use gavotte_kernel::netlink::Netlink;

/// Leaves the classes of a process of ours that has ended with their guarantees alone, on every interface of this network
/// namespace; gives the interfaces' names. All pairs together, with those that come new, have the host's guarantee at most,
/// where there is one. [`crate::sweep`], or whoever shapes here next, removes them.
///
/// # Errors
/// When the kernel does not answer, or does not let us.
pub fn freeze() -> Result<Vec<String>, ShaperError> {
    let Some(_claim) = Claim::take()? else {
        return Ok(Vec::new());
    };
    let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
    let mut frozen = Vec::new();
    for link in tc::links(&mut netlink).map_err(ShaperError::kernel("list interfaces"))? {
        let failed = || ShaperError::kernel(format!("keep static limits on {}", link.name));
        let classes: BTreeMap<u16, u64> = tc::class_rates(&mut netlink, link.index).map_err(failed())?;
        if classes.is_empty() {
            continue;
        }
        let mut messages = Vec::new();
        for (&minor, &rate_bps) in classes.iter().filter(|(minor, _)| **minor >= FIRST_PAIR) {
            let bps = rate_bps as f64;
            let parent = tc::ROOT | u32::from(VM);
            messages.push(tc::class(link.index, minor, parent, rates(bps, bps), quantum(bps), 0));
            messages.push(tc::leaf(link.index, minor, leaf_bytes(bps)));
        }
        // The newcomers' class has the hose of the host.
        if let Some(&hose_bps) = classes.get(&NEWCOMERS).filter(|bps| **bps < UNLIMITED_BPS) {
            let bps = hose_bps as f64;
            messages.push(tc::class(link.index, VM, tc::ROOT, rates(bps, bps), quantum(bps), 0));
        }
        netlink.all(messages).map_err(failed())?;
        frozen.push(link.name);
    }
    Ok(frozen)
}
