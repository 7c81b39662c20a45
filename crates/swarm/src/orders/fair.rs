//! Plain TCP sharing, without coordination: every flow gets its max-min fair share of the links on its path.

use super::coflow::{Coflow, Policy, flow_count};
use super::room::max_min_rates;
use crate::fabric::Fabric;

/// Per-flow fairness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Policy for Fair {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        max_min_rates(coflows, fabric, &vec![1.0; flow_count(coflows)])
    }
}
