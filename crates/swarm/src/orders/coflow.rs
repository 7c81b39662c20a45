//! What is under way, and what every policy does with it.

use std::cmp::Ordering;

use crate::fabric::{Fabric, Path};

/// Bytes on their way from one port to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The way that they go.
    pub path: Path,
    /// What is still to be sent.
    pub left_bytes: f64,
}

/// Flows of one transfer, which is done when all of them are.
#[derive(Clone, Debug, PartialEq)]
pub struct Coflow {
    /// Decides between coflows that are equal otherwise, the lower first.
    pub number: u64,
    /// When it came.
    pub arrival_s: f64,
    /// Its class; 0 is the highest.
    pub class: u32,
    /// Its share where weights count, above zero.
    pub weight: f64,
    /// What all its flows have sent, those that are done included.
    pub sent_bytes: f64,
    /// What is not done yet.
    pub flows: Vec<Flow>,
}

impl Coflow {
    /// What its flows still have to send.
    pub fn left_bytes(&self) -> f64 {
        self.flows.iter().map(|flow| flow.left_bytes).sum()
    }
}

/// A rule by which coflows share links.
pub trait Policy: Send + Sync {
    /// A rate in bit/s for each flow, coflow after coflow in the order given; infinite where nothing limits a flow.
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64>;

    /// After how many seconds at these rates it wants to be asked again, even if nothing comes or ends before.
    fn again_s(&self, _coflows: &[Coflow], _rates_bps: &[f64]) -> f64 {
        f64::INFINITY
    }
}

/// The places of coflows in the order of a key, and where that is equal but for rounding, of arrival.
pub(super) fn sorted(coflows: &[Coflow], mut key: impl FnMut(&Coflow) -> f64) -> Vec<usize> {
    let keys: Vec<f64> = coflows.iter().map(|coflow| digits(key(coflow))).collect();
    let mut places: Vec<usize> = (0..coflows.len()).collect();
    places.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]).then(arrivals(&coflows[a], &coflows[b])));
    places
}

/// Who came first.
pub(super) fn arrivals(one: &Coflow, other: &Coflow) -> Ordering {
    one.arrival_s
        .total_cmp(&other.arrival_s)
        .then(one.number.cmp(&other.number))
}

/// A number without its last digits, so that the order in which it was summed up decides nothing.
pub(super) fn digits(number: f64) -> f64 {
    const LAST: u64 = 1 << 20;
    if number.is_finite() {
        f64::from_bits((number.to_bits() + LAST / 2) & !(LAST - 1))
    } else {
        number
    }
}

/// How many flows coflows have in all.
pub(super) fn flow_count(coflows: &[Coflow]) -> usize {
    coflows.iter().map(|coflow| coflow.flows.len()).sum()
}

/// Where the rates of each coflow's flows are.
pub(super) fn ranges(coflows: &[Coflow]) -> Vec<std::ops::Range<usize>> {
    let mut end = 0;
    let range = |coflow: &Coflow| {
        let start = end;
        end += coflow.flows.len();
        start..end
    };
    coflows.iter().map(range).collect()
}
