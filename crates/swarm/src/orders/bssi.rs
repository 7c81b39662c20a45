//! Bottleneck, select, scale, iterate (Sincronia, section 3): an order whose average completion time is within four
//! times the best.
//!
//! The order is filled from its last place. For each place:
//!
//! 1. Bottleneck: find the link that needs the most time for all coflows without a place.
//! 2. Select: give the place to the coflow on that link with the lowest weight per second of its time there.
//! 3. Scale: lower the weights of the other coflows on that link by as much per second of their time there.
//! 4. Iterate: continue without the selected coflow.

use std::cmp::Ordering;

use super::coflow::{Coflow, Policy, digits, sorted};
use super::fifo::in_order;
use super::loads::Loads;
use crate::fabric::Fabric;

/// Weights are kept in units of this share of their first value. What is left of a weight after subtractions has an
/// absolute error, so its last digits would depend on the order of the input.
const UNIT: f64 = 1.0 / (1_u64 << 32) as f64;

/// The order of Sincronia's section 3, computed from the bytes left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bssi;

impl Policy for Bssi {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        in_order(coflows, fabric, &self.order(coflows, fabric))
    }

    fn order(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<usize> {
        order(coflows, fabric)
    }
}

/// The coflows' indices in the order in which they are served.
fn order(coflows: &[Coflow], fabric: &Fabric) -> Vec<usize> {
    let mut loads = Loads::new(fabric);
    // By link: the seconds that it needs for all coflows without a place, and those coflows with their seconds.
    let mut total_s = vec![0.0; fabric.rates_bps().len()];
    let mut on: Vec<Vec<(usize, f64)>> = vec![Vec::new(); total_s.len()];
    let mut loaded: Vec<Vec<usize>> = vec![Vec::new(); coflows.len()];
    let by_arrival = sorted(coflows, |_| 0.0);
    let mut rank = vec![0; coflows.len()];
    for (place, &at) in by_arrival.iter().enumerate() {
        rank[at] = place;
        loads.count(fabric, &coflows[at].flows);
        for (link, bytes) in loads.each() {
            let link = link as usize;
            let seconds = 8.0 * bytes / fabric.rates_bps()[link];
            total_s[link] += seconds;
            on[link].push((at, seconds));
            loaded[at].push(link);
        }
    }
    let mut weight: Vec<f64> = coflows.iter().map(|coflow| coflow.weight).collect();
    let mut backwards = Vec::with_capacity(coflows.len());
    loop {
        let open = (0..on.len()).filter(|&link| !on[link].is_empty());
        // Links are numbered in the order in which paths were created, so their numbers decide no tie.
        let content = |link: usize| on[link].iter().map(|&(at, seconds)| (rank[at], digits(seconds)));
        let slower = |a: usize, b: usize| {
            let later = match digits(total_s[a]).total_cmp(&digits(total_s[b])) {
                Ordering::Less => true,
                Ordering::Equal => content(b).lt(content(a)),
                Ordering::Greater => false,
            };
            if later { b } else { a }
        };
        let Some(link) = open.reduce(slower) else { break };
        let on_link = std::mem::take(&mut on[link]);
        let each = |&(at, seconds): &(usize, f64)| (digits(weight[at] / seconds), at, seconds);
        // Among equals, select the latest arrival, so that it is served after the others.
        let lightest = on_link
            .iter()
            .map(each)
            .reduce(|least, next| if next.0 <= least.0 { next } else { least });
        let Some((_, last, seconds)) = lightest else { break };
        let scale = weight[last] / seconds;
        for &(at, seconds) in &on_link {
            let unit = coflows[at].weight * UNIT;
            weight[at] = ((weight[at] - scale * seconds) / unit).round().max(0.0) * unit;
        }
        on[link] = on_link;
        for &link in &loaded[last] {
            on[link].retain(|&(at, _)| at != last);
            // Added up again: what is left after subtracting 10^12 s from as much would be rounding.
            total_s[link] = on[link].iter().map(|&(_, seconds)| seconds).sum();
        }
        backwards.push(last);
    }
    // Coflows on no limited link end at once, whatever their place.
    backwards.extend(by_arrival.into_iter().filter(|&at| loaded[at].is_empty()));
    backwards.reverse();
    backwards
}
