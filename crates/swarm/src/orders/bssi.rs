//! Bottleneck, select, scale, iterate (Sincronia, section 3): an order that is within four times the best average.
//!
//! The last place goes first: on the link that needs most time for all coflows without a place, the one that weighs least
//! for its bytes there. What it would have waited for weighs less from then on.

use super::coflow::{Coflow, Policy, digits, sorted};
use super::fifo::in_order;
use super::loads::Loads;
use crate::fabric::Fabric;

/// The order of Sincronia's section 3, from what is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bssi;

impl Policy for Bssi {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        in_order(coflows, fabric, &order(coflows, fabric))
    }
}

/// The places of coflows, the first to be served first.
fn order(coflows: &[Coflow], fabric: &Fabric) -> Vec<usize> {
    let mut loads = Loads::new(fabric);
    // By link: the seconds that it needs for all that have no place yet, and those.
    let mut total_s = vec![0.0; fabric.rates_bps().len()];
    let mut on: Vec<Vec<(usize, f64)>> = vec![Vec::new(); total_s.len()];
    let mut loaded: Vec<Vec<(usize, f64)>> = vec![Vec::new(); coflows.len()];
    let by_arrival = sorted(coflows, |_| 0.0);
    for &at in &by_arrival {
        loads.count(fabric, &coflows[at].flows);
        for (link, bytes) in loads.each() {
            let link = link as usize;
            let seconds = 8.0 * bytes / fabric.rates_bps()[link];
            total_s[link] += seconds;
            on[link].push((at, seconds));
            loaded[at].push((link, seconds));
        }
    }
    let mut weight: Vec<f64> = coflows.iter().map(|coflow| coflow.weight).collect();
    let mut backwards = Vec::with_capacity(coflows.len());
    loop {
        let open = (0..on.len()).filter(|&link| !on[link].is_empty());
        let slower = |a: usize, b: usize| if digits(total_s[b]) > digits(total_s[a]) { b } else { a };
        let Some(link) = open.reduce(slower) else { break };
        let there = std::mem::take(&mut on[link]);
        let each = |&(at, seconds): &(usize, f64)| (digits(weight[at] / seconds), at, seconds);
        // Of equals the one that came last, which is behind the others.
        let lightest = there
            .iter()
            .map(each)
            .reduce(|least, next| if next.0 <= least.0 { next } else { least });
        let Some((_, last, seconds)) = lightest else { break };
        let scale = weight[last] / seconds;
        for &(at, seconds) in &there {
            weight[at] = (weight[at] - scale * seconds).max(0.0);
        }
        on[link] = there;
        for &(link, seconds) in &loaded[last] {
            total_s[link] -= seconds;
            on[link].retain(|&(at, _)| at != last);
        }
        backwards.push(last);
    }
    // Coflows on no limited link end at once, wherever they stand.
    backwards.extend(by_arrival.into_iter().filter(|&at| loaded[at].is_empty()));
    backwards.reverse();
    backwards
}
