//! FIFO+ (Orchestra, section 7.4): order of arrival, but each later coflow keeps a small share of every link.

use super::coflow::{Coflow, Policy, flow_count, ranges};
use super::room::Room;
use crate::fabric::Fabric;

/// At most this share of a link goes to all later coflows together, so that the first coflow keeps its precedence.
const MOST: f64 = 0.5;

/// Order of arrival with a share for the rest.
#[derive(Clone, Copy, Debug)]
pub struct FifoPlus {
    /// Share of every link for each coflow except the first.
    pub share: f64,
}

impl Default for FifoPlus {
    /// 3 %, as in the paper.
    fn default() -> Self {
        Self { share: 0.03 }
    }
}

impl Policy for FifoPlus {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        let mut rates_bps = vec![0.0; flow_count(coflows)];
        let mut room = Room::new(fabric, 1.0);
        let order = self.order(coflows, fabric);
        let ranges = ranges(coflows);
        let later = order.get(1..).unwrap_or_default();
        let share = self.share.min(MOST / later.len().max(1) as f64);
        for &at in later {
            room.give_share(&coflows[at].flows, share, &mut rates_bps[ranges[at].clone()]);
        }
        room.give_in_order(coflows, &order, &mut rates_bps);
        rates_bps
    }
}
