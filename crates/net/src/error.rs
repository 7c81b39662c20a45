//! What can go wrong, in words that name the part and the remedy.

use thiserror::Error;

/// A number, index or column that makes no sense.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum InputError {
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
}

/// Parts that make no network.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum NetworkError {
    /// A network without hosts.
    #[error("there are no hosts")]
    NoHosts,
    /// A number, index or matrix in it.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A group that contains itself through its parents.
    #[error("group `{0}` is its own ancestor")]
    GroupCircle(String),
    /// A sharing model that does not exist.
    #[error("there is no sharing model `{0}`; use hose, pipe or groups")]
    UnknownSharing(String),
}

/// Checks that `index` points into a list of `count`.
///
/// # Errors
/// [`InputError::Index`] about `what`.
pub fn check_index(what: impl FnOnce() -> String, index: usize, count: usize) -> Result<(), InputError> {
    if index < count {
        return Ok(());
    }
    let what = what();
    Err(InputError::Index { what, index, count })
}

/// Checks that `value` is `ok`, which `range` says in words.
///
/// # Errors
/// [`InputError::Value`] about `what`.
pub fn check_value(what: impl FnOnce() -> String, value: f64, ok: bool, range: &'static str) -> Result<(), InputError> {
    if ok {
        return Ok(());
    }
    let what = what();
    Err(InputError::Value { what, value, range })
}

/// Checks the length of a column or matrix.
///
/// # Errors
/// [`InputError::Length`] about `what`.
pub fn check_length(what: &'static str, found: usize, expected: usize) -> Result<(), InputError> {
    if found == expected {
        return Ok(());
    }
    Err(InputError::Length { what, found, expected })
}
