//! Deadlines and their admission (Varys, section 5.3): a coflow is admitted if it can finish by its deadline at constant
//! rates that no earlier promise needs, and then keeps these rates.

use super::coflow::{Coflow, Policy, flow_count, ranges, sorted};
use super::loads::Loads;
use super::room::Room;
use crate::fabric::Fabric;

/// Share of a link that counts as its remainder when promises take all of it. Policies divide by rates.
const LEAST: f64 = 1e-9;

/// Promises may exceed a link by this share, which is a rounding error.
const ROUNDING: f64 = 1e-9;

/// A policy under which admitted coflows meet their deadlines:
///
/// 1. Each admitted coflow gets the least rates at which all its flows end at its deadline, in order of deadlines.
/// 2. The policy shares what is left on each link among all coflows.
///
/// A coflow that runs ahead of its deadline needs less, so others get more. One whose deadline has passed has no promise.
#[derive(Clone, Copy)]
pub struct Guaranteed<'a>(pub &'a dyn Policy);

impl Policy for Guaranteed<'_> {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        let promised = promised(coflows);
        if promised.is_empty() {
            return self.0.rates(coflows, fabric);
        }
        let ranges = ranges(coflows);
        let mut rates_bps = vec![0.0; flow_count(coflows)];
        let mut room = Room::new(fabric, 1.0);
        for at in promised {
            room.give_by(
                &coflows[at].flows,
                coflows[at].due_s,
                &mut rates_bps[ranges[at].clone()],
            );
        }
        let left = room.left_bps().iter().zip(fabric.rates_bps());
        let left_bps = left.map(|(left, rate)| left.max(LEAST * rate)).collect();
        let more_bps = self.0.rates(coflows, &fabric.at_rates(left_bps));
        rates_bps
            .iter_mut()
            .zip(more_bps)
            .for_each(|(rate, more)| *rate += more);
        rates_bps
    }

    /// Admitted coflows by deadline, then the others as the policy orders them.
    fn order(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<usize> {
        let mut order = promised(coflows);
        let promise = |&at: &usize| coflows[at].guaranteed && coflows[at].due_s > 0.0;
        order.extend(self.0.order(coflows, fabric).into_iter().filter(|at| !promise(at)));
        order
    }

    fn again_s(&self, coflows: &[Coflow], rates_bps: &[f64]) -> f64 {
        self.0.again_s(coflows, rates_bps)
    }
}

/// The indices of the coflows whose promise still counts, by deadline.
fn promised(coflows: &[Coflow]) -> Vec<usize> {
    let mut order = sorted(coflows, |coflow| coflow.due_s);
    order.retain(|&at| coflows[at].guaranteed && coflows[at].due_s > 0.0);
    order
}

/// Why a coflow cannot be promised its deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shortage {
    /// The link that decides.
    pub link: u32,
    /// The rate that the coflow needs there.
    pub needed_bps: f64,
    /// The rate that earlier promises leave there.
    pub left_bps: f64,
    /// The shortest deadline that would be admitted now, in seconds; infinite if promises take a whole link.
    pub earliest_s: f64,
}

/// Checks whether a new coflow can be promised its deadline while all earlier promises are kept.
///
/// At most this share of every link is promised.
///
/// # Errors
/// [`Shortage`] on the link that would need the longest time.
pub fn admit(coflows: &[Coflow], new: &Coflow, fabric: &Fabric, share: f64) -> Result<(), Shortage> {
    let mut left_bps: Vec<f64> = fabric.rates_bps().iter().map(|rate| share * rate).collect();
    let mut loads = Loads::new(fabric);
    for at in promised(coflows) {
        loads.count(fabric, &coflows[at].flows);
        for (link, bytes) in loads.each() {
            left_bps[link as usize] -= 8.0 * bytes / coflows[at].due_s;
        }
    }
    loads.count(fabric, &new.flows);
    let seconds = |(link, bytes): (u32, f64)| {
        let rounding = ROUNDING * fabric.rates_bps()[link as usize];
        let left = left_bps[link as usize];
        let left = if left > rounding { left + rounding } else { 0.0 };
        (8.0 * bytes / left, link, bytes)
    };
    let slowest = loads.each().map(seconds).max_by(|a, b| a.0.total_cmp(&b.0));
    match slowest {
        Some((earliest_s, link, bytes)) if earliest_s > new.due_s => Err(Shortage {
            link,
            needed_bps: 8.0 * bytes / new.due_s.max(0.0),
            left_bps: left_bps[link as usize].max(0.0),
            earliest_s,
        }),
        _ => Ok(()),
    }
}
