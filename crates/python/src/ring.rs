//! Rings for allgathers and allreductions.

use gavotte_collective as collective;
use gavotte_collective::{Ring, RingTask, TreeError};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2, PyReadonlyArray3};
use pyo3::prelude::*;

use crate::collective::{costs, snapshots};
use crate::errors::Error;

/// Parents, order, members, segments and seconds.
type Found = (Vec<usize>, Vec<usize>, usize, u32, f64);

/// Makes a ring.
#[pyfunction]
#[pyo3(signature = (alpha_s, per_byte_s, *, by_rank, size_bytes, segments, reduce, steps, seed))]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
#[allow(clippy::needless_pass_by_value, reason = "a borrow of a Python array comes by value")]
pub(crate) fn collective_ring(
    py: Python<'_>,
    alpha_s: PyReadonlyArray2<'_, f64>,
    per_byte_s: PyReadonlyArray2<'_, f64>,
    by_rank: bool,
    size_bytes: f64,
    segments: u32,
    reduce: bool,
    steps: u64,
    seed: u64,
) -> PyResult<Found> {
    let hosts = alpha_s.as_array().nrows();
    let costs = costs(hosts, alpha_s.as_slice()?, per_byte_s.as_slice()?)?;
    let task = RingTask {
        bytes: size_bytes,
        segments,
        reduce,
    };
    let found = py.detach(|| -> Result<Found, TreeError> {
        if by_rank {
            let task = RingTask { segments: 1, ..task };
            let ring = Ring::by_rank(hosts)?;
            let seconds = collective::ring_time(&costs, &ring, task)?;
            return Ok((ring.parents(), ring.order(), hosts, 1, seconds));
        }
        let found = collective::search_ring(&costs, task, steps, seed)?;
        let ring = found.ring;
        let members = ring.members().len();
        Ok((ring.parents(), ring.order(), members, found.segments, found.seconds))
    });
    Ok(found.map_err(Error::from)?)
}

/// How long a ring takes on each of several networks.
#[pyfunction]
#[pyo3(signature = (alpha_s, per_byte_s, *, parent, order, members, size_bytes, segments, reduce))]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
#[allow(clippy::needless_pass_by_value, reason = "arrays and lists come by value")]
pub(crate) fn collective_ring_times<'py>(
    py: Python<'py>,
    alpha_s: PyReadonlyArray3<'_, f64>,
    per_byte_s: PyReadonlyArray3<'_, f64>,
    parent: Vec<usize>,
    order: Vec<usize>,
    members: usize,
    size_bytes: f64,
    segments: u32,
    reduce: bool,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let ring = Ring::from_parents(&parent, &order, members).map_err(Error::from)?;
    let task = RingTask {
        bytes: size_bytes,
        segments,
        reduce,
    };
    let seconds = snapshots(parent.len(), &alpha_s, &per_byte_s)?
        .iter()
        .map(|costs| Ok(collective::ring_time(costs, &ring, task).map_err(Error::from)?))
        .collect::<PyResult<Vec<f64>>>()?;
    Ok(seconds.into_pyarray(py))
}
