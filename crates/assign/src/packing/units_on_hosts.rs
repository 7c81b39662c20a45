//! The host of each unit, and which further units fit where under all rules.

use crate::error::PlaceError;
use crate::packing::capacity_left::Room;
use crate::problem::cores::Cores;
use crate::problem::rules::{NO_ZONE, Quota, price_ns};
use crate::problem::stores::Stores;
use crate::problem::units::{Near, Units};
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
    budgets: Vec<Budget>,
    /// Whether the zones of a quota must have more than all units need, so that no placement keeps it.
    short: bool,
    /// The price of all rules that are broken, in nanoseconds.
    penalty_ns: u128,
    host_of: Vec<usize>,
    on: Vec<Vec<usize>>,
    /// Position of each unit in its host's list.
    position: Vec<usize>,
    /// For each limit and host or zone, the number of the limit's units there.
    used: Vec<Vec<u32>>,
    /// For each limit, the number of hosts or zones that hold any of its units.
    open: Vec<usize>,
}

/// What is used of a quota.
#[derive(Clone, Debug)]
struct Budget {
    /// Total need in each zone.
    used: Vec<u64>,
    /// Total need of the units without a host.
    waiting: u64,
    /// What all zones together lack to have the least that they must have.
    lacking: u64,
}

impl<'a> Packing<'a> {
    /// All hosts empty.
    pub(crate) fn new(problem: &'a Problem, units: &'a Units) -> Self {
        let hosts = problem.capacity.len();
        let budgets: Vec<Budget> = problem.rules.quotas.iter().zip(&units.quotas).map(budget).collect();
        Self {
            problem,
            units,
            short: budgets.iter().any(|budget| budget.lacking > budget.waiting),
            free_cores: problem
                .capacity
                .iter()
                .map(|host| Cores::offered(host.cpus).nanos())
                .collect(),
            free_stores: problem.capacity.iter().map(|host| host.stores).collect(),
            budgets,
            penalty_ns: 0,
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
        !self.short
            && units.cores[unit] <= self.free_cores[host]
            && units.stores[unit].within(self.free_stores[host])
            && units.allows(unit, host)
            && units.needs[unit]
                .iter()
                .all(|&(quota, need)| self.within_quota(quota, need, host))
            && units.apart[unit]
                .iter()
                .all(|&other| other != unit && self.host_of[other] != host)
            && self.near_enough(unit, host)
            && units.limits_of[unit]
                .iter()
                .all(|&limit| self.within_limit(limit, host))
    }

    fn within_limit(&self, limit: usize, host: usize) -> bool {
        let rule = &self.units.limits[limit];
        rule.price_s.is_some() || self.used[limit][self.zone(rule.zoning, host)] > 0 || self.open[limit] < rule.most
    }

    /// The zone of a host, or the host itself without a zoning.
    fn zone(&self, zoning: Option<usize>, host: usize) -> usize {
        zoning.map_or(host, |zoning| self.problem.rules.zonings[zoning][host] as usize)
    }

    fn within_quota(&self, quota: usize, need: u64, host: usize) -> bool {
        let (rule, budget) = (&self.problem.rules.quotas[quota], &self.budgets[quota]);
        let zone = self.problem.rules.zonings[rule.zoning][host];
        let used = if zone == NO_ZONE {
            None
        } else {
            Some(budget.used[zone as usize])
        };
        let room = |used: u64| rule.price_s.is_some() || need <= rule.most[zone as usize].saturating_sub(used);
        if !used.is_none_or(room) {
            return false;
        }
        // The units that still wait must be enough for all zones that lack any.
        let filled = used.map_or(0, |used| rule.least.saturating_sub(used).min(need));
        rule.least == 0 || budget.lacking - filled <= budget.waiting.saturating_sub(need)
    }

    /// The price of all rules that are broken, in seconds.
    pub(crate) fn penalty_s(&self) -> f64 {
        // The search asks at every step, and most problems have no prices.
        if self.penalty_ns == 0 {
            0.0
        } else {
            self.penalty_ns as f64 / 1e9
        }
    }

    /// Counts the needs of a unit that comes to a host, or leaves it, and the price of the rules that this breaks.
    fn count(&mut self, unit: usize, host: usize, comes: bool) {
        let (problem, units) = (self.problem, self.units);
        let rules = &problem.rules;
        let mut change = |ns: u128, more: bool| {
            self.penalty_ns = if more {
                self.penalty_ns + ns
            } else {
                self.penalty_ns - ns
            };
        };
        for &(quota, need) in &units.needs[unit] {
            let (rule, budget) = (&rules.quotas[quota], &mut self.budgets[quota]);
            budget.waiting = if comes {
                budget.waiting.saturating_sub(need)
            } else {
                budget.waiting.saturating_add(need)
            };
            let zone = rules.zonings[rule.zoning][host];
            if zone == NO_ZONE {
                continue;
            }
            let zone = zone as usize;
            let before = budget.used[zone];
            let after = if comes { before + need } else { before - need };
            budget.used[zone] = after;
            let lacks = |used: u64| rule.least.saturating_sub(used);
            budget.lacking = budget.lacking + lacks(after) - lacks(before);
            if let Some(price_s) = rule.price_s {
                let excess = |used: u64| used.saturating_sub(rule.most[zone]);
                change(
                    price_ns(price_s) * u128::from(excess(after).abs_diff(excess(before))),
                    comes,
                );
            }
        }
        for &limit in &units.limits_of[unit] {
            let rule = &units.limits[limit];
            let zone = rule.zoning.map_or(host, |zoning| rules.zonings[zoning][host] as usize);
            let used = &mut self.used[limit][zone];
            let first = *used == u32::from(!comes);
            *used = if comes { *used + 1 } else { *used - 1 };
            if !first {
                continue;
            }
            let open = &mut self.open[limit];
            *open = if comes { *open + 1 } else { *open - 1 };
            if let Some(price_s) = rule.price_s.filter(|_| *open + usize::from(!comes) > rule.most) {
                change(price_ns(price_s), comes);
            }
        }
        for near in &units.near[unit] {
            let Some(price_s) = near.price_s else { continue };
            if self.host_of[near.other] != NOWHERE && !problem.near(near, host, self.host_of[near.other]) {
                change(price_ns(price_s), comes);
            }
        }
    }

    fn near_enough(&self, unit: usize, host: usize) -> bool {
        self.units.near[unit].iter().all(|near| {
            let other_host = self.host_of[near.other];
            near.price_s.is_some() || other_host == NOWHERE || self.problem.near(near, host, other_host)
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
        self.count(unit, host, true);
        self.host_of[unit] = host;
        self.position[unit] = self.on[host].len();
        self.on[host].push(unit);
    }

    /// Whether a unit without a host, which fits on `host`, would break a rule with a price there.
    pub(crate) fn breaks(&mut self, unit: usize, host: usize) -> bool {
        let before = self.penalty_ns;
        self.put(unit, host);
        let after = self.penalty_ns;
        self.take(unit);
        after > before
    }

    /// The units that break a rule with a price, in ascending order.
    pub(crate) fn breaking(&mut self) -> Vec<usize> {
        let count = self.units.len();
        let breaks = |unit: &usize| {
            let host = self.take(*unit);
            let breaks = self.breaks(*unit, host);
            self.put(*unit, host);
            breaks
        };
        (0..count).filter(breaks).collect()
    }

    /// Takes a unit off its host, and returns that host.
    pub(crate) fn take(&mut self, unit: usize) -> usize {
        let host = self.host_of[unit];
        self.free_cores[host] += self.units.cores[unit];
        self.free_stores[host] = self.free_stores[host].more(self.units.stores[unit]);
        self.count(unit, host, false);
        self.host_of[unit] = NOWHERE;
        let position = self.position[unit];
        self.on[host].swap_remove(position);
        if let Some(&moved) = self.on[host].get(position) {
            self.position[moved] = position;
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

fn budget((quota, needs): (&Quota, &Vec<(usize, u64)>)) -> Budget {
    Budget {
        used: vec![0; quota.most.len()],
        waiting: needs.iter().fold(0, |sum: u64, &(_, need)| sum.saturating_add(need)),
        lacking: quota.least.saturating_mul(quota.most.len() as u64),
    }
}

impl Problem {
    /// Whether a unit on `host` keeps a bound on the latency to or from another on `other_host`.
    fn near(&self, near: &Near, host: usize, other_host: usize) -> bool {
        let (from, to) = if near.sends {
            (host, other_host)
        } else {
            (other_host, host)
        };
        let latency_s = self.network.latency_s(from, to);
        from == to || latency_s.is_some_and(|seconds| seconds <= near.seconds)
    }
}
