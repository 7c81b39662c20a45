//! Errors, in words that name the task, host or group.

use gavotte_net::InputError;
use thiserror::Error;

/// Input that does not describe a valid problem.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ProblemError {
    /// An invalid index or column.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Prices that are not one for each host and pair of hosts, or not a sum of money.
    #[error("prices must be finite and not below zero, one for each of {hosts} hosts and {hosts} x {hosts} pairs")]
    Price {
        /// Number of hosts.
        hosts: usize,
    },
    /// The price of a broken rule that is negative, not a number, or too large.
    #[error("the price of a broken rule must be from 0 to {most_s} s")]
    RulePrice {
        /// The largest price in seconds.
        most_s: f64,
    },
    /// A CPU amount that is negative, not a number, or beyond a million cores.
    #[error("{what} has {value} cpus; the amount must be from 0 to {most}")]
    Cpus {
        /// The task or host.
        what: String,
        /// Its value.
        value: f64,
        /// The largest amount accepted.
        most: f64,
    },
    /// A task that sends to itself.
    #[error("transfer {transfer} goes from task `{task}` to itself")]
    SelfTransfer {
        /// Index of the transfer.
        transfer: usize,
        /// The task's name.
        task: String,
    },
    /// More bytes than 64 bits can count.
    #[error("the transfers add up to more than 2^64 bytes")]
    TooManyBytes,
    /// A task with an empty list of allowed hosts.
    #[error("task `{0}` is not allowed on any host")]
    NowhereAllowed(String),
}

/// No placement was found, or an assignment breaks a rule.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum PlaceError {
    /// Even an empty host is too small for this task.
    #[error("task `{task}` needs {needs}, more than any host it may use offers")]
    TooLarge {
        /// The task's name.
        task: String,
        /// What it needs, in words.
        needs: String,
    },
    /// The policy placed other tasks in such a way that no host is left for this one. Other policies may still succeed.
    #[error("{policy} finds no host for task `{task}`, which needs {needs}, once the tasks before it are placed")]
    NoRoom {
        /// Name of the policy.
        policy: &'static str,
        /// The task's name.
        task: String,
        /// What it needs, in words.
        needs: String,
    },
    /// The search found no placement within the maximum price. One may exist.
    #[error("search found no placement within the maximum price")]
    TooDear,
    /// A random policy that gave up.
    #[error("{policy} finds no placement in {draws} draws; the last failed for task `{task}`, which needs {needs}")]
    NoDraw {
        /// Name of the policy.
        policy: &'static str,
        /// How many draws were made.
        draws: u32,
        /// The task that found no host in the last draw.
        task: String,
        /// What it needs, in words.
        needs: String,
    },
    /// An assignment that does not give one host to each task.
    #[error("the assignment has {found} entries for {tasks} tasks")]
    Length {
        /// Entries found.
        found: usize,
        /// Number of tasks.
        tasks: usize,
    },
    /// An assignment to a host that does not exist.
    #[error("task `{task}` is assigned to host {host}, but there are only {hosts}")]
    UnknownHost {
        /// The task's name.
        task: String,
        /// The host's index.
        host: usize,
        /// Number of hosts.
        hosts: usize,
    },
    /// An assignment to a host that the task may not use.
    #[error("task `{task}` may not run on host `{host}`")]
    NotAllowed {
        /// The task's name.
        task: String,
        /// The host's name.
        host: String,
    },
    /// An assignment that puts more on a host than it offers.
    #[error("host `{host}` has no room for task `{task}`, which needs {needs}")]
    Overbooked {
        /// The host's name.
        host: String,
        /// The first task, in task order, that does not fit.
        task: String,
        /// What it needs, in words.
        needs: String,
    },
}

/// A policy name that is not in the registry.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown placement policy `{name}`; use {known}")]
pub struct UnknownPolicy {
    /// The name asked for.
    pub name: String,
    /// All names, comma separated.
    pub known: String,
}
