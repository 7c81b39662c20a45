//! What a placement problem is made of.

use crate::rules::Rules;
use crate::stores::Stores;

/// A task to be placed on exactly one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// What messages call it.
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
    /// Transfers of one phase run together; a phase starts when the one before it has ended.
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
    /// The phase in which it is under way.
    pub phase: u32,
}

/// What there is to place, and where there is room. All that [`crate::Problem::new`] needs besides the network.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The tasks to place.
    pub tasks: Vec<Task>,
    /// Who sends how much to whom.
    pub transfers: Vec<Transfer>,
    /// Room on each host of the network.
    pub capacity: Vec<Capacity>,
    /// What a placement must keep besides room.
    pub rules: Rules,
    /// What is under way already. It delays transfers on the links that both use.
    pub load: Vec<Load>,
}
