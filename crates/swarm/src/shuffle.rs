//! Weighted shuffle scheduling (Orchestra, section 6.3): the flows of one transfer end together, at its lower bound.
//!
//! With d bytes left on a flow, and Γ the longest time that any link needs for all that crosses it, rates of 8 d / Γ fill
//! the slowest link from start to end and overfill none. No schedule is faster, since that link has to carry its bytes.

use crate::fabric::{Fabric, Path};

/// What a transfer cannot be faster than.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// Γ: seconds that the slowest link needs for all that crosses it.
    pub seconds: f64,
    /// That link; `None` if nothing limits the transfer.
    pub link: Option<u32>,
}

/// The lower bound of a transfer of so many bytes on each path.
pub fn bound(fabric: &Fabric, flows: impl IntoIterator<Item = (Path, f64)>) -> Bound {
    let mut bytes = vec![0.0; fabric.rates_bps().len()];
    for (path, left) in flows {
        fabric.links(path).iter().for_each(|&link| bytes[link as usize] += left);
    }
    let seconds = bytes
        .iter()
        .zip(fabric.rates_bps())
        .map(|(bytes, rate)| 8.0 * bytes / rate);
    seconds.zip(0..).fold(Bound::default(), |slowest, (seconds, link)| {
        if seconds > slowest.seconds {
            Bound {
                seconds,
                link: Some(link),
            }
        } else {
            slowest
        }
    })
}

/// Rates in bit/s, in proportion to the bytes left, at which all flows end together after the seconds of the bound.
/// A flow that crosses no limited link has no limit.
///
/// To be asked again as flows end: one that was slower than its rate then gets more.
pub fn rates(fabric: &Fabric, flows: &[(Path, f64)]) -> (Vec<f64>, Bound) {
    let bound = bound(fabric, flows.iter().copied());
    let rate = |&(path, left): &(Path, f64)| match fabric.links(path) {
        [] => f64::INFINITY,
        _ if left > 0.0 => 8.0 * left / bound.seconds,
        _ => 0.0,
    };
    (flows.iter().map(rate).collect(), bound)
}
