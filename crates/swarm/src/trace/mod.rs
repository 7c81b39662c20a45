//! Coflow traces: when each transfer arrives, and how much each port sends to each other port.

mod error;
mod listed;
mod public;
mod table;

use std::io::{BufRead, Read};

pub use error::TraceError;
pub use listed::{Listed, Trace};

impl Trace {
    /// Reads either of two formats:
    ///
    /// 1. A table whose first line names the columns `coflow`, `arrival_s`, `source`, `target`, `bytes` and,
    ///    optionally, `class`, `weight` and `deadline_s`.
    /// 2. The format of the public traces, whose first line is two numbers.
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
