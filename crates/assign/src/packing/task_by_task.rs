//! A placement in progress.

use crate::error::PlaceError;
use crate::packing::capacity_left::Room;
use crate::problem::{Assignment, Problem};

/// Hosts of the tasks placed so far, and the room that is left.
#[derive(Clone, Debug)]
pub struct Partial<'a> {
    problem: &'a Problem,
    room: Room<'a>,
    host_of: Vec<Option<usize>>,
}

impl<'a> Partial<'a> {
    /// Tasks that may use one host only are on it already, so that no other task takes their room.
    ///
    /// # Errors
    /// [`PlaceError`] names a task whose only host has no room for it; then no placement exists.
    pub fn new(problem: &'a Problem) -> Result<Self, PlaceError> {
        let host_of = vec![None; problem.tasks.len()];
        let mut partial = Self {
            problem,
            room: Room::new(problem),
            host_of,
        };
        for (task, host) in (0..problem.tasks.len()).filter_map(|i| Some((i, problem.pin(i)?))) {
            if !partial.room.fits(task, host) {
                return Err(problem.no_room_on(task, host));
            }
            partial.put(task, host);
        }
        Ok(partial)
    }

    /// The room that is left.
    pub fn room(&self) -> &Room<'a> {
        &self.room
    }

    /// The host of `task`, if it has one yet.
    pub fn host_of(&self, task: usize) -> Option<usize> {
        self.host_of[task]
    }

    /// The tasks without a host, in ascending order.
    pub fn waiting(&self) -> Vec<usize> {
        (0..self.host_of.len())
            .filter(|&task| self.host_of[task].is_none())
            .collect()
    }

    /// Puts a waiting `task` on `host`, where it must fit.
    pub fn put(&mut self, task: usize, host: usize) {
        self.room.take(task, host);
        self.host_of[task] = Some(host);
    }

    /// The assignment, once no task is waiting.
    ///
    /// # Errors
    /// The error of [`Partial::none_for`] for the first task without a host.
    pub fn finish(self, policy: &'static str) -> Result<Assignment, PlaceError> {
        match self.host_of.iter().position(Option::is_none) {
            Some(task) => Err(self.none_for(policy, task)),
            None => Ok(Assignment(self.host_of.into_iter().flatten().collect())),
        }
    }

    /// The error of a `policy` that found no host for `task`.
    pub fn none_for(&self, policy: &'static str, task: usize) -> PlaceError {
        let name = self.problem.tasks[task].name.clone();
        let needs = self.problem.needs(task);
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
