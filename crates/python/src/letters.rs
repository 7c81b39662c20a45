//! The seals of calls that agents forward.

use gavotte_letters::Keys;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The keys that seal calls to one agent.
#[pyclass(module = "gavotte._core", name = "Letters", frozen)]
pub(crate) struct Letters(Keys);

#[pymethods]
impl Letters {
    #[new]
    fn new(key: &[u8]) -> PyResult<Self> {
        Keys::new(key)
            .map(Self)
            .ok_or_else(|| PyValueError::new_err(format!("key: 32 bytes, not {}", key.len())))
    }

    /// Seals a call.
    fn seal_call<'py>(&self, py: Python<'py>, number: u64, content: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.seal_call(number, content))
    }

    /// Opens an answer.
    fn open_answer<'py>(
        &self,
        py: Python<'py>,
        call: u64,
        number: u32,
        sealed: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let opened = self.0.open_answer(call, number, sealed);
        let opened = opened.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, &opened))
    }
}
