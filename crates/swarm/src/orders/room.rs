//! The capacity that is left on links while coflows get their rates one after another.

use gavotte_net::max_min;

use super::coflow::{Coflow, Flow, ranges};
use super::loads::Loads;
use crate::fabric::{Fabric, Path};

/// A link with less than this share of its rate left counts as full; smaller remainders are rounding errors.
const FULL: f64 = 1e-9;

/// The capacity that the rates given so far leave on each link.
pub(super) struct Room<'a> {
    fabric: &'a Fabric,
    left_bps: Vec<f64>,
    loads: Loads,
}

impl<'a> Room<'a> {
    /// Starts with this share of every link.
    pub(super) fn new(fabric: &'a Fabric, share: f64) -> Self {
        Self {
            fabric,
            left_bps: fabric.rates_bps().iter().map(|rate| share * rate).collect(),
            loads: Loads::new(fabric),
        }
    }

    /// Subtracts rates that flows received elsewhere.
    pub(super) fn take(&mut self, coflows: &[Coflow], rates_bps: &[f64]) {
        let flows = coflows.iter().flat_map(|coflow| &coflow.flows);
        for (flow, rate) in flows.zip(rates_bps) {
            for &link in self.fabric.links(flow.path) {
                self.left_bps[link as usize] -= rate;
            }
        }
        self.round();
    }

    /// Gives coflows rates in this order (Varys, section 5.1), so that no link is idle that a flow could use:
    ///
    /// 1. each coflow gets the lowest rates at which its flows end together as early as the remaining capacity allows;
    /// 2. the capacity that is left over goes to the coflows in the same order.
    pub(super) fn give_in_order(&mut self, coflows: &[Coflow], order: &[usize], rates_bps: &mut [f64]) {
        let ranges = ranges(coflows);
        for &at in order {
            self.give_least(&coflows[at].flows, &mut rates_bps[ranges[at].clone()]);
        }
        for &at in order {
            self.give_rest(
                &coflows[at].flows,
                |flow| flow.left_bytes,
                &mut rates_bps[ranges[at].clone()],
            );
        }
    }

    /// Minimum allocation for desired duration (Varys): all flows end together, when the slowest link finishes. The
    /// rates are zero if one of the links is full.
    pub(super) fn give_least(&mut self, flows: &[Flow], rates_bps: &mut [f64]) {
        self.loads.count(self.fabric, flows);
        let slowest_s = self.loads.slowest_s(&self.left_bps);
        self.give_within(flows, slowest_s, rates_bps);
    }

    /// The same with this share of every link, which must still be free.
    pub(super) fn give_share(&mut self, flows: &[Flow], share: f64, rates_bps: &mut [f64]) {
        self.loads.count(self.fabric, flows);
        let slowest_s = self.loads.slowest_s(self.fabric.rates_bps());
        self.give_within(flows, slowest_s / share, rates_bps);
    }

    /// The lowest rates at which all flows end within this time; if the remaining capacity is too small, at its earliest.
    pub(super) fn give_by(&mut self, flows: &[Flow], seconds: f64, rates_bps: &mut [f64]) {
        self.loads.count(self.fabric, flows);
        let slowest_s = self.loads.slowest_s(&self.left_bps);
        self.give_within(flows, seconds.max(slowest_s), rates_bps);
    }

    /// The capacity that is left on each link, in bit/s.
    pub(super) fn left_bps(&self) -> &[f64] {
        &self.left_bps
    }

    /// Gives the flows of the last `count` the rates at which they end after this many seconds.
    fn give_within(&mut self, flows: &[Flow], seconds: f64, rates_bps: &mut [f64]) {
        for (flow, rate) in flows.iter().zip(rates_bps) {
            *rate += if self.fabric.links(flow.path).is_empty() {
                f64::INFINITY
            } else {
                8.0 * flow.left_bytes / seconds
            };
        }
        for (link, bytes) in self.loads.each() {
            self.left_bps[link as usize] -= 8.0 * bytes / seconds;
        }
        self.round();
    }

    /// Gives the remaining capacity to the flows that cross no full link, max-min fair by weight.
    pub(super) fn give_rest(&mut self, flows: &[Flow], weight: impl Fn(&Flow) -> f64, rates_bps: &mut [f64]) {
        let links = |flow: &Flow| self.fabric.links(flow.path);
        let open = |flow: &Flow| links(flow).iter().all(|&link| self.left_bps[link as usize] > 0.0);
        let free: Vec<usize> = (0..flows.len()).filter(|&at| open(&flows[at])).collect();
        if free.is_empty() {
            return;
        }
        let weighted: Vec<_> = free.iter().map(|&at| (links(&flows[at]), weight(&flows[at]))).collect();
        let held = max_min(&self.left_bps, &weighted);
        for ((&at, held), (links, weight)) in free.iter().zip(held).zip(weighted) {
            let Some(held) = held else {
                rates_bps[at] = f64::INFINITY;
                continue;
            };
            let more = weight * held.level;
            rates_bps[at] += more;
            for &link in links {
                self.left_bps[link as usize] -= more;
            }
        }
        self.round();
    }

    /// Sets links to full that are full except for rounding.
    fn round(&mut self) {
        for (left, rate) in self.left_bps.iter_mut().zip(self.fabric.rates_bps()) {
            if *left < FULL * rate {
                *left = 0.0;
            }
        }
    }
}

/// The max-min fair rate of each of all flows, by weights above zero. Flows on the same path count as one flow during
/// the computation, since all of them have the same rate per weight.
pub(super) fn max_min_rates(coflows: &[Coflow], fabric: &Fabric, weights: &[f64]) -> Vec<f64> {
    let flows = || coflows.iter().flat_map(|coflow| &coflow.flows).zip(weights);
    let mut of_path = vec![0.0; fabric.path_count()];
    for (flow, weight) in flows() {
        of_path[flow.path.number()] += weight;
    }
    let ways = fabric.paths().zip(of_path).filter(|(_, weight)| *weight > 0.0);
    let (paths, ways): (Vec<Path>, Vec<_>) = ways.map(|(path, weight)| (path, (fabric.links(path), weight))).unzip();
    let mut level = vec![f64::INFINITY; fabric.path_count()];
    for (path, held) in paths.into_iter().zip(max_min(fabric.rates_bps(), &ways)) {
        level[path.number()] = held.map_or(f64::INFINITY, |held| held.level);
    }
    flows()
        .map(|(flow, weight)| weight * level[flow.path.number()])
        .collect()
}
