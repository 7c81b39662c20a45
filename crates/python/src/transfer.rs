//! Movements of data: rates of shuffles.

use std::sync::Arc;

use gavotte_swarm::{Fabric, shuffle};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::network::Network;

type Rated<'py> = (Bound<'py, PyArray1<f64>>, f64, Option<String>);

/// Weighted shuffle scheduling on a network.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "a list of tuples comes by value")]
pub(crate) fn wss<'py>(py: Python<'py>, network: &Network, flows: Vec<(usize, usize, f64)>) -> Rated<'py> {
    let mut fabric = Fabric::network(Arc::clone(&network.0));
    let flows: Vec<_> = flows.iter().map(|&(m, n, bytes)| (fabric.path(m, n), bytes)).collect();
    let (rates_bps, bound) = shuffle::rates(&fabric, &flows);
    let link = bound.link.map(|link| fabric.link_name(link));
    (rates_bps.into_pyarray(py), bound.seconds, link)
}
