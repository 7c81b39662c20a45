//! The capacity that is left on each host while tasks are placed.

use crate::error::PlaceError;
use crate::problem::cores::Cores;
use crate::problem::rules::NO_ZONE;
use crate::problem::stores::Stores;
use crate::problem::{Assignment, Problem};

/// Free CPU, memory and storage of every host.
#[derive(Clone, Debug)]
pub struct Room<'a> {
    problem: &'a Problem,
    cores: Vec<u64>,
    stores: Vec<Stores>,
    /// The amount left of each quota in each zone.
    quotas: Vec<Vec<u64>>,
}

impl<'a> Room<'a> {
    /// All hosts empty.
    pub fn new(problem: &'a Problem) -> Self {
        Self {
            problem,
            cores: problem
                .capacity
                .iter()
                .map(|host| Cores::offered(host.cpus).nanos())
                .collect(),
            stores: problem.capacity.iter().map(|host| host.stores).collect(),
            quotas: problem.rules.quotas.iter().map(|quota| quota.most.clone()).collect(),
        }
    }

    /// Whether `task` may run on `host` and has room there.
    pub fn fits(&self, task: usize, host: usize) -> bool {
        self.problem.cores[task].nanos() <= self.cores[host]
            && self.problem.tasks[task].stores.within(self.stores[host])
            && self.problem.allows(task, host)
            && self.within_quotas(task, host, |_| 0)
    }

    /// Whether what `task` needs of each quota, and `more` of it, is left for `host`.
    fn within_quotas(&self, task: usize, host: usize, more: impl Fn(usize) -> u64) -> bool {
        self.problem.room_needs[task].iter().all(|&(quota, need)| {
            let zone = self.zone(quota, host);
            zone.is_none_or(|zone| need.saturating_add(more(quota)) <= self.quotas[quota][zone])
        })
    }

    fn zone(&self, quota: usize, host: usize) -> Option<usize> {
        let rules = &self.problem.rules;
        let zone = rules.zonings[rules.quotas[quota].zoning][host];
        (zone != NO_ZONE).then_some(zone as usize)
    }

    /// Whether two different tasks may both run on `host` and have room there together.
    pub fn fits_both(&self, one: usize, other: usize, host: usize) -> bool {
        let (a, b) = (&self.problem.tasks[one], &self.problem.tasks[other]);
        self.fits(one, host)
            && self.problem.allows(other, host)
            && self.problem.cores[other].nanos() <= self.cores[host] - self.problem.cores[one].nanos()
            && b.stores.within(self.stores[host].less(a.stores))
            && self.within_quotas(other, host, |quota| self.need(one, quota))
    }

    /// Whether two tasks, each of which fits on its own host, leave each other what both need of links or zones.
    pub(crate) fn fits_next_to(&self, (one, host): (usize, usize), (other, there): (usize, usize)) -> bool {
        let both = |quota: usize| {
            let same = self.zone(quota, host) == self.zone(quota, there);
            if same { self.need(one, quota) } else { 0 }
        };
        self.problem.room_needs[one].is_empty() || self.within_quotas(other, there, both)
    }

    /// What a task needs of a quota.
    fn need(&self, task: usize, quota: usize) -> u64 {
        let mut needs = self.problem.room_needs[task].iter();
        needs.find(|(known, _)| *known == quota).map_or(0, |&(_, need)| need)
    }

    /// Reserves room for `task` on `host`; it must fit there.
    pub fn take(&mut self, task: usize, host: usize) {
        debug_assert!(self.fits(task, host));
        self.cores[host] -= self.problem.cores[task].nanos();
        self.stores[host] = self.stores[host].less(self.problem.tasks[task].stores);
        for &(quota, need) in &self.problem.room_needs[task] {
            if let Some(zone) = self.zone(quota, host) {
                self.quotas[quota][zone] -= need;
            }
        }
    }

    /// The first host where `task` fits.
    pub fn first(&self, task: usize) -> Option<usize> {
        self.first_of(task, 0..self.problem.capacity.len())
    }

    /// The first of `hosts` where `task` fits.
    pub fn first_of(&self, task: usize, hosts: impl IntoIterator<Item = usize>) -> Option<usize> {
        hosts.into_iter().find(|&host| self.fits(task, host))
    }
}

impl Problem {
    /// Checks that `hosts` gives every task one host that it may use, and that no host is overbooked.
    ///
    /// # Errors
    /// [`PlaceError`] names the first task, in task order, that breaks a rule.
    pub fn assignment(&self, hosts: Vec<usize>) -> Result<Assignment, PlaceError> {
        if hosts.len() != self.tasks.len() {
            return Err(PlaceError::Length {
                found: hosts.len(),
                tasks: self.tasks.len(),
            });
        }
        let mut room = Room::new(self);
        for (task, &host) in hosts.iter().enumerate() {
            let name = || self.tasks[task].name.clone();
            let Some(there) = self.network.hosts().get(host) else {
                return Err(PlaceError::UnknownHost {
                    task: name(),
                    host,
                    hosts: self.capacity.len(),
                });
            };
            if !self.allows(task, host) {
                return Err(PlaceError::NotAllowed {
                    task: name(),
                    host: there.name.clone(),
                });
            }
            if !room.fits(task, host) {
                return Err(self.no_room_on(task, host));
            }
            room.take(task, host);
        }
        Ok(Assignment(hosts))
    }

    /// The error for a `task` that must be on `host` but has no room there.
    pub(crate) fn no_room_on(&self, task: usize, host: usize) -> PlaceError {
        PlaceError::Overbooked {
            host: self.network.hosts()[host].name.clone(),
            task: self.tasks[task].name.clone(),
            needs: self.needs(task),
        }
    }

    /// The needs of `task`, in words.
    pub(crate) fn needs(&self, task: usize) -> String {
        let resources = self.room_needs[task].iter().filter_map(|&(quota, need)| {
            let name = self.rules.quotas[quota].room.as_ref().filter(|name| !name.is_empty())?;
            Some(format!(" and {need} {name}"))
        });
        let resources: String = resources.collect();
        let task = &self.tasks[task];
        let stores = [
            (task.stores.memory_bytes, "memory"),
            (task.stores.storage_bytes, "storage"),
        ];
        let needed = stores.iter().filter(|(bytes, _)| *bytes > 0);
        let memory_needs = needed.map(|(bytes, what)| format!(" and {bytes} bytes of {what}"));
        format!("{} cpus{}{resources}", task.cpus, memory_needs.collect::<String>())
    }
}
