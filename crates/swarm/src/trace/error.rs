//! Errors in a trace; each message names line, field and remedy.

use std::fmt::Display;

use thiserror::Error;

/// Why a trace was refused.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TraceError {
    /// A field of a line.
    #[error("line {line}: {field}: {problem}")]
    Field {
        /// Line number, counted from 1.
        line: u64,
        /// Name of the column, or of what the line should contain here.
        field: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The trace as a whole.
    #[error("{0}")]
    Whole(String),
}

impl TraceError {
    pub(super) fn field(line: u64, field: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::Field { line, field, problem }
    }

    pub(super) fn unreadable(error: &dyn Display) -> Self {
        Self::Whole(format!("the trace is not readable text in UTF-8: {error}"))
    }
}
