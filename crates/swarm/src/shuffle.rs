//! Weighted shuffle scheduling (Orchestra, section 6.3): the flows of one transfer end together, at the transfer's
//! lower bound.
//!
//! Let d be the bytes left on a flow, and Γ the longest time that any link needs for all bytes that cross it. Rates of
//! 8 d / Γ fill the slowest link from start to end and overload no link. No schedule is faster, since the slowest link
//! has to carry its bytes.

use crate::fabric::{Fabric, Path};

/// The shortest time in which a transfer can finish, and the link that limits it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// Γ: the time that the slowest link needs for all bytes that cross it, in seconds.
    pub seconds: f64,
    /// The slowest link; `None` if nothing limits the transfer.
    pub link: Option<u32>,
}

/// The lower bound of a transfer with this many bytes on each path.
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

/// The rate of each flow in bit/s, in proportion to its bytes left, and the bound. At these rates all flows end
/// together when the bound has passed. A flow that crosses no limited link has no limit.
///
/// Call it again as flows end: a flow that was slower than its rate then gets a higher one.
pub fn rates(fabric: &Fabric, flows: &[(Path, f64)]) -> (Vec<f64>, Bound) {
    let bound = bound(fabric, flows.iter().copied());
    let rate = |&(path, left): &(Path, f64)| match fabric.links(path) {
        [] => f64::INFINITY,
        _ if left > 0.0 => 8.0 * left / bound.seconds,
        _ => 0.0,
    };
    (flows.iter().map(rate).collect(), bound)
}
