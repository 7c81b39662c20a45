//! The capacity that is left on each host while tasks are placed.

use crate::error::PlaceError;
use crate::problem::cores::Cores;
use crate::problem::stores::Stores;
use crate::problem::{Assignment, Problem};

/// Free CPU, memory and storage of every host.
#[derive(Clone, Debug)]
pub struct Room<'a> {
    problem: &'a Problem,
    cores: Vec<u64>,
    stores: Vec<Stores>,
    /// The amount left of each quota.
    quotas: Vec<u64>,
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
            quotas: problem.rules.quotas.iter().map(|quota| quota.most).collect(),
        }
    }

    /// Whether `task` may run on `host` and has room there.
    pub fn fits(&self, task: usize, host: usize) -> bool {
        self.problem.cores[task].nanos() <= self.cores[host]
            && self.problem.tasks[task].stores.within(self.stores[host])
            && self.problem.allows(task, host)
            && self.within_quotas(host, |needs| needs[task])
    }

    fn within_quotas(&self, host: usize, need: impl Fn(&[u64]) -> u64) -> bool {
        let quotas = self.problem.quotas_of[host].iter();
        quotas
            .into_iter()
            .all(|&quota| need(&self.problem.rules.quotas[quota].needs) <= self.quotas[quota])
    }

    /// Whether two different tasks may both run on `host` and have room there together.
    pub fn fits_both(&self, one: usize, other: usize, host: usize) -> bool {
        let (a, b) = (&self.problem.tasks[one], &self.problem.tasks[other]);
        self.fits(one, host)
            && self.problem.allows(other, host)
            && self.problem.cores[other].nanos() <= self.cores[host] - self.problem.cores[one].nanos()
            && b.stores.within(self.stores[host].less(a.stores))
            && self.within_quotas(host, |needs| needs[one].saturating_add(needs[other]))
    }

    /// Reserves room for `task` on `host`; it must fit there.
    pub fn take(&mut self, task: usize, host: usize) {
        debug_assert!(self.fits(task, host));
        self.cores[host] -= self.problem.cores[task].nanos();
        self.stores[host] = self.stores[host].less(self.problem.tasks[task].stores);
        for &quota in &self.problem.quotas_of[host] {
            self.quotas[quota] -= self.problem.rules.quotas[quota].needs[task];
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
        let task = &self.tasks[task];
        let stores = [
            (task.stores.memory_bytes, "memory"),
            (task.stores.storage_bytes, "storage"),
        ];
        let needed = stores.iter().filter(|(bytes, _)| *bytes > 0);
        let memory_needs = needed.map(|(bytes, what)| format!(" and {bytes} bytes of {what}"));
        format!("{} cpus{}", task.cpus, memory_needs.collect::<String>())
    }
}
