//! First come, first served (Orchestra, section 5): the next coflow gets what the oldest one leaves unused.

use super::coflow::{Coflow, Policy, flow_count};
use super::room::Room;
use crate::fabric::Fabric;

/// Strict order of arrival.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Policy for Fifo {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        in_order(coflows, fabric, &self.order(coflows, fabric))
    }
}

/// Rates for coflows that are served in the given order.
pub(super) fn in_order(coflows: &[Coflow], fabric: &Fabric, order: &[usize]) -> Vec<f64> {
    let mut rates_bps = vec![0.0; flow_count(coflows)];
    Room::new(fabric, 1.0).give_in_order(coflows, order, &mut rates_bps);
    rates_bps
}
