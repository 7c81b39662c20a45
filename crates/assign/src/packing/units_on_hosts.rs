//! The host of each unit, and which further units fit where under all rules.

use crate::error::PlaceError;
use crate::packing::capacity_left::Room;
use crate::problem::cores::Cores;
use crate::problem::stores::Stores;
use crate::problem::units::Units;
use crate::problem::{Assignment, Problem};

/// The host of a unit that has none yet.
pub(crate) const NOWHERE: usize = usize::MAX;

/// Units on hosts, possibly not all of them.
#[derive(Clone, Debug)]
pub(crate) struct Packing<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) units: &'a Units,
    free_cores: Vec<u64>,
    free_stores: Vec<Stores>,
    free_quotas: Vec<u64>,
    host_of: Vec<usize>,
    on: Vec<Vec<usize>>,
    /// Position of each unit in its host's list.
    position: Vec<usize>,
    /// For each limit and host, the number of the limit's units on the host.
    used: Vec<Vec<u32>>,
    /// For each limit, the number of hosts that hold any of its units.
    open: Vec<usize>,
}

impl<'a> Packing<'a> {
    /// All hosts empty.
    pub(crate) fn new(problem: &'a Problem, units: &'a Units) -> Self {
        let hosts = problem.capacity.len();
        Self {
            problem,
            units,
            free_cores: problem
                .capacity
                .iter()
                .map(|host| Cores::offered(host.cpus).nanos())
                .collect(),
            free_stores: problem.capacity.iter().map(|host| host.stores).collect(),
            free_quotas: problem.rules.quotas.iter().map(|quota| quota.most).collect(),
            host_of: vec![NOWHERE; units.len()],
            on: vec![Vec::new(); hosts],
            position: vec![0; units.len()],
            used: vec![vec![0; hosts]; units.limits.len()],
            open: vec![0; units.limits.len()],
        }
    }

    /// Puts every unit on its host in `host_of`; `None` if that breaks a rule.
    pub(crate) fn of(problem: &'a Problem, units: &'a Units, host_of: &[usize]) -> Option<Self> {
        let mut packing = Self::new(problem, units);
        for (unit, &host) in host_of.iter().enumerate() {
            if !packing.fits(unit, host) {
                return None;
            }
            packing.put(unit, host);
        }
        Some(packing)
    }

    pub(crate) fn host_of(&self, unit: usize) -> usize {
        self.host_of[unit]
    }

    pub(crate) fn hosts(&self) -> &[usize] {
        &self.host_of
    }

    pub(crate) fn on(&self, host: usize) -> &[usize] {
        &self.on[host]
    }

    pub(crate) fn free_cores(&self, host: usize) -> u64 {
        self.free_cores[host]
    }

    /// Whether a `unit` without a host has room on `host` and breaks no rule there.
    pub(crate) fn fits(&self, unit: usize, host: usize) -> bool {
        let units = self.units;
        units.cores[unit] <= self.free_cores[host]
            && units.stores[unit].within(self.free_stores[host])
            && units.allows(unit, host)
            && self.problem.quotas_of[host]
                .iter()
                .all(|&quota| units.quotas[quota][unit] <= self.free_quotas[quota])
            && units.apart[unit]
                .iter()
                .all(|&other| other != unit && self.host_of[other] != host)
            && self.near_enough(unit, host)
            && units.limits_of[unit]
                .iter()
                .all(|&limit| self.used[limit][host] > 0 || self.open[limit] < units.limits[limit].1)
    }

    fn near_enough(&self, unit: usize, host: usize) -> bool {
        self.units.near[unit].iter().all(|near| {
            let other_host = self.host_of[near.other];
            let (from, to) = if near.sends {
                (host, other_host)
            } else {
                (other_host, host)
            };
            let latency_s = || self.problem.network.latency_s(from, to);
            other_host == NOWHERE || latency_s().is_some_and(|seconds| seconds <= near.seconds)
        })
    }

    /// The hosts where a `unit` without a host fits, in order.
    pub(crate) fn open_to(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.on.len()).filter(move |&host| self.fits(unit, host))
    }

    /// Puts a unit without a host on a host where it fits.
    pub(crate) fn put(&mut self, unit: usize, host: usize) {
        debug_assert!(self.fits(unit, host) && self.host_of[unit] == NOWHERE);
        self.free_cores[host] -= self.units.cores[unit];
        self.free_stores[host] = self.free_stores[host].less(self.units.stores[unit]);
        for &quota in &self.problem.quotas_of[host] {
            self.free_quotas[quota] -= self.units.quotas[quota][unit];
        }
        self.host_of[unit] = host;
        self.position[unit] = self.on[host].len();
        self.on[host].push(unit);
        for &limit in &self.units.limits_of[unit] {
            self.open[limit] += usize::from(self.used[limit][host] == 0);
            self.used[limit][host] += 1;
        }
    }

    /// Takes a unit off its host, and returns that host.
    pub(crate) fn take(&mut self, unit: usize) -> usize {
        let host = self.host_of[unit];
        self.free_cores[host] += self.units.cores[unit];
        self.free_stores[host] = self.free_stores[host].more(self.units.stores[unit]);
        for &quota in &self.problem.quotas_of[host] {
            self.free_quotas[quota] += self.units.quotas[quota][unit];
        }
        self.host_of[unit] = NOWHERE;
        let position = self.position[unit];
        self.on[host].swap_remove(position);
        if let Some(&moved) = self.on[host].get(position) {
            self.position[moved] = position;
        }
        for &limit in &self.units.limits_of[unit] {
            self.used[limit][host] -= 1;
            self.open[limit] -= usize::from(self.used[limit][host] == 0);
        }
        host
    }

    /// Places the units that have only one possible host.
    pub(crate) fn put_pinned(&mut self) -> Result<(), PlaceError> {
        for unit in 0..self.units.len() {
            let Some(mask) = &self.units.allowed[unit] else {
                continue;
            };
            let mut hosts = (0..mask.len()).filter(|&host| mask[host]);
            let (Some(host), None) = (hosts.next(), hosts.next()) else {
                continue;
            };
            if !self.fits(unit, host) {
                return Err(self.problem.no_room_on(self.units.members[unit][0], host));
            }
            self.put(unit, host);
        }
        Ok(())
    }

    /// The units without a host, in ascending order.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        (0..self.host_of.len())
            .filter(|&unit| self.host_of[unit] == NOWHERE)
            .collect()
    }

    /// Makes room for a `unit` that fits nowhere by moving one other unit to another host. Returns whether that
    /// succeeded.
    ///
    /// Hosts are tried in order, and on each host the smallest unit that is in the way first.
    pub(crate) fn make_room(&mut self, unit: usize) -> bool {
        for host in 0..self.on.len() {
            if !self.units.allows(unit, host) {
                continue;
            }
            let mut others = self.on[host].clone();
            others.sort_by_key(|&other| (self.units.cores[other], other));
            for other in others {
                self.take(other);
                if self.fits(unit, host) {
                    self.put(unit, host);
                    let aside = self.open_to(other).find(|&to| to != host);
                    if let Some(to) = aside {
                        self.put(other, to);
                        return true;
                    }
                    self.take(unit);
                }
                self.put(other, host);
            }
        }
        false
    }

    /// The assignment of all tasks, once no unit is waiting.
    pub(crate) fn finish(&self) -> Assignment {
        Assignment(self.units.spread(&self.host_of))
    }

    /// The error of a `policy` that found no host for `unit`.
    pub(crate) fn none_for(&self, policy: &'static str, unit: usize) -> PlaceError {
        let task = self.units.members[unit][0];
        let (name, needs) = (self.problem.tasks[task].name.clone(), self.problem.needs(task));
        if Room::new(self.problem).first(task).is_none() {
            return PlaceError::TooLarge { task: name, needs };
        }
        PlaceError::NoRoom {
            policy,
            task: name,
            needs,
        }
    }
}
