//! The lasting part of measured times, and trees over it.

use gavotte_collective::{Costs, Eager, TreeError, begun, ecef};
use gavotte_constant as constant;
use gavotte_constant::{Times, TimesError};
use gavotte_net::Volume;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::Error;

impl From<TimesError> for Error {
    fn from(error: TimesError) -> Self {
        Self::Value(error.to_string())
    }
}

fn rows<'a>(times: &'a PyReadonlyArray2<'_, f64>) -> PyResult<Times<'a>> {
    let snapshots = times.shape()[0];
    Ok(Times::new(times.as_slice()?, snapshots).map_err(Error::from)?)
}

/// A quantile of each column.
#[pyfunction]
pub(crate) fn column_quantile<'py>(
    py: Python<'py>,
    times: &Bound<'py, PyArray2<f64>>,
    share: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let times = times.readonly();
    let rows = rows(&times)?;
    Ok(py.detach(|| constant::quantile(&rows, share)).into_pyarray(py))
}

type Principal<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, u32);

/// Principal component pursuit.
#[pyfunction]
pub(crate) fn principal<'py>(py: Python<'py>, times: &Bound<'py, PyArray2<f64>>) -> PyResult<Principal<'py>> {
    let times = times.readonly();
    let rows = rows(&times)?;
    let answer = py.detach(|| constant::principal(&rows));
    Ok((
        answer.load.into_pyarray(py),
        answer.constant.into_pyarray(py),
        answer.steps,
    ))
}

type Mode<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<u32>>,
    f64,
);

/// Rank one with a load.
#[pyfunction]
pub(crate) fn mode<'py>(
    py: Python<'py>,
    times: &Bound<'py, PyArray2<f64>>,
    gaps: &Bound<'py, PyArray1<f64>>,
) -> PyResult<Mode<'py>> {
    let (times, gaps) = (times.readonly(), gaps.readonly());
    let (rows, gaps) = (rows(&times)?, gaps.as_slice()?);
    let answer = py.detach(|| constant::mode(&rows, gaps));
    Ok((
        answer.load.into_pyarray(py),
        answer.constant.into_pyarray(py),
        answer.agreeing.into_pyarray(py),
        answer.band,
    ))
}

type Tree<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);

/// A tree by the earliest completion first.
#[pyfunction]
pub(crate) fn ecef_tree<'py>(py: Python<'py>, weights: &Bound<'py, PyArray2<f64>>, root: usize) -> PyResult<Tree<'py>> {
    let weights = weights.readonly();
    let (hosts, values) = (weights.shape()[0], weights.as_slice()?);
    let answer = py.detach(|| -> Result<_, TreeError> {
        let usable = |value: &f64| if value.is_finite() { *value } else { f64::INFINITY };
        // A sender is busy for the whole time of a message, as with bytes and without latencies.
        let costs = Costs::new(hosts, vec![0.0; values.len()], values.iter().map(usable).collect())?;
        let tree = ecef(&costs, root, Volume(1.0), Eager::default())?;
        Ok((tree.parents(), begun(&costs, &tree, Volume(1.0))?))
    });
    let (parent, order) = answer.map_err(Error::from)?;
    let numbers = |hosts: Vec<usize>| -> Vec<u32> { hosts.into_iter().map(|host| host as u32).collect() };
    Ok((numbers(parent).into_pyarray(py), numbers(order).into_pyarray(py)))
}
