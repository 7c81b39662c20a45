//! A trace once it is read.

use std::collections::HashMap;

/// Coflows in the order in which the trace names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What ports are called.
    pub ports: Vec<String>,
    /// The coflows.
    pub coflows: Vec<Listed>,
}

/// A coflow as a trace lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// What it is called.
    pub name: String,
    /// When it arrives.
    pub arrival_s: f64,
    /// Its class; 0 is the highest.
    pub class: u32,
    /// Its share where weights count.
    pub weight: f64,
    /// Source, target and bytes of each flow, by ports, none twice.
    pub flows: Vec<(u32, u32, f64)>,
}

impl Trace {
    /// How many flows all coflows have.
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

    /// The same trace with port `p` in place `at[p]`, for ports that a fabric numbers otherwise.
    #[must_use]
    pub fn placed(&self, at: &[u32]) -> Self {
        let mut placed = self.clone();
        for (source, target, _) in placed.coflows.iter_mut().flat_map(|coflow| &mut coflow.flows) {
            (*source, *target) = (at[*source as usize], at[*target as usize]);
        }
        placed
    }

    /// Adds flows of a coflow that join the same ports, and sorts them.
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

/// Names with the numbers that they get as they turn up.
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
