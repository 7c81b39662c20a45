//! Shortest effective bottleneck first (Varys, section 5.3): the coflow goes first that would finish first if each were
//! alone.

use super::coflow::{Coflow, Policy, sorted};
use super::fifo::in_order;
use super::loads::Loads;
use crate::fabric::Fabric;

/// Order of the seconds that each coflow's slowest link needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sebf;

impl Policy for Sebf {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        in_order(coflows, fabric, &self.order(coflows, fabric))
    }

    fn order(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<usize> {
        let mut loads = Loads::new(fabric);
        sorted(coflows, |coflow| {
            loads.count(fabric, &coflow.flows);
            loads.slowest_s(fabric.rates_bps())
        })
    }
}
