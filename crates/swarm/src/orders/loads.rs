//! Bytes that a coflow has to send over each link.

use super::coflow::Flow;
use crate::fabric::Fabric;

/// Bytes by link, for one coflow at a time.
pub(super) struct Loads {
    bytes: Vec<f64>,
    loaded: Vec<u32>,
}

impl Loads {
    pub(super) fn new(fabric: &Fabric) -> Self {
        Self {
            bytes: vec![0.0; fabric.rates_bps().len()],
            loaded: Vec::new(),
        }
    }

    /// Counts the flows of a coflow and forgets the previous coflow.
    pub(super) fn count(&mut self, fabric: &Fabric, flows: &[Flow]) {
        for link in self.loaded.drain(..) {
            self.bytes[link as usize] = 0.0;
        }
        for flow in flows {
            for &link in fabric.links(flow.path) {
                let bytes = &mut self.bytes[link as usize];
                if *bytes == 0.0 {
                    self.loaded.push(link);
                }
                *bytes += flow.left_bytes;
            }
        }
    }

    /// The links that the coflow loads, and their bytes.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.loaded.iter().map(|&link| (link, self.bytes[link as usize]))
    }

    /// Γ: the seconds that the coflow's slowest link needs at these rates; infinite if one of the rates is zero, 0
    /// without links.
    pub(super) fn slowest_s(&self, rates_bps: &[f64]) -> f64 {
        let seconds = self.each().map(|(link, bytes)| 8.0 * bytes / rates_bps[link as usize]);
        seconds.fold(0.0, f64::max)
    }
}
