//! Errors of the other crates as Python exceptions.

use gavotte_assign::{PlaceError, ProblemError, UnknownPolicy};
use gavotte_net::NetworkError;
use pyo3::exceptions::PyValueError;
use pyo3::types::{IntoPyDict, PyAnyMethods};
use pyo3::{PyErr, PyTypeInfo, Python};

pyo3::import_exception!(gavotte.errors, FormatError);
pyo3::import_exception!(gavotte.errors, GavotteError);
pyo3::import_exception!(gavotte.errors, InfeasibleError);

/// An error to be raised in Python.
pub(crate) enum Error {
    /// Invalid input: `ValueError`.
    Value(String),
    /// No answer under the constraints: `gavotte.errors.InfeasibleError`.
    Infeasible { message: String, hint: &'static str },
    /// A file that violates its format: `gavotte.errors.FormatError`.
    Format {
        path: String,
        place: String,
        problem: String,
        remedy: String,
    },
    /// A pair of hosts whose rate is needed but unknown: `gavotte.errors.GavotteError`.
    UnknownPair(String, String),
}

impl From<ProblemError> for Error {
    fn from(error: ProblemError) -> Self {
        Self::Value(error.to_string())
    }
}

impl From<NetworkError> for Error {
    fn from(error: NetworkError) -> Self {
        Self::Value(error.to_string())
    }
}

impl From<UnknownPolicy> for Error {
    fn from(error: UnknownPolicy) -> Self {
        Self::Value(error.to_string())
    }
}

impl From<PlaceError> for Error {
    fn from(error: PlaceError) -> Self {
        let message = error.to_string();
        let hint = match error {
            PlaceError::Length { .. } | PlaceError::UnknownHost { .. } => {
                return Self::Value(message);
            }
            PlaceError::NoRoom { .. } | PlaceError::NoDraw { .. } => "another method may find one, or add hosts",
            PlaceError::TooDear => "allow a higher price, or use --method optimal",
            PlaceError::TooLarge { .. } => "add a larger host, or split the task",
            PlaceError::NotAllowed { .. } | PlaceError::Overbooked { .. } => {
                "put it, or another task of its host, elsewhere"
            }
        };
        Self::Infeasible { message, hint }
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Value(message) => PyValueError::new_err(message),
            Error::Infeasible { message, hint } => hinted::<InfeasibleError>(message, hint),
            Error::Format {
                path,
                place,
                problem,
                remedy,
            } => FormatError::new_err((path, place, problem, remedy)),
            Error::UnknownPair(source, target) => hinted::<GavotteError>(
                format!("the network does not say how fast {source} sends to {target}"),
                "measure that pair, or set its rate_bps",
            ),
        }
    }
}

/// An exception with a hint.
fn hinted<E: PyTypeInfo>(message: String, hint: &str) -> PyErr {
    Python::attach(|py| {
        let hint = [("hint", hint)].into_py_dict(py);
        let raised = hint.and_then(|hint| py.get_type::<E>().call((message,), Some(&hint)));
        raised.map_or_else(|error| error, PyErr::from_value)
    })
}
