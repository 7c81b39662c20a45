//! The flow simulator: platforms, runs over them, and flow lists as files.

use std::sync::Arc;

use gavotte_fluid as fluid;
use gavotte_fluid::FluidError;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Error;
use crate::network::Network;
use crate::topology::TopologyOf;

impl From<FluidError> for Error {
    fn from(error: FluidError) -> Self {
        Self::Value(error.to_string())
    }
}

/// The network that flows run over, checked.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct Platform {
    pub(crate) inner: Arc<dyn fluid::Platform + Send + Sync>,
}

/// Columns of the flows, read without copying.
#[derive(FromPyObject)]
pub(crate) struct FlowsOf<'py> {
    source: PyReadonlyArray1<'py, u32>,
    target: PyReadonlyArray1<'py, u32>,
    bytes: PyReadonlyArray1<'py, u64>,
    start_s: PyReadonlyArray1<'py, f64>,
    weight: Option<PyReadonlyArray1<'py, f64>>,
    cap_bps: Option<PyReadonlyArray1<'py, f64>>,
    startup_s: Option<PyReadonlyArray1<'py, f64>>,
    label: Option<PyReadonlyArray1<'py, u64>>,
}

impl FlowsOf<'_> {
    pub(crate) fn flows(&self) -> PyResult<fluid::Flows<'_>> {
        fn optional<'a, T: numpy::Element>(column: Option<&'a PyReadonlyArray1<'_, T>>) -> PyResult<Option<&'a [T]>> {
            Ok(column.map(PyReadonlyArray1::as_slice).transpose()?)
        }
        Ok(fluid::Flows {
            source: self.source.as_slice()?,
            target: self.target.as_slice()?,
            bytes: self.bytes.as_slice()?,
            start_s: self.start_s.as_slice()?,
            weight: optional(self.weight.as_ref())?,
            cap_bps: optional(self.cap_bps.as_ref())?,
            startup_s: optional(self.startup_s.as_ref())?,
            label: optional(self.label.as_ref())?,
        })
    }
}

/// A source of background traffic: `poisson` has arrivals per second and mean bytes, `on_off` two mean times.
#[derive(FromPyObject)]
struct BackgroundOf {
    source: u32,
    target: u32,
    poisson: Option<(f64, f64)>,
    on_off: Option<(f64, f64)>,
    weight: f64,
    cap_bps: f64,
}

impl BackgroundOf {
    fn background(&self) -> PyResult<fluid::Background> {
        let pattern = match (self.poisson, self.on_off) {
            (Some((per_s, mean_bytes)), None) => fluid::Pattern::Poisson { per_s, mean_bytes },
            (None, Some((mean_on_s, mean_off_s))) => fluid::Pattern::OnOff { mean_on_s, mean_off_s },
            _ => {
                return Err(PyValueError::new_err(
                    "a background is either `poisson` or `on_off`; give one of them",
                ));
            }
        };
        let Self {
            source,
            target,
            weight,
            cap_bps,
            ..
        } = *self;
        Ok(fluid::Background {
            source,
            target,
            pattern,
            weight,
            cap_bps,
        })
    }
}

#[pymethods]
#[allow(clippy::needless_pass_by_value, reason = "a borrow of a Python array comes by value")]
impl Platform {
    /// A described network.
    #[staticmethod]
    fn topology(topology: TopologyOf, payload_share: f64, seed: u64) -> PyResult<Self> {
        let inner = Arc::new(topology.checked(payload_share, seed)?);
        Ok(Self { inner })
    }

    /// A measured network.
    #[staticmethod]
    fn network(network: &Network) -> Self {
        let inner: Arc<gavotte_net::Network> = Arc::clone(&network.0);
        Self { inner }
    }

    /// The limited links from one host to another, each with its rate.
    fn links(&self, source: usize, target: usize) -> Vec<(u64, f64)> {
        let mut path = Vec::new();
        self.inner.route(source, target, 0, &mut path);
        let rated = path.into_iter().map(|link| (link, self.inner.rate(link)));
        let limited = rated.filter(|(_, rate)| rate.is_limited());
        limited.map(|(link, rate)| (link.0, rate.bps())).collect()
    }

    /// The time from one host to another through empty queues, in seconds.
    fn latency_s(&self, source: usize, target: usize) -> f64 {
        self.inner.latency_s(source, target)
    }

    /// Runs flows.
    #[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
    #[pyo3(signature = (flows, *, edges, phase, background, until_s, seed, accuracy=0.0))]
    fn simulate(
        &self,
        py: Python<'_>,
        flows: FlowsOf<'_>,
        edges: Option<PyReadonlyArray2<'_, u32>>,
        phase: Option<PyReadonlyArray1<'_, u32>>,
        background: Vec<BackgroundOf>,
        until_s: f64,
        seed: u64,
        accuracy: f64,
    ) -> PyResult<Simulated> {
        let flows = flows.flows()?;
        let order = match (edges, phase) {
            (None, None) => None,
            (Some(edges), None) => {
                let columns = edges.as_array().ncols().max(1);
                let pairs: Vec<(u32, u32)> = edges.as_slice()?.chunks(columns).map(pair).collect::<PyResult<_>>()?;
                Some(fluid::Order::edges(flows.len(), &pairs).map_err(Error::from)?)
            }
            (None, Some(phase)) => Some(fluid::Order::phases(phase.as_slice()?)),
            (Some(_), Some(_)) => return Err(PyValueError::new_err("flows have edges or phases; give one of them")),
        };
        let background: Vec<fluid::Background> = background
            .iter()
            .map(BackgroundOf::background)
            .collect::<PyResult<_>>()?;
        let workload = fluid::Workload {
            flows,
            order: order.as_ref(),
            background: &background,
            until_s,
            seed,
            accuracy,
        };
        let platform = &*self.inner;
        let outcome = py
            .detach(|| fluid::simulate(platform, &workload))
            .map_err(Error::from)?;
        Ok(Simulated::new(py, platform, outcome))
    }

    /// Max-min fair rates of flows that all run at the same time.
    fn rates<'py>(&self, py: Python<'py>, flows: FlowsOf<'_>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let flows = flows.flows()?;
        let platform = &*self.inner;
        Ok(py
            .detach(|| fluid::rates(platform, flows))
            .map_err(Error::from)?
            .into_pyarray(py))
    }
}

/// The results of a run, in arrays.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Simulated {
    start_s: Py<PyArray1<f64>>,
    finish_s: Py<PyArray1<f64>>,
    /// For each flow, the index of its last bottleneck in the columns below; -1 = none.
    holder: Py<PyArray1<i64>>,
    link_names: Vec<String>,
    link_rate_bps: Py<PyArray1<f64>>,
    link_bytes: Py<PyArray1<f64>>,
    link_busy_s: Py<PyArray1<f64>>,
    end_s: f64,
    events: u64,
}

impl Simulated {
    pub(crate) fn new(py: Python<'_>, platform: &dyn fluid::Platform, outcome: fluid::Outcome) -> Self {
        let links = outcome.links;
        let place = |link| {
            links
                .binary_search_by_key(&link, |used| used.link)
                .map_or(-1, |place| place as i64)
        };
        let holder: Vec<i64> = outcome.holder.into_iter().map(|link| link.map_or(-1, place)).collect();
        let column = |of: fn(&fluid::LinkUse) -> f64| {
            let values: Vec<f64> = links.iter().map(of).collect();
            values.into_pyarray(py).unbind()
        };
        Self {
            start_s: outcome.start_s.into_pyarray(py).unbind(),
            finish_s: outcome.finish_s.into_pyarray(py).unbind(),
            holder: holder.into_pyarray(py).unbind(),
            link_names: links.iter().map(|used| platform.link_name(used.link)).collect(),
            link_rate_bps: column(|used| used.rate.bps()),
            link_bytes: column(|used| used.bytes),
            link_busy_s: column(|used| used.busy_s),
            end_s: outcome.end_s,
            events: outcome.events,
        }
    }
}

/// A flow list, in arrays.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct FlowList {
    ids: Vec<String>,
    source: Py<PyArray1<u32>>,
    target: Py<PyArray1<u32>>,
    bytes: Py<PyArray1<u64>>,
    start_s: Py<PyArray1<f64>>,
    weight: Option<Py<PyArray1<f64>>>,
    cap_bps: Option<Py<PyArray1<f64>>>,
    startup_s: Option<Py<PyArray1<f64>>>,
    udp: Option<Py<PyArray1<bool>>>,
    label: Py<PyArray1<u64>>,
}

/// Reads a flow list.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "a list of strings comes by value")]
pub(crate) fn parse_flows(py: Python<'_>, text: &[u8], hosts: Vec<String>) -> PyResult<FlowList> {
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let table = py
        .detach(|| fluid::FlowTable::read(text, &hosts))
        .map_err(Error::from)?;
    let optional = |column: Option<Vec<f64>>| column.map(|values| values.into_pyarray(py).unbind());
    Ok(FlowList {
        ids: table.id.into_iter().map(String::from).collect(),
        source: table.source.into_pyarray(py).unbind(),
        target: table.target.into_pyarray(py).unbind(),
        bytes: table.bytes.into_pyarray(py).unbind(),
        start_s: table.start_s.into_pyarray(py).unbind(),
        weight: optional(table.weight),
        cap_bps: optional(table.cap_bps),
        startup_s: optional(table.startup_s),
        udp: table.udp.map(|values| values.into_pyarray(py).unbind()),
        label: table.label.into_pyarray(py).unbind(),
    })
}

/// Writes finish times as CSV.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "lists and arrays come by value")]
pub(crate) fn format_finish<'py>(
    py: Python<'py>,
    ids: Vec<String>,
    finish_s: PyReadonlyArray1<'_, f64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut written = Vec::new();
    let rows = ids.iter().map(String::as_str).zip(finish_s.as_slice()?.iter().copied());
    fluid::write_finish(&mut written, rows)?;
    Ok(PyBytes::new(py, &written))
}

/// A row of an edge list.
fn pair(row: &[u32]) -> PyResult<(u32, u32)> {
    match *row {
        [before, after] => Ok((before, after)),
        _ => Err(PyValueError::new_err("`edges` must have two columns")),
    }
}
