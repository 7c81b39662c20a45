//! What can go wrong, in words that name the part and the remedy.

use gavotte_net::InputError;
use thiserror::Error;

/// A platform, workload or file that makes no sense.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FluidError {
    /// A description without hosts.
    #[error("there are no hosts to send between")]
    NoHosts,
    /// A number, index or column.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A switch that is above itself.
    #[error("switch `{0}` is its own ancestor")]
    Circle(String),
    /// Two switches with hosts and no way between them.
    #[error("no path leads from switch `{source_switch}` to `{target_switch}`; give both a common ancestor")]
    Unreachable {
        /// One switch.
        source_switch: String,
        /// The other.
        target_switch: String,
    },
    /// Flows that wait for each other.
    #[error("flow {0} waits for itself through the flows before it")]
    OrderCircle(usize),
    /// A line of a flow list.
    #[error("line {line}: {field}: {problem}")]
    Line {
        /// Counted from 1, the header included.
        line: u64,
        /// Name of the column.
        field: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// A flow list as a whole.
    #[error("{0}")]
    Table(String),
}
