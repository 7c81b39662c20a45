//! Coflow traces: who sends how much to whom, and when it is asked for.

mod error;
mod listed;
mod public;
mod table;

use std::io::{BufRead, Read};

pub use error::TraceError;
pub use listed::{Listed, Trace};

impl Trace {
    /// Reads either format: a table whose first line names the columns `coflow`, `arrival_s`, `source`, `target`, `bytes`
    /// and, if wanted, `class` and `weight`; or the one of the public traces, whose first line is two numbers.
    ///
    /// # Errors
    /// [`TraceError`] naming line, field and remedy.
    pub fn read(mut reader: impl BufRead) -> Result<Self, TraceError> {
        let mut start = String::new();
        reader
            .read_line(&mut start)
            .map_err(|error| TraceError::unreadable(&error))?;
        let numbers = start.split_whitespace().all(|word| word.parse::<u64>().is_ok());
        if numbers && !start.trim().is_empty() {
            public::read(&start, reader)
        } else {
            table::read(start.as_bytes().chain(reader))
        }
    }
}
