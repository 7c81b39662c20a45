//! Errors.

use thiserror::Error;

/// Invalid costs, an invalid operation or an invalid tree.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TreeError {
    /// No hosts.
    #[error("there are no hosts")]
    NoHosts,
    /// A matrix that is not hosts x hosts.
    #[error("a matrix has {entries} entries, but {hosts} hosts need {hosts} x {hosts}")]
    Shape {
        /// Number of its entries.
        entries: usize,
        /// Number of hosts.
        hosts: usize,
    },
    /// A time that is negative or not a number.
    #[error("the time from host {source_host} to host {target} is {value}; it must be 0 or more")]
    Cost {
        /// Row.
        source_host: usize,
        /// Column.
        target: usize,
        /// Its value.
        value: f64,
    },
    /// A root that does not exist.
    #[error("the root is host {root}, but there are only {hosts}")]
    Root {
        /// The root asked for.
        root: usize,
        /// Number of hosts.
        hosts: usize,
    },
    /// A number of bytes that is negative, infinite or not a number.
    #[error("cannot send {0} bytes; use 0 or more")]
    Bytes(f64),
    /// A host that no other host can send to.
    #[error("no usable pair leads to host {0}")]
    Unreachable(usize),
    /// A pair whose rate is unknown.
    #[error("the rate from `{0}` to `{1}` is unknown; measure that pair, or use other hosts")]
    UnknownPair(String, String),
    /// An invalid network.
    #[error("{0}")]
    Network(String),
    /// A schedule that cannot be simulated.
    #[error("cannot be simulated: {0}")]
    Fluid(String),
    /// Operations of ranks that cannot be replayed.
    #[error("cannot be replayed: {0}")]
    Replay(String),
    /// Parents and order that do not form a tree, or an invalid mapping.
    #[error("invalid for {hosts} hosts: {why}")]
    NoTree {
        /// Number of hosts.
        hosts: usize,
        /// The reason.
        why: String,
    },
}
