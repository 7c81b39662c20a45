//! Errors in platforms, workloads and files; each message names the part and the remedy.

use gavotte_net::InputError;
use thiserror::Error;

/// Why a platform, workload or file was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FluidError {
    /// The description has no hosts.
    #[error("there are no hosts to send between")]
    NoHosts,
    /// A number, index or column is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A switch is its own ancestor.
    #[error("switch `{0}` is its own ancestor")]
    Circle(String),
    /// No path connects two switches that have hosts.
    #[error("no path leads from switch `{source_switch}` to `{target_switch}`; give both a common ancestor")]
    Unreachable {
        /// One switch.
        source_switch: String,
        /// The other switch.
        target_switch: String,
    },
    /// Flows wait for each other.
    #[error("flow {0} waits for itself through the flows before it")]
    OrderCircle(usize),
    /// A line of a flow list is invalid.
    #[error("line {line}: {field}: {problem}")]
    Line {
        /// Line number, counted from 1 with the header.
        line: u64,
        /// Name of the column.
        field: &'static str,
        /// The problem and the remedy.
        problem: String,
    },
    /// A flow list is invalid as a whole.
    #[error("{0}")]
    Table(String),
}
