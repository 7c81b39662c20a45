//! Tasks that move as one.

use crate::problem::stores::Stores;

/// Bytes between two different units in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The sending unit.
    pub source: usize,
    /// The receiving unit.
    pub target: usize,
    /// Sum over all transfers between them in the phase.
    pub bytes: u64,
    /// Position of the phase among those that occur.
    pub phase: usize,
}

/// Returns the two units of each pair that exchanges bytes, the lower one first, and the bytes from it and to it.
pub(crate) fn exchanged<'a>(edges: impl Iterator<Item = &'a Edge>) -> Vec<(usize, usize, [u64; 2])> {
    let mut pairs: Vec<(usize, usize, [u64; 2])> = edges
        .filter(|edge| edge.bytes > 0)
        .map(|edge| {
            if edge.source < edge.target {
                (edge.source, edge.target, [edge.bytes, 0])
            } else {
                (edge.target, edge.source, [0, edge.bytes])
            }
        })
        .collect();
    pairs.sort_unstable();
    pairs.dedup_by(|next, first| {
        let same = (next.0, next.1) == (first.0, first.1);
        if same {
            (0..2).for_each(|way| first.2[way] += next.2[way]);
        }
        same
    });
    pairs
}

/// One end of an [`Edge`], seen from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Half {
    pub(crate) other: usize,
    pub(crate) bytes: u64,
    pub(crate) phase: usize,
    /// Whether the unit that owns this half sends.
    pub(crate) sends: bool,
}

/// A bound on latency, seen from one of its two units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    pub(crate) other: usize,
    pub(crate) seconds: f64,
    pub(crate) sends: bool,
    /// Price of a longer latency in seconds; `None` = not allowed.
    pub(crate) price_s: Option<f64>,
}

/// A limit on the hosts or zones that units use.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The units, ascending.
    pub units: Vec<usize>,
    /// The largest number of hosts or zones.
    pub most: usize,
    /// Index of the zones; `None` = hosts.
    pub zoning: Option<usize>,
    /// Price of each further one in seconds; `None` = not allowed.
    pub price_s: Option<f64>,
}

/// The problem in units instead of tasks. Every task belongs to exactly one unit.
#[derive(Clone, Debug, Default)]
pub struct Units {
    /// The tasks of each unit, ascending.
    pub members: Vec<Vec<usize>>,
    /// The unit of each task.
    pub unit_of: Vec<usize>,
    /// Nano-cores that each unit needs.
    pub cores: Vec<u64>,
    /// Memory and storage that each unit needs.
    pub stores: Vec<Stores>,
    /// `allowed[u][m]`, or `None` where unit `u` may go anywhere.
    pub allowed: Vec<Option<Vec<bool>>>,
    /// The bytes that units send to each other; at most one entry for each ordered pair and phase.
    pub edges: Vec<Edge>,
    /// Units that may not share a host with each unit; a unit in its own list can be placed nowhere.
    pub apart: Vec<Vec<usize>>,
    /// The limits on hosts.
    pub limits: Vec<Limit>,
    /// For each quota, the units that need anything, with their needs.
    pub quotas: Vec<Vec<(usize, u64)>>,
    /// The same for each unit: quotas and needs.
    pub(crate) needs: Vec<Vec<(usize, u64)>>,
    pub(crate) halves: Vec<Vec<Half>>,
    pub(crate) near: Vec<Vec<Near>>,
    pub(crate) limits_of: Vec<Vec<usize>>,
}

impl Units {
    /// The number of units.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Each bound on latency between two different units: source, target, seconds, price in seconds.
    pub fn latencies(&self) -> impl Iterator<Item = (usize, usize, f64, Option<f64>)> + '_ {
        let of = |(unit, list): (usize, &'_ Vec<Near>)| {
            let sent: Vec<_> = list
                .iter()
                .filter(|near| near.sends)
                .map(|near| (unit, near.other, near.seconds, near.price_s))
                .collect();
            sent
        };
        self.near.iter().enumerate().flat_map(of)
    }

    /// Whether there are no units.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether two tasks may not share a host.
    pub(crate) fn kept_apart(&self, one: usize, other: usize) -> bool {
        self.apart[self.unit_of[one]]
            .binary_search(&self.unit_of[other])
            .is_ok()
    }

    /// Whether `unit` may run on `host`, whatever room is left there.
    pub fn allows(&self, unit: usize, host: usize) -> bool {
        self.allowed[unit].as_ref().is_none_or(|mask| mask[host])
    }

    /// The host of each task, given that of each unit.
    pub(crate) fn spread(&self, host_of_unit: &[usize]) -> Vec<usize> {
        self.unit_of.iter().map(|&unit| host_of_unit[unit]).collect()
    }

    /// The host of each unit, given that of each task; `None` if the tasks of a unit are on different hosts.
    pub(crate) fn gather(&self, host_of_task: &[usize]) -> Option<Vec<usize>> {
        let host = |tasks: &Vec<usize>| {
            let host = host_of_task[tasks[0]];
            tasks.iter().all(|&task| host_of_task[task] == host).then_some(host)
        };
        self.members.iter().map(host).collect()
    }
}
