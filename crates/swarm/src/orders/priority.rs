//! Priorities (Orchestra, section 7.4): order of arrival within a class, and a cap on all lower classes while a higher
//! one is active. Lower classes also get capacity beyond the cap that would otherwise be idle.

use super::coflow::{Coflow, Policy, flow_count, ranges, sorted};
use super::room::Room;
use crate::fabric::Fabric;

/// Order of classes, then of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Priority {
    /// Share of every link for all classes together except the highest active one.
    pub low_share: f64,
}

impl Default for Priority {
    /// 5 %: high classes take 5 % longer than alone, and low classes never stop.
    fn default() -> Self {
        Self { low_share: 0.05 }
    }
}

impl Policy for Priority {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        let mut rates_bps = vec![0.0; flow_count(coflows)];
        let order = self.order(coflows, fabric);
        let highest = order.first().map_or(0, |&at| coflows[at].class);
        let ranges = ranges(coflows);
        let mut low = Room::new(fabric, self.low_share);
        for &at in order.iter().filter(|&&at| coflows[at].class > highest) {
            low.give_least(&coflows[at].flows, &mut rates_bps[ranges[at].clone()]);
        }
        let mut room = Room::new(fabric, 1.0);
        room.take(coflows, &rates_bps);
        room.give_in_order(coflows, &order, &mut rates_bps);
        rates_bps
    }

    fn order(&self, coflows: &[Coflow], _fabric: &Fabric) -> Vec<usize> {
        sorted(coflows, |coflow| f64::from(coflow.class))
    }
}
