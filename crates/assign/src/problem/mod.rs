//! The placement problem: tasks and transfers, and the hosts with the network that connects them.

pub(crate) mod completion;
pub(crate) mod cores;
pub(crate) mod joined;
pub(crate) mod parts;
pub(crate) mod rules;
pub(crate) mod stores;
pub(crate) mod units;
pub(crate) mod validate;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use gavotte_net::{Network, check_length};

use crate::error::ProblemError;
use crate::problem::cores::Cores;
use crate::problem::parts::{Capacity, Load, Parts, Task, Transfer};
use crate::problem::rules::{MaxPrice, NO_ZONE, Rules, price_ns};
use crate::problem::units::Units;

/// A checked problem: every index is in range, every task may be placed somewhere.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) tasks: Vec<Task>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) network: Arc<Network>,
    pub(crate) capacity: Vec<Capacity>,
    /// `allowed[i][m]`, or `None` where task `i` may go anywhere.
    pub(crate) allowed: Vec<Option<Vec<bool>>>,
    /// CPU need of each task, as counted in [`crate::Room`].
    pub(crate) cores: Vec<Cores>,
    /// Transfers ordered by phase, and in the given order within a phase.
    pub(crate) by_phase: Vec<usize>,
    /// Each phase that occurs, in ascending order, with its part of `by_phase`.
    pub(crate) phases: Vec<(u32, Range<usize>)>,
    pub(crate) rules: Rules,
    /// For each task, the quotas that are room on hosts, with the task's needs.
    pub(crate) room_needs: Vec<Vec<(usize, u64)>>,
    pub(crate) load: Vec<Load>,
    /// `load` by link: position of the phase, index of the link, bytes; ascending.
    pub(crate) base: Vec<(usize, usize, u64)>,
    /// Tasks that move as one.
    pub(crate) units: Units,
    /// Bound on each phase's time in seconds, once it has been computed.
    pub(crate) phase_bounds_s: OnceLock<Vec<f64>>,
}

impl Problem {
    /// Checks `parts` and builds the problem.
    ///
    /// # Errors
    /// [`ProblemError`] names the first invalid part, for instance a transfer to a task that does not exist. A task too
    /// large for every host is no such error: placing finds it.
    pub fn new(network: Arc<Network>, parts: Parts) -> Result<Self, ProblemError> {
        parts.check(&network)?;
        let Parts {
            tasks,
            transfers,
            capacity,
            rules,
            load,
        } = parts;
        let allowed = tasks
            .iter()
            .map(|task| task.hosts.as_ref().map(|only| mask(capacity.len(), only)))
            .collect();
        let cores = tasks.iter().map(|task| Cores::needed(task.cpus)).collect();
        let (by_phase, phases) = split_phases(&transfers);
        let mut room_needs = vec![Vec::new(); tasks.len()];
        for (number, quota) in rules
            .quotas
            .iter()
            .enumerate()
            .filter(|(_, quota)| quota.room.is_some())
        {
            for &(task, need) in &quota.needs {
                room_needs[task].push((number, need));
            }
        }
        let mut problem = Self {
            tasks,
            transfers,
            network,
            capacity,
            allowed,
            cores,
            by_phase,
            phases,
            rules,
            room_needs,
            load,
            base: Vec::new(),
            units: Units::default(),
            phase_bounds_s: OnceLock::new(),
        };
        problem.base = problem.base_loads();
        problem.units = problem.joined_units();
        Ok(problem)
    }

    /// The same problem over another network between the same hosts.
    ///
    /// # Errors
    /// [`ProblemError`] if the other network has other hosts.
    pub fn over(&self, network: Arc<Network>) -> Result<Self, ProblemError> {
        check_length(
            "the hosts of the other network",
            network.hosts().len(),
            self.capacity.len(),
        )?;
        let mut other = Self {
            network,
            phase_bounds_s: OnceLock::new(),
            ..self.clone()
        };
        other.base = other.base_loads();
        Ok(other)
    }

    /// The tasks that move as one, and the bytes that they exchange.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// Bytes of `load` on each link, in the phases that occur.
    fn base_loads(&self) -> Vec<(usize, usize, u64)> {
        let mut sums = BTreeMap::new();
        for load in &self.load {
            let Some(phase) = self.phases.iter().position(|(phase, _)| *phase == load.phase) else {
                continue;
            };
            self.network.for_each_link(load.source, load.target, |link| {
                let bytes: &mut u64 = sums.entry((phase, self.network.link_index(link))).or_default();
                *bytes = bytes.saturating_add(load.bytes);
            });
        }
        sums.into_iter()
            .map(|((phase, link), bytes)| (phase, link, bytes))
            .collect()
    }

    /// Bytes of other applications on a link in the phase at this position.
    pub(crate) fn base_on(&self, phase: usize, link: usize) -> u64 {
        let place = self
            .base
            .binary_search_by_key(&(phase, link), |&(phase, link, _)| (phase, link));
        place.map_or(0, |at| self.base[at].2)
    }

    /// The tasks, in the order given.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The transfers, in the order given.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The hosts, and the network that connects them.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Room on each host.
    pub fn capacity(&self) -> &[Capacity] {
        &self.capacity
    }

    /// Constraints other than room.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The data that other applications still send.
    pub fn load(&self) -> &[Load] {
        &self.load
    }

    /// The price of an assignment's hosts and bytes, with its limit; `None` if the problem has no limit.
    pub(crate) fn price(&self, host_of: &[usize]) -> Option<(f64, &MaxPrice)> {
        let bound = self.rules.max_price.as_ref()?;
        let mut used = vec![false; self.capacity.len()];
        for &host in host_of {
            used[host] = true;
        }
        let hosts: f64 = (0..used.len())
            .filter(|&host| used[host])
            .map(|host| bound.host[host])
            .sum();
        let sent = self.transfers.iter().map(|transfer| {
            let (m, n) = (host_of[transfer.source], host_of[transfer.target]);
            let per_byte = if m == n {
                0.0
            } else {
                bound.per_byte[m * self.capacity.len() + n]
            };
            per_byte * transfer.bytes as f64
        });
        Some((hosts + sent.sum::<f64>(), bound))
    }

    /// The price of all broken rules, in seconds.
    pub(crate) fn penalty_s(&self, host_of: &[usize]) -> f64 {
        let mut sum_ns = 0_u128;
        for quota in &self.rules.quotas {
            let Some(price_s) = quota.price_s else { continue };
            let mut used = vec![0_u64; quota.most.len()];
            for &(task, need) in &quota.needs {
                let zone = self.rules.zonings[quota.zoning][host_of[task]];
                if zone != NO_ZONE {
                    used[zone as usize] += need;
                }
            }
            let excess: u64 = used
                .iter()
                .zip(&quota.most)
                .map(|(used, &most)| used.saturating_sub(most))
                .sum();
            sum_ns += price_ns(price_s) * u128::from(excess);
        }
        for limit in &self.rules.max_hosts {
            let Some(price_s) = limit.price_s else { continue };
            let zone = |&task: &usize| limit.zone(&self.rules, host_of[task]);
            let mut zones: Vec<usize> = limit.tasks.iter().map(zone).collect();
            zones.sort_unstable();
            zones.dedup();
            sum_ns += price_ns(price_s) * zones.len().saturating_sub(limit.most) as u128;
        }
        for bound in &self.rules.max_latency {
            let Some(price_s) = bound.price_s else { continue };
            let (m, n) = (host_of[bound.source], host_of[bound.target]);
            let far = || {
                self.network
                    .latency_s(m, n)
                    .is_none_or(|seconds| seconds > bound.seconds)
            };
            sum_ns += if m != n && far() { price_ns(price_s) } else { 0 };
        }
        sum_ns as f64 / 1e9
    }

    /// Whether the constraints allow `task` on `host`, whatever room is left there.
    pub fn allows(&self, task: usize, host: usize) -> bool {
        self.allowed[task].as_ref().is_none_or(|mask| mask[host])
    }

    /// The only host that `task` may use, if there is only one.
    pub fn pin(&self, task: usize) -> Option<usize> {
        let only = self.tasks[task].hosts.as_ref()?;
        only.iter().all(|&host| host == only[0]).then_some(only[0])
    }
}

/// A host for each task. Only [`Problem::assignment`] makes one, so it is known to be feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment(pub(crate) Vec<usize>);

impl Assignment {
    /// The index of each task's host, in task order.
    pub fn hosts(&self) -> &[usize] {
        &self.0
    }

    /// The same, owned.
    pub fn into_hosts(self) -> Vec<usize> {
        self.0
    }
}

fn mask(len: usize, set: &[usize]) -> Vec<bool> {
    let mut mask = vec![false; len];
    for &index in set {
        mask[index] = true;
    }
    mask
}

fn split_phases(transfers: &[Transfer]) -> (Vec<usize>, Vec<(u32, Range<usize>)>) {
    let mut order: Vec<usize> = (0..transfers.len()).collect();
    order.sort_by_key(|&t| transfers[t].phase);
    let mut phases: Vec<(u32, Range<usize>)> = Vec::new();
    for (place, &t) in order.iter().enumerate() {
        match phases.last_mut() {
            Some((phase, range)) if *phase == transfers[t].phase => range.end = place + 1,
            _ => phases.push((transfers[t].phase, place..place + 1)),
        }
    }
    (order, phases)
}
