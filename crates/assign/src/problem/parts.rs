//! The parts of a placement problem.

use crate::problem::rules::Rules;
use crate::problem::stores::Stores;

/// A task to be placed on exactly one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name of the task in messages.
    pub name: String,
    /// CPU cores it needs, fractions allowed.
    pub cpus: f64,
    /// Memory and storage it needs.
    pub stores: Stores,
    /// The only hosts it may be placed on; `None` allows all of them.
    pub hosts: Option<Vec<usize>>,
}

/// Data that one task sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the sending task.
    pub source: usize,
    /// Index of the receiving task.
    pub target: usize,
    /// Amount in bytes.
    pub bytes: u64,
    /// Transfers of one phase run together. A phase starts when the one before it has ended.
    pub phase: u32,
}

/// Room that a host has for tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// CPU cores it offers.
    pub cpus: f64,
    /// Memory and storage it offers.
    pub stores: Stores,
}

/// Data that an application placed earlier still sends from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Index of the sending host.
    pub source: usize,
    /// Index of the receiving host.
    pub target: usize,
    /// Amount in bytes.
    pub bytes: u64,
    /// The phase in which it is sent.
    pub phase: u32,
}

/// The tasks to place, and the room on hosts. Everything that [`crate::Problem::new`] needs except the network.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The tasks to place.
    pub tasks: Vec<Task>,
    /// The data that tasks send to each other.
    pub transfers: Vec<Transfer>,
    /// Room on each host of the network.
    pub capacity: Vec<Capacity>,
    /// Constraints other than room.
    pub rules: Rules,
    /// Data that other applications still send. It delays transfers on the links that both use.
    pub load: Vec<Load>,
}
