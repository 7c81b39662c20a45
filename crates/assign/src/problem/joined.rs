//! Joins tasks into units: the `together` groups first, then those that coarsening joins.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::problem::rules::MaxHosts;
use crate::problem::stores::Stores;
use crate::problem::units::{Edge, Half, Limit, Near, Units};

impl Problem {
    /// One unit for each task; the tasks of a `together` group are one unit.
    pub(crate) fn joined_units(&self) -> Units {
        let mut joined = Joined::new(self.tasks.len());
        for group in &self.rules.together {
            for pair in group.windows(2) {
                joined.join(pair[0], pair[1]);
            }
        }
        self.units_of(joined.groups())
    }

    /// Units of the given tasks. `members` must hold every task once.
    pub(crate) fn units_of(&self, members: Vec<Vec<usize>>) -> Units {
        let mut unit_of = vec![0; self.tasks.len()];
        for (unit, tasks) in members.iter().enumerate() {
            for &task in tasks {
                unit_of[task] = unit;
            }
        }
        let count = members.len();
        let edges = edges(self, &unit_of);
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
        for bound in &self.rules.max_latency {
            let (source, target) = (unit_of[bound.source], unit_of[bound.target]);
            if source != target {
                let seconds = bound.seconds;
                near[source].push(Near {
                    other: target,
                    seconds,
                    sends: true,
                    price_s: bound.price_s,
                });
                near[target].push(Near {
                    other: source,
                    seconds,
                    sends: false,
                    price_s: bound.price_s,
                });
            }
        }
        let limits = limits(self, &unit_of);
        let mut limits_of = vec![Vec::new(); count];
        for (limit, Limit { units, .. }) in limits.iter().enumerate() {
            for &unit in units {
                limits_of[unit].push(limit);
            }
        }
        let stores = |tasks: &Vec<usize>| {
            let needs = tasks.iter().map(|&task| self.tasks[task].stores);
            needs.fold(Stores::default(), Stores::plus)
        };
        let quotas: Vec<Vec<(usize, u64)>> = self
            .rules
            .quotas
            .iter()
            .map(|each| needs(&each.needs, &unit_of))
            .collect();
        let mut needs_of = vec![Vec::new(); count];
        for (quota, rows) in quotas.iter().enumerate() {
            for &(unit, need) in rows {
                needs_of[unit].push((quota, need));
            }
        }
        Units {
            quotas,
            needs: needs_of,
            cores: members
                .iter()
                .map(|tasks| tasks.iter().map(|&task| self.cores[task].nanos()).sum())
                .collect(),
            stores: members.iter().map(stores).collect(),
            allowed: members.iter().map(|tasks| allowed(self, tasks)).collect(),
            apart: apart(self, &unit_of, count),
            members,
            unit_of,
            edges,
            limits,
            halves,
            near,
            limits_of,
        }
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

/// The needs of units, ascending, given those of tasks.
fn needs(of_tasks: &[(usize, u64)], unit_of: &[usize]) -> Vec<(usize, u64)> {
    let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
    for &(task, need) in of_tasks.iter().filter(|(_, need)| *need > 0) {
        let sum = sums.entry(unit_of[task]).or_default();
        *sum = sum.saturating_add(need);
    }
    sums.into_iter().collect()
}

fn limits(problem: &Problem, unit_of: &[usize]) -> Vec<Limit> {
    let build = |limit: &MaxHosts| {
        let mut units: Vec<usize> = limit.tasks.iter().map(|&task| unit_of[task]).collect();
        units.sort_unstable();
        units.dedup();
        Limit {
            units,
            most: limit.most,
            zoning: limit.zoning,
            price_s: limit.price_s,
        }
    };
    problem.rules.max_hosts.iter().map(build).collect()
}
