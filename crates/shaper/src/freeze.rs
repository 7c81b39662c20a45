//! Turns the guarantees that a killed process left into static limits.

use std::collections::BTreeMap;

use crate::claim::Claim;
use crate::error::ShaperError;
use crate::sizes::UNLIMITED_BPS;
use crate::tc::{self, FIRST_PAIR, NEWCOMERS, VM};
use gavotte_kernel::netlink::Netlink;

/// Keeps the guarantees of an ended process of ours as limits, on every interface of this network namespace.
///
/// All pairs together, including new ones, are limited to the host's guarantee, if it has one. [`crate::sweep`], or the
/// next process that shapes here, removes the classes. Returns the interfaces' names.
///
/// # Errors
/// If the kernel does not answer or refuses.
pub fn freeze() -> Result<Vec<String>, ShaperError> {
    let Some(_claim) = Claim::take()? else {
        return Ok(Vec::new());
    };
    let mut netlink = Netlink::open().map_err(ShaperError::kernel("rtnetlink"))?;
    let mut frozen = Vec::new();
    for link in tc::links(&mut netlink).map_err(ShaperError::kernel("list interfaces"))? {
        let failed = || ShaperError::kernel(format!("keep static limits on {}", link.name));
        let classes: BTreeMap<u16, [u64; 2]> = tc::class_rates(&mut netlink, link.index).map_err(failed())?;
        if classes.is_empty() {
            continue;
        }
        let mut messages = Vec::new();
        for (&minor, &[rate, _]) in classes.iter().filter(|(minor, _)| **minor >= FIRST_PAIR) {
            let bps = 8.0 * rate as f64;
            let parent = tc::ROOT | u32::from(VM);
            messages.push(tc::class(
                link.index,
                minor,
                parent,
                link.sizes.rates(bps, bps, 0),
                link.sizes.quantum(bps),
                0,
            ));
            messages.push(tc::leaf(link.index, minor, link.sizes.leaf_bytes(bps)));
        }
        // The newcomers' class has the rate of the host's hose.
        let hose_bps = classes.get(&NEWCOMERS).map(|[rate, _]| 8 * rate);
        if let Some(hose_bps) = hose_bps.filter(|bps| *bps < UNLIMITED_BPS) {
            let bps = hose_bps as f64;
            messages.push(tc::class(
                link.index,
                VM,
                tc::ROOT,
                link.sizes.rates(bps, bps, 0),
                link.sizes.quantum(bps),
                0,
            ));
        }
        netlink.all(messages).map_err(failed())?;
        frozen.push(link.name);
    }
    Ok(frozen)
}
