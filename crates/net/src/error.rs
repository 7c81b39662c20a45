//! Errors, in words that name the part and the remedy.

use thiserror::Error;

/// An invalid number, index or column.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum InputError {
    /// An index outside its list.
    #[error("{what} is {index}, but there are only {count}")]
    Index {
        /// The name of the index.
        what: String,
        /// Its value.
        index: usize,
        /// Length of the list it points into.
        count: usize,
    },
    /// A number outside its range.
    #[error("{what} is {value}; it must be {range}")]
    Value {
        /// The name of the number.
        what: String,
        /// Its value.
        value: f64,
        /// The allowed range.
        range: &'static str,
    },
    /// Columns or matrices that do not fit each other.
    #[error("{what} has {found} entries, but {expected} are needed")]
    Length {
        /// The name of the column or matrix.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The right length.
        expected: usize,
    },
}

/// Parts that do not make a valid network.
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
/// [`InputError::Index`] with the name `what`.
pub fn check_index(what: impl FnOnce() -> String, index: usize, count: usize) -> Result<(), InputError> {
    if index < count {
        return Ok(());
    }
    let what = what();
    Err(InputError::Index { what, index, count })
}

/// Checks that `value` is `ok`; `range` describes the allowed values.
///
/// # Errors
/// [`InputError::Value`] with the name `what`.
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
/// [`InputError::Length`] with the name `what`.
pub fn check_length(what: &'static str, found: usize, expected: usize) -> Result<(), InputError> {
    if found == expected {
        return Ok(());
    }
    Err(InputError::Length { what, found, expected })
}
