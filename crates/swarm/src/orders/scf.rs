//! Smallest coflow first: the coflow with the fewest bytes left in all goes first.

use super::coflow::{Coflow, Policy, sorted};
use super::fifo::in_order;
use crate::fabric::Fabric;

/// Order of bytes left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scf;

impl Policy for Scf {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        in_order(coflows, fabric, &self.order(coflows, fabric))
    }

    fn order(&self, coflows: &[Coflow], _fabric: &Fabric) -> Vec<usize> {
        sorted(coflows, Coflow::left_bytes)
    }
}
