//! Weighted fair sharing (Orchestra, section 5): coflows that meet on a link share it by their weights.
//!
//! If a coflow is alone, WSS gives its flows rates in proportion to their bytes left, and all flows end at its lower
//! bound. A flow's weight here is that rate times the coflow's weight. Two properties follow:
//!
//! 1. On the link that decides when it ends, a coflow's weight does not depend on its number of flows.
//! 2. A coflow that is alone is as fast as possible.

use super::coflow::{Coflow, Policy, flow_count, sorted};
use super::loads::Loads;
use super::room::max_min_rates;
use crate::fabric::Fabric;

/// Fairness among coflows, by weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighted;

impl Policy for Weighted {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        let mut loads = Loads::new(fabric);
        let mut weights = Vec::with_capacity(flow_count(coflows));
        for coflow in coflows {
            loads.count(fabric, &coflow.flows);
            let slowest_s = loads.slowest_s(fabric.rates_bps());
            let weight = |left_bytes: f64| coflow.weight * 8.0 * left_bytes / slowest_s;
            weights.extend(coflow.flows.iter().map(|flow| weight(flow.left_bytes)));
        }
        max_min_rates(coflows, fabric, &weights)
    }

    /// The heaviest first: a coflow that waits has no share at all.
    fn order(&self, coflows: &[Coflow], _fabric: &Fabric) -> Vec<usize> {
        sorted(coflows, |coflow| -coflow.weight)
    }
}
