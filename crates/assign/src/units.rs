//! Tasks that move as one: the `together` groups joined, and whatever coarsening joins further.

use std::collections::BTreeMap;

use crate::problem::{Problem, UNLIMITED_MEMORY};

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
    /// Bytes of memory that each unit needs.
    pub memory_bytes: Vec<u64>,
    /// `allowed[u][m]`, or `None` where unit `u` may go anywhere.
    pub allowed: Vec<Option<Vec<bool>>>,
    /// Who sends how much to whom; at most one for each ordered pair and phase.
    pub edges: Vec<Edge>,
    /// Units that may not share a host with each unit; a unit in its own list can be placed nowhere.
    pub apart: Vec<Vec<usize>>,
    /// For each limit on hosts, its units and the most hosts.
    pub limits: Vec<(Vec<usize>, usize)>,
    pub(crate) halves: Vec<Vec<Half>>,
    pub(crate) near: Vec<Vec<Near>>,
    pub(crate) limits_of: Vec<Vec<usize>>,
}

impl Units {
    /// One unit for each task, those of a `together` group joined.
    pub(crate) fn of_tasks(problem: &Problem) -> Self {
        let mut joined = Joined::new(problem.tasks.len());
        for group in &problem.rules.together {
            for pair in group.windows(2) {
                joined.join(pair[0], pair[1]);
            }
        }
        Self::build(problem, joined.groups())
    }

    /// Units of the given tasks. `members` must hold every task once.
    pub(crate) fn build(problem: &Problem, members: Vec<Vec<usize>>) -> Self {
        let mut unit_of = vec![0; problem.tasks.len()];
        for (unit, tasks) in members.iter().enumerate() {
            for &task in tasks {
                unit_of[task] = unit;
            }
        }
        let count = members.len();
        let edges = edges(problem, &unit_of);
        let mut halves = vec![Vec::new(); count];
        for &Edge {
            source,
            target,
            bytes,
            phase,
        } in &edges
        {
            halves[source].push(Half {
                other: target,
                bytes,
                phase,
                sends: true,
            });
            halves[target].push(Half {
                other: source,
                bytes,
                phase,
                sends: false,
            });
        }
        let mut near = vec![Vec::new(); count];
        for bound in &problem.rules.max_latency {
            let (source, target) = (unit_of[bound.source], unit_of[bound.target]);
            if source != target {
                let seconds = bound.seconds;
                near[source].push(Near {
                    other: target,
                    seconds,
                    sends: true,
                });
                near[target].push(Near {
                    other: source,
                    seconds,
                    sends: false,
                });
            }
        }
        let limits = limits(problem, &unit_of);
        let mut limits_of = vec![Vec::new(); count];
        for (limit, (units, _)) in limits.iter().enumerate() {
            for &unit in units {
                limits_of[unit].push(limit);
            }
        }
        let memory = |tasks: &Vec<usize>| {
            let needs = tasks.iter().map(|&task| problem.tasks[task].memory_bytes);
            needs.fold(0_u64, u64::saturating_add).min(UNLIMITED_MEMORY - 1)
        };
        Self {
            cores: members
                .iter()
                .map(|tasks| tasks.iter().map(|&task| problem.cores[task].nanos()).sum())
                .collect(),
            memory_bytes: members.iter().map(memory).collect(),
            allowed: members.iter().map(|tasks| allowed(problem, tasks)).collect(),
            apart: apart(problem, &unit_of, count),
            members,
            unit_of,
            edges,
            limits,
            halves,
            near,
            limits_of,
        }
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Each bound on latency between two different units: source, target, seconds.
    pub fn latencies(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        let of = |(unit, list): (usize, &'_ Vec<Near>)| {
            let sent: Vec<_> = list
                .iter()
                .filter(|near| near.sends)
                .map(|near| (unit, near.other, near.seconds))
                .collect();
            sent
        };
        self.near.iter().enumerate().flat_map(of)
    }

    /// Whether there are none.
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

    /// The host of each unit, given that of each task; `None` if a unit is torn.
    pub(crate) fn gather(&self, host_of_task: &[usize]) -> Option<Vec<usize>> {
        let host = |tasks: &Vec<usize>| {
            let host = host_of_task[tasks[0]];
            tasks.iter().all(|&task| host_of_task[task] == host).then_some(host)
        };
        self.members.iter().map(host).collect()
    }
}

/// Disjoint sets; the smallest member stands for its set.
pub(crate) struct Joined(Vec<usize>);

impl Joined {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    pub(crate) fn root(&mut self, mut item: usize) -> usize {
        while self.0[item] != item {
            self.0[item] = self.0[self.0[item]];
            item = self.0[item];
        }
        item
    }

    pub(crate) fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.0[one.max(other)] = one.min(other);
    }

    pub(crate) fn groups(&mut self) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for item in 0..self.0.len() {
            groups.entry(self.root(item)).or_default().push(item);
        }
        groups.into_values().collect()
    }
}

fn edges(problem: &Problem, unit_of: &[usize]) -> Vec<Edge> {
    let mut sums: BTreeMap<(usize, usize, usize), u64> = BTreeMap::new();
    for (phase, (_, range)) in problem.phases.iter().enumerate() {
        for &t in &problem.by_phase[range.clone()] {
            let transfer = problem.transfers[t];
            let (source, target) = (unit_of[transfer.source], unit_of[transfer.target]);
            if source != target && transfer.bytes > 0 {
                *sums.entry((phase, source, target)).or_default() += transfer.bytes;
            }
        }
    }
    let edge = |((phase, source, target), bytes)| Edge {
        source,
        target,
        bytes,
        phase,
    };
    sums.into_iter().map(edge).collect()
}

fn allowed(problem: &Problem, tasks: &[usize]) -> Option<Vec<bool>> {
    let mut masks = tasks.iter().filter_map(|&task| problem.allowed[task].as_ref());
    let mut both = masks.next()?.clone();
    for mask in masks {
        both.iter_mut().zip(mask).for_each(|(one, &other)| *one &= other);
    }
    Some(both)
}

fn apart(problem: &Problem, unit_of: &[usize], count: usize) -> Vec<Vec<usize>> {
    let mut apart = vec![Vec::new(); count];
    for group in &problem.rules.apart {
        for (i, &one) in group.iter().enumerate() {
            for &other in group[i + 1..].iter().filter(|&&other| other != one) {
                apart[unit_of[one]].push(unit_of[other]);
                apart[unit_of[other]].push(unit_of[one]);
            }
        }
    }
    for list in &mut apart {
        list.sort_unstable();
        list.dedup();
    }
    apart
}

fn limits(problem: &Problem, unit_of: &[usize]) -> Vec<(Vec<usize>, usize)> {
    let build = |limit: &crate::rules::MaxHosts| {
        let mut units: Vec<usize> = limit.tasks.iter().map(|&task| unit_of[task]).collect();
        units.sort_unstable();
        units.dedup();
        (units, limit.most)
    };
    problem.rules.max_hosts.iter().map(build).collect()
}
