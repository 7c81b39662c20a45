//! What can go wrong, in words that name the part and the remedy.

use thiserror::Error;

/// A platform, workload or file that makes no sense.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum FluidError {
    /// A description without hosts.
    #[error("there are no hosts to send between")]
    NoHosts,
    /// An index outside its list.
    #[error("{what} is {index}, but there are only {count}")]
    Index {
        /// Which index.
        what: String,
        /// Its value.
        index: usize,
        /// Length of the list it points into.
        count: usize,
    },
    /// A number outside its range.
    #[error("{what} is {value}; it must be {range}")]
    Value {
        /// Which number.
        what: String,
        /// Its value.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
    /// Columns or matrices that do not fit each other.
    #[error("{what} has {found} entries, but {expected} are needed")]
    Length {
        /// Which column or matrix.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
    /// A switch or group that is above itself.
    #[error("{what} `{name}` is its own ancestor")]
    Circle {
        /// `switch` or `group`.
        what: &'static str,
        /// Its name.
        name: String,
    },
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

/// Checks that `index` points into a list of `count`.
pub(crate) fn check_index(what: impl Fn() -> String, index: usize, count: usize) -> Result<(), FluidError> {
    if index < count {
        return Ok(());
    }
    Err(FluidError::Index {
        what: what(),
        index,
        count,
    })
}

/// Checks that `value` is `ok`, which `range` says in words.
pub(crate) fn check_value(
    what: impl Fn() -> String,
    value: f64,
    ok: bool,
    range: &'static str,
) -> Result<(), FluidError> {
    if ok {
        return Ok(());
    }
    Err(FluidError::Value {
        what: what(),
        value,
        range,
    })
}

/// Checks the length of a column.
pub(crate) fn check_length(what: &'static str, found: usize, expected: usize) -> Result<(), FluidError> {
    if found == expected {
        return Ok(());
    }
    Err(FluidError::Length { what, found, expected })
}
