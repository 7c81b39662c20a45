//! Trees for collective operations.

use gavotte_collective as collective;
use gavotte_collective::{Costs, Eager, Message, Task, Tree, TreeError};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;

impl From<TreeError> for Error {
    fn from(error: TreeError) -> Self {
        Self::Value(error.to_string())
    }
}

/// Parents, order, segments and seconds.
type Found = (Vec<usize>, Vec<usize>, u32, f64);

/// Makes a tree.
#[pyfunction]
#[pyo3(signature = (alpha_s, per_byte_s, *, algorithm, root, size_bytes, segments, scatter, steps, seed))]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
#[allow(clippy::needless_pass_by_value, reason = "a borrow of a Python array comes by value")]
pub(crate) fn collective_tree(
    py: Python<'_>,
    alpha_s: PyReadonlyArray2<'_, f64>,
    per_byte_s: PyReadonlyArray2<'_, f64>,
    algorithm: &str,
    root: usize,
    size_bytes: f64,
    segments: u32,
    scatter: bool,
    steps: u64,
    seed: u64,
) -> PyResult<Found> {
    let hosts = alpha_s.as_array().nrows();
    let costs = costs(hosts, alpha_s.as_slice()?, per_byte_s.as_slice()?)?;
    let task = Task {
        bytes: size_bytes,
        segments,
        scatter,
    };
    let piece_bytes = size_bytes / f64::from(segments.max(1));
    let found = py.detach(|| -> Result<Found, TreeError> {
        let eager = |look_ahead, most_children| Eager {
            look_ahead,
            most_children,
        };
        let tree = match algorithm {
            "binomial" => collective::binomial(hosts, root)?,
            "fnf" => collective::fnf(&costs, root, piece_bytes)?,
            "ecef" => collective::ecef(&costs, root, piece_bytes, eager(false, usize::MAX))?,
            "look-ahead" => collective::ecef(&costs, root, piece_bytes, eager(true, usize::MAX))?,
            "chain" => collective::ecef(&costs, root, piece_bytes, eager(false, 1))?,
            _ => {
                let found = collective::search(&costs, root, task, steps, seed)?;
                return Ok((found.tree.parents(), found.tree.order(), found.segments, found.seconds));
            }
        };
        let seconds = collective::time(&costs, &tree, task)?;
        Ok((tree.parents(), tree.order(), segments.max(1), seconds))
    });
    Ok(found.map_err(Error::from)?)
}

/// How long a tree takes on each of several networks.
#[pyfunction]
#[pyo3(signature = (alpha_s, per_byte_s, *, parent, order, size_bytes, segments, scatter))]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
#[allow(clippy::needless_pass_by_value, reason = "arrays and lists come by value")]
pub(crate) fn collective_times<'py>(
    py: Python<'py>,
    alpha_s: PyReadonlyArray3<'_, f64>,
    per_byte_s: PyReadonlyArray3<'_, f64>,
    parent: Vec<usize>,
    order: Vec<usize>,
    size_bytes: f64,
    segments: u32,
    scatter: bool,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let root = order.first().copied().unwrap_or_default();
    let tree = Tree::from_parents(root, &parent, &order).map_err(Error::from)?;
    let task = Task {
        bytes: size_bytes,
        segments,
        scatter,
    };
    let seconds = snapshots(parent.len(), &alpha_s, &per_byte_s)?
        .iter()
        .map(|costs| Ok(collective::time(costs, &tree, task).map_err(Error::from)?))
        .collect::<PyResult<Vec<f64>>>()?;
    Ok(seconds.into_pyarray(py))
}

/// Exchanges tasks between hosts; `hosts` has the host of each task.
#[pyfunction]
#[pyo3(signature = (alpha_s, per_byte_s, *, source, target, size_bytes, hosts, most))]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
#[allow(clippy::needless_pass_by_value, reason = "arrays and lists come by value")]
pub(crate) fn exchanged(
    py: Python<'_>,
    alpha_s: PyReadonlyArray2<'_, f64>,
    per_byte_s: PyReadonlyArray2<'_, f64>,
    source: Vec<usize>,
    target: Vec<usize>,
    size_bytes: Vec<f64>,
    hosts: Vec<usize>,
    most: usize,
) -> PyResult<Vec<usize>> {
    let costs = costs(alpha_s.as_array().nrows(), alpha_s.as_slice()?, per_byte_s.as_slice()?)?;
    let ends = source.into_iter().zip(target).zip(size_bytes);
    let messages: Vec<Message> = ends
        .map(|((source, target), bytes)| Message { source, target, bytes })
        .collect();
    let found = py.detach(|| collective::exchange(&costs, &messages, hosts, most));
    Ok(found.map_err(Error::from)?)
}

/// The costs of each of several networks.
pub(crate) fn snapshots(
    hosts: usize,
    alpha_s: &PyReadonlyArray3<'_, f64>,
    per_byte_s: &PyReadonlyArray3<'_, f64>,
) -> PyResult<Vec<Costs>> {
    if alpha_s.as_array().shape() != per_byte_s.as_array().shape() || alpha_s.as_array().shape()[1..] != [hosts, hosts]
    {
        return Err(PyValueError::new_err("the matrices must be (networks, hosts, hosts)"));
    }
    let cells = (hosts * hosts).max(1);
    let pairs = alpha_s
        .as_slice()?
        .chunks(cells)
        .zip(per_byte_s.as_slice()?.chunks(cells));
    pairs
        .map(|(alpha_s, per_byte_s)| costs(hosts, alpha_s, per_byte_s))
        .collect()
}

pub(crate) fn costs(hosts: usize, alpha_s: &[f64], per_byte_s: &[f64]) -> PyResult<Costs> {
    Ok(Costs::new(hosts, alpha_s.to_vec(), per_byte_s.to_vec()).map_err(Error::from)?)
}
