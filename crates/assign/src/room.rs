//! What is left on each host while tasks are being placed.

use crate::cores::Cores;
use crate::error::PlaceError;
use crate::parts::UNLIMITED_MEMORY;
use crate::problem::{Assignment, Problem};

/// Free CPU and memory of every host.
#[derive(Clone, Debug)]
pub struct Room<'a> {
    problem: &'a Problem,
    cores: Vec<u64>,
    memory_bytes: Vec<u64>,
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
            memory_bytes: problem.capacity.iter().map(|host| host.memory_bytes).collect(),
        }
    }

    /// Whether `task` may run on `host` and finds room there.
    pub fn fits(&self, task: usize, host: usize) -> bool {
        self.problem.cores[task].nanos() <= self.cores[host]
            && self.problem.tasks[task].memory_bytes <= self.memory_bytes[host]
            && self.problem.allows(task, host)
    }

    /// Whether two different tasks may run on `host` and find room there together.
    pub fn fits_both(&self, one: usize, other: usize, host: usize) -> bool {
        let (a, b) = (&self.problem.tasks[one], &self.problem.tasks[other]);
        self.fits(one, host)
            && self.problem.allows(other, host)
            && self.problem.cores[other].nanos() <= self.cores[host] - self.problem.cores[one].nanos()
            && b.memory_bytes <= self.memory_bytes[host] - a.memory_bytes
    }

    /// Books `task` on `host`; it must fit there.
    pub fn take(&mut self, task: usize, host: usize) {
        debug_assert!(self.fits(task, host));
        self.cores[host] -= self.problem.cores[task].nanos();
        if self.memory_bytes[host] != UNLIMITED_MEMORY {
            self.memory_bytes[host] -= self.problem.tasks[task].memory_bytes;
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

    /// The error of a `task` that finds no room on `host`, where it has to be.
    pub(crate) fn no_room_on(&self, task: usize, host: usize) -> PlaceError {
        PlaceError::Overbooked {
            host: self.network.hosts()[host].name.clone(),
            task: self.tasks[task].name.clone(),
            needs: self.needs(task),
        }
    }

    /// What `task` needs, in words.
    pub(crate) fn needs(&self, task: usize) -> String {
        let task = &self.tasks[task];
        match task.memory_bytes {
            0 => format!("{} cpus", task.cpus),
            bytes => format!("{} cpus and {bytes} bytes of memory", task.cpus),
        }
    }
}
