//! Earliest deadline first: the coflow goes first whose deadline comes first. Without admission, coflows that miss their
//! deadlines in any case take the time of others.

use super::coflow::{Coflow, Policy, sorted};
use super::fifo::in_order;
use crate::fabric::Fabric;

/// Order of deadlines; coflows without one go last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edf;

impl Policy for Edf {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        in_order(coflows, fabric, &self.order(coflows, fabric))
    }

    fn order(&self, coflows: &[Coflow], _fabric: &Fabric) -> Vec<usize> {
        sorted(coflows, |coflow| coflow.due_s)
    }
}
