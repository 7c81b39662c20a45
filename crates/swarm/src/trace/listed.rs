//! A trace after it was read.

use std::collections::HashMap;

/// Coflows in the order in which the trace names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The names of the ports.
    pub ports: Vec<String>,
    /// The coflows.
    pub coflows: Vec<Listed>,
}

/// A coflow as a trace lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The coflow's name in the trace.
    pub name: String,
    /// When it arrives, in seconds.
    pub arrival_s: f64,
    /// Its class; 0 is the highest.
    pub class: u32,
    /// Its weight under policies that use weights.
    pub weight: f64,
    /// Seconds after its arrival by which it has to finish; infinite without a deadline.
    pub deadline_s: f64,
    /// Source port, target port and bytes of each flow; no pair of ports appears twice.
    pub flows: Vec<(u32, u32, f64)>,
}

impl Trace {
    /// Number of flows of all coflows.
    pub fn flow_count(&self) -> usize {
        self.coflows.iter().map(|coflow| coflow.flows.len()).sum()
    }

    /// The bytes of all flows.
    pub fn bytes(&self) -> f64 {
        self.coflows
            .iter()
            .flat_map(|coflow| &coflow.flows)
            .map(|flow| flow.2)
            .sum()
    }

    /// The same trace with port `p` replaced by `at[p]`, for a fabric that numbers ports differently.
    #[must_use]
    pub fn placed(&self, at: &[u32]) -> Self {
        let mut placed = self.clone();
        for (source, target, _) in placed.coflows.iter_mut().flat_map(|coflow| &mut coflow.flows) {
            (*source, *target) = (at[*source as usize], at[*target as usize]);
        }
        placed
    }

    /// Merges flows of a coflow that connect the same ports, and sorts them.
    #[must_use]
    pub fn joined(mut self) -> Self {
        for coflow in &mut self.coflows {
            coflow.flows.sort_by_key(|&(source, target, _)| (source, target));
            coflow.flows.dedup_by(|next, first| {
                let same = (next.0, next.1) == (first.0, first.1);
                if same {
                    first.2 += next.2;
                }
                same
            });
            coflow.flows.shrink_to_fit();
        }
        self
    }
}

/// Names, numbered in the order in which they first appear.
#[derive(Default)]
pub(super) struct Names {
    pub(super) listed: Vec<String>,
    number: HashMap<String, u32>,
}

impl Names {
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.number.get(name) {
            return known;
        }
        let next = self.listed.len() as u32;
        self.listed.push(name.to_owned());
        self.number.insert(name.to_owned(), next);
        next
    }
}
