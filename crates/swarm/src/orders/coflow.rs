//! Coflows and flows that are active, and what all policies do with them.

use std::cmp::Ordering;

use crate::fabric::{Fabric, Path};

/// Bytes that one port still has to send to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The path that the bytes take.
    pub path: Path,
    /// Bytes still to be sent.
    pub left_bytes: f64,
}

/// The flows of one transfer. The transfer is finished when all its flows are.
#[derive(Clone, Debug, PartialEq)]
pub struct Coflow {
    /// Breaks ties between coflows: the lower number goes first.
    pub number: u64,
    /// When the coflow arrived, in seconds.
    pub arrival_s: f64,
    /// Its class; 0 is the highest.
    pub class: u32,
    /// The coflow's weight under policies that use weights, above zero.
    pub weight: f64,
    /// Bytes that all flows have sent, including finished flows.
    pub sent_bytes: f64,
    /// Seconds left until its deadline; infinite without one, negative once it has passed.
    pub due_s: f64,
    /// Whether admission has promised that the coflow meets its deadline.
    pub guaranteed: bool,
    /// The flows that are not finished.
    pub flows: Vec<Flow>,
}

impl Coflow {
    /// Bytes that the coflow's flows still have to send.
    pub fn left_bytes(&self) -> f64 {
        self.flows.iter().map(|flow| flow.left_bytes).sum()
    }
}

/// A rule for how coflows share links.
pub trait Policy: Send + Sync {
    /// A rate in bit/s for each flow, in the order of the coflows and of their flows; infinite for a flow that nothing
    /// limits.
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64>;

    /// The order in which coflows are served, as their indices. If not all can run, those at the front do.
    ///
    /// Policies that serve all at once go by arrival.
    fn order(&self, coflows: &[Coflow], _fabric: &Fabric) -> Vec<usize> {
        sorted(coflows, |_| 0.0)
    }

    /// How long these rates stay valid in seconds, even if no coflow arrives or ends earlier.
    fn again_s(&self, _coflows: &[Coflow], _rates_bps: &[f64]) -> f64 {
        f64::INFINITY
    }
}

/// The indices of coflows, ordered by a key; keys that differ only by rounding count as equal and are ordered by
/// arrival.
pub(super) fn sorted(coflows: &[Coflow], mut key: impl FnMut(&Coflow) -> f64) -> Vec<usize> {
    let keys: Vec<f64> = coflows.iter().map(|coflow| digits(key(coflow))).collect();
    let mut places: Vec<usize> = (0..coflows.len()).collect();
    places.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]).then(arrivals(&coflows[a], &coflows[b])));
    places
}

/// Orders two coflows by arrival.
pub(super) fn arrivals(one: &Coflow, other: &Coflow) -> Ordering {
    one.arrival_s
        .total_cmp(&other.arrival_s)
        .then(one.number.cmp(&other.number))
}

/// Clears a number's last digits, so that rounding errors of different summation orders make no difference.
pub(super) fn digits(number: f64) -> f64 {
    const LAST: u64 = 1 << 20;
    if number.is_finite() {
        f64::from_bits((number.to_bits() + LAST / 2) & !(LAST - 1))
    } else {
        number
    }
}

/// Number of flows of all coflows together.
pub(super) fn flow_count(coflows: &[Coflow]) -> usize {
    coflows.iter().map(|coflow| coflow.flows.len()).sum()
}

/// The range of each coflow's flows in the list of all rates.
pub(super) fn ranges(coflows: &[Coflow]) -> Vec<std::ops::Range<usize>> {
    let mut end = 0;
    let range = |coflow: &Coflow| {
        let start = end;
        end += coflow.flows.len();
        start..end
    };
    coflows.iter().map(range).collect()
}
