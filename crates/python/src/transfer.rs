//! Movements of data: rates of shuffles, orders of transfers, and their simulation.

use std::sync::Arc;

use gavotte_net::BitsPerSec;
use gavotte_swarm::orders::{self, Policy as _};
use gavotte_swarm::{Admission, Fabric, Listed, Path, Trace, TraceError, shuffle};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;
use crate::network::Network;

impl From<TraceError> for Error {
    fn from(error: TraceError) -> Self {
        Self::Value(error.to_string())
    }
}

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

/// The policies that order transfers.
#[pyfunction]
pub(crate) fn order_names() -> Vec<&'static str> {
    orders::names().collect()
}

fn policy(name: &str) -> PyResult<Box<dyn orders::Policy>> {
    let unknown = || {
        let known: Vec<_> = orders::names().collect();
        PyValueError::new_err(format!("there is no policy `{name}`; use one of {}", known.join(", ")))
    };
    orders::policy(name).ok_or_else(unknown)
}

/// A running transfer.
#[derive(FromPyObject)]
pub(crate) struct UnderwayOf {
    arrival_s: f64,
    class_: u32,
    weight: f64,
    sent_bytes: f64,
    due_s: f64,
    guaranteed: bool,
    flows: Vec<(usize, usize, f64)>,
}

/// A network's fabric, and transfers on it.
fn placed(network: &Network, coflows: &[UnderwayOf]) -> (Fabric, Vec<orders::Coflow>) {
    let mut fabric = Fabric::network(Arc::clone(&network.0));
    let flow = |fabric: &mut Fabric, &(source, target, left_bytes): &(usize, usize, f64)| orders::Flow {
        path: fabric.path(source, target),
        left_bytes,
    };
    let coflows = coflows
        .iter()
        .zip(0..)
        .map(|(coflow, number)| orders::Coflow {
            number,
            arrival_s: coflow.arrival_s,
            class: coflow.class_,
            weight: coflow.weight,
            sent_bytes: coflow.sent_bytes,
            due_s: coflow.due_s,
            guaranteed: coflow.guaranteed,
            flows: coflow.flows.iter().map(|each| flow(&mut fabric, each)).collect(),
        })
        .collect();
    (fabric, coflows)
}

/// The rates that a policy gives to running transfers, and the time at which it must be called again.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "a list comes by value")]
pub(crate) fn order_rates<'py>(
    py: Python<'py>,
    network: &Network,
    name: &str,
    coflows: Vec<UnderwayOf>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, f64)> {
    let policy = policy(name)?;
    let policy = orders::Guaranteed(&*policy);
    let (fabric, coflows) = placed(network, &coflows);
    let rates_bps = policy.rates(&coflows, &fabric);
    let again_s = policy.again_s(&coflows, &rates_bps);
    Ok((rates_bps.into_pyarray(py), again_s))
}

/// The order in which a policy serves transfers, as their indices.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "a list comes by value")]
pub(crate) fn serving_order(network: &Network, name: &str, coflows: Vec<UnderwayOf>) -> PyResult<Vec<usize>> {
    let policy = policy(name)?;
    let (fabric, coflows) = placed(network, &coflows);
    Ok(orders::Guaranteed(&*policy).order(&coflows, &fabric))
}

/// Why a transfer cannot be promised its deadline while those of the others are kept: the link, the rate that it needs
/// there, the rate that is left, and the earliest deadline. None if it can be promised.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "a list comes by value")]
pub(crate) fn deadline_shortage(
    network: &Network,
    coflows: Vec<UnderwayOf>,
    new: UnderwayOf,
    share: f64,
) -> Option<(String, f64, f64, f64)> {
    let mut all = coflows;
    all.push(new);
    let (fabric, mut coflows) = placed(network, &all);
    let new = coflows.pop()?;
    let short = orders::admit(&coflows, &new, &fabric, share).err()?;
    let link = fabric.link_name(short.link);
    Some((link, short.needed_bps, short.left_bps, short.earliest_s))
}

/// The network that coflows run over.
#[derive(FromPyObject)]
pub(crate) enum Over<'py> {
    /// One rate in bit/s for all ports.
    Rate(f64),
    /// A network, and the host of each port.
    Hosts(PyRef<'py, Network>, Vec<u32>),
}

/// A coflow trace, checked.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct CoflowTrace(Trace);

#[pymethods]
#[allow(clippy::needless_pass_by_value, reason = "a borrow of a Python array comes by value")]
impl CoflowTrace {
    /// A trace in either format.
    #[staticmethod]
    fn read(py: Python<'_>, text: &[u8]) -> PyResult<Self> {
        Ok(Self(py.detach(|| Trace::read(text)).map_err(Error::from)?))
    }

    /// A trace from columns: of coflows, and of flows.
    #[staticmethod]
    fn of(
        ports: Vec<String>,
        names: Vec<String>,
        arrival_s: PyReadonlyArray1<'_, f64>,
        coflow: PyReadonlyArray1<'_, u32>,
        source: PyReadonlyArray1<'_, u32>,
        target: PyReadonlyArray1<'_, u32>,
        sizes: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let mut coflows: Vec<Listed> = names
            .into_iter()
            .zip(arrival_s.as_slice()?)
            .map(|(name, &arrival_s)| Listed {
                name,
                arrival_s,
                class: 0,
                weight: 1.0,
                deadline_s: f64::INFINITY,
                flows: Vec::new(),
            })
            .collect();
        let ways = source.as_slice()?.iter().zip(target.as_slice()?);
        let flows = ways.zip(sizes.as_slice()?);
        for (&coflow, ((&source, &target), &bytes)) in coflow.as_slice()?.iter().zip(flows) {
            let known = (source.max(target) as usize) < ports.len();
            let listed = coflows.get_mut(coflow as usize).filter(|_| known);
            let listed = listed.ok_or_else(|| PyValueError::new_err("a flow has no such coflow or port"))?;
            listed.flows.push((source, target, bytes));
        }
        Ok(Self(Trace { ports, coflows }.joined()))
    }

    #[getter]
    fn ports(&self) -> Vec<String> {
        self.0.ports.clone()
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.coflows.iter().map(|coflow| coflow.name.clone()).collect()
    }

    #[getter]
    fn arrival_s<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let column: Vec<f64> = self.0.coflows.iter().map(|coflow| coflow.arrival_s).collect();
        column.into_pyarray(py)
    }

    #[getter]
    fn classes<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        let column: Vec<u32> = self.0.coflows.iter().map(|coflow| coflow.class).collect();
        column.into_pyarray(py)
    }

    #[getter]
    fn deadline_s<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let column: Vec<f64> = self.0.coflows.iter().map(|coflow| coflow.deadline_s).collect();
        column.into_pyarray(py)
    }

    /// The same trace with other deadlines.
    fn due(&self, deadline_s: PyReadonlyArray1<'_, f64>) -> PyResult<Self> {
        let own = deadline_s.as_slice()?;
        if own.len() != self.0.coflows.len() || !own.iter().all(|seconds| *seconds > 0.0) {
            return Err(PyValueError::new_err("each coflow has one deadline above 0"));
        }
        let mut trace = self.0.clone();
        for (coflow, &seconds) in trace.coflows.iter_mut().zip(own) {
            coflow.deadline_s = seconds;
        }
        Ok(Self(trace))
    }

    #[getter]
    fn flow_count(&self) -> usize {
        self.0.flow_count()
    }

    #[getter]
    fn bytes(&self) -> f64 {
        self.0.bytes()
    }

    /// The flows of all coflows, one after the other: number of the coflow, source, target, bytes.
    #[allow(clippy::type_complexity, reason = "four columns")]
    fn flows<'py>(
        &self,
        py: Python<'py>,
    ) -> (
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<u32>>,
        Bound<'py, PyArray1<f64>>,
    ) {
        let all = || {
            let numbered = self.0.coflows.iter().zip(0_u32..);
            numbered.flat_map(|(coflow, number)| coflow.flows.iter().map(move |flow| (number, flow)))
        };
        let column =
            |of: fn(u32, &(u32, u32, f64)) -> u32| -> Vec<u32> { all().map(|(at, flow)| of(at, flow)).collect() };
        let bytes: Vec<f64> = all().map(|(_, flow)| flow.2).collect();
        (
            column(|number, _| number).into_pyarray(py),
            column(|_, flow| flow.0).into_pyarray(py),
            column(|_, flow| flow.1).into_pyarray(py),
            bytes.into_pyarray(py),
        )
    }

    /// A lower bound on the duration of each coflow, as if it ran alone.
    fn bounds_s<'py>(&self, py: Python<'py>, over: Over<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (trace, mut fabric) = self.on(&over)?;
        let mut bound = |coflow: &Listed| {
            let path =
                |&(source, target, bytes): &(u32, u32, f64)| (fabric.path(source as usize, target as usize), bytes);
            let flows: Vec<(Path, f64)> = coflow.flows.iter().map(path).collect();
            shuffle::bound(&fabric, flows).seconds
        };
        let bounds: Vec<f64> = trace.coflows.iter().map(&mut bound).collect();
        Ok(bounds.into_pyarray(py))
    }

    /// Runs the simulation. Returns each coflow's finish time, whether it was promised its deadline, the number of rate
    /// computations, and the largest number of simultaneous flows.
    #[allow(clippy::type_complexity, reason = "two columns and two numbers")]
    fn simulate<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        admission: &str,
        over: Over<'py>,
        step_s: f64,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>, u64, usize)> {
        let policy = policy(name)?;
        let admission = match admission {
            "open" => Admission::Open,
            "demote" => Admission::Demote,
            "refuse" => Admission::Refuse,
            other => return Err(PyValueError::new_err(format!("there is no admission `{other}`"))),
        };
        let (trace, mut fabric) = self.on(&over)?;
        let progress = progress.clone().unbind();
        let count = trace.coflows.len();
        let mut failed = Ok(());
        let outcome = py.detach(|| {
            let progress = |done: usize| {
                failed = Python::attach(|py| {
                    py.check_signals()?;
                    progress.call1(py, (done, count)).map(|_| ())
                });
                failed.is_ok()
            };
            gavotte_swarm::simulate(&trace, &*policy, admission, &mut fabric, step_s, progress)
        });
        failed?;
        let outcome = outcome.unwrap_or_default();
        Ok((
            outcome.finish_s.into_pyarray(py),
            outcome.guaranteed.into_pyarray(py),
            outcome.reckonings,
            outcome.most_flows,
        ))
    }
}

impl CoflowTrace {
    /// The trace with its ports numbered as in the fabric, and the fabric.
    fn on(&self, over: &Over<'_>) -> PyResult<(Trace, Fabric)> {
        match over {
            Over::Rate(bps) => {
                let rate = BitsPerSec::new(*bps).filter(|rate| rate.is_limited());
                let rate = rate.ok_or_else(|| PyValueError::new_err(format!("{bps} bit/s is not a rate of a port")))?;
                Ok((self.0.clone(), Fabric::uniform(self.0.ports.len(), rate)))
            }
            Over::Hosts(network, hosts) => {
                let fabric = Fabric::network(Arc::clone(&network.0));
                Ok((self.0.placed(hosts), fabric))
            }
        }
    }
}
