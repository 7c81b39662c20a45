//! The simulator with bandwidth guarantees.

use std::collections::BTreeMap;

use gavotte_fluid as fluid;
use gavotte_limiter::Held;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;
use crate::fluid::{FlowsOf, Platform, Simulated};

/// Egress, ingress and their limits.
fn hose([egress_bps, ingress_bps, egress_limit_bps, ingress_limit_bps]: [f64; 4]) -> fluid::Hose {
    fluid::Hose {
        egress_bps,
        ingress_bps,
        egress_limit_bps,
        ingress_limit_bps,
    }
}

/// A protection with other constants.
fn protected(name: &str, parameters: &BTreeMap<String, f64>) -> PyResult<fluid::Protection> {
    let names = |names: &[&str]| names.join(", ");
    let mut known = fluid::Protection::named(name).ok_or_else(|| {
        let known = names(fluid::Protection::NAMES);
        PyValueError::new_err(format!("there is no protection `{name}`; use one of {known}"))
    })?;
    let marks = known.drain > 0.0;
    let before = known.parameters.phantom_drain;
    for (name, &value) in parameters {
        known.parameters.set(name, value).map_err(|known| {
            PyValueError::new_err(format!("there is no parameter `{name}`; use one of {}", names(known)))
        })?;
    }
    if marks && (known.parameters.phantom_drain - before).abs() > 0.0 {
        known.drain = known.parameters.phantom_drain;
    }
    Ok(known)
}

/// Runs flows of hosts with guarantees.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
#[allow(clippy::needless_pass_by_value, reason = "lists and arrays come by value")]
#[pyo3(signature = (platform, flows, *, hoses, tenants, protection, parameters, udp, until_s, seed, step_s, window_s, packet_bytes, marks=None, buffer_s=None))]
pub(crate) fn simulate_guarded(
    py: Python<'_>,
    platform: &Platform,
    flows: FlowsOf<'_>,
    hoses: Vec<[f64; 4]>,
    tenants: Vec<(Vec<usize>, [f64; 4])>,
    protection: &str,
    parameters: BTreeMap<String, f64>,
    udp: Option<PyReadonlyArray1<'_, bool>>,
    until_s: f64,
    seed: u64,
    step_s: f64,
    window_s: f64,
    packet_bytes: f64,
    marks: Option<bool>,
    buffer_s: Option<f64>,
) -> PyResult<Guarded> {
    let flows = flows.flows()?;
    let hoses: Vec<fluid::Hose> = hoses.into_iter().map(hose).collect();
    let tenants: Vec<fluid::Tenant> = tenants
        .into_iter()
        .map(|(hosts, rates)| fluid::Tenant {
            hosts,
            hose: hose(rates),
        })
        .collect();
    let mut known = protected(protection, &parameters)?;
    if let Some(marks) = marks {
        known.drain = if marks { known.parameters.phantom_drain } else { 0.0 };
    }
    let guarding = fluid::Guarding {
        hoses: &hoses,
        tenants: &tenants,
        method: known.method,
        parameters: known.parameters,
        adapts: known.adapts,
        queues: fluid::Queues {
            drain: known.drain,
            packet_bytes,
            buffer_s: buffer_s.unwrap_or(fluid::Queues::default().buffer_s),
            ..fluid::Queues::default()
        },
        udp: udp.as_ref().map(PyReadonlyArray1::as_slice).transpose()?,
        step_s,
        window_s,
    };
    let workload = fluid::Workload {
        until_s,
        seed,
        ..fluid::Workload::new(flows)
    };
    let platform = &*platform.inner;
    let done = py
        .detach(|| fluid::simulate_guarded(platform, &workload, &guarding))
        .map_err(Error::from)?;
    Guarded::new(py, platform, done)
}

/// The names of all protections.
#[pyfunction]
pub(crate) fn protections() -> Vec<&'static str> {
    fluid::Protection::NAMES.to_vec()
}

/// The results of a run with guarantees. Columns have one entry for each pair that ever sent, by source and target.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Guarded {
    simulated: Py<Simulated>,
    source: Vec<usize>,
    target: Vec<usize>,
    guarantee_bps: Vec<f64>,
    limit_bps: Vec<f64>,
    rate_bps: Vec<f64>,
    marks: Vec<f64>,
    lost_bytes: Vec<f64>,
    windows: Vec<u32>,
    met: Vec<u32>,
    /// Empty = no limiter.
    held: Vec<&'static str>,
    rates_bps: Vec<Py<PyArray1<f64>>>,
}

impl Guarded {
    fn new(py: Python<'_>, platform: &dyn fluid::Platform, done: fluid::Guarded) -> PyResult<Self> {
        let pairs = done.pairs;
        let column = |of: fn(&fluid::PairUse) -> f64| pairs.iter().map(of).collect();
        Ok(Self {
            simulated: Py::new(py, Simulated::new(py, platform, done.outcome))?,
            source: pairs.iter().map(|pair| pair.source).collect(),
            target: pairs.iter().map(|pair| pair.target).collect(),
            guarantee_bps: column(|pair| pair.guarantee_bps),
            limit_bps: column(|pair| pair.limit_bps),
            rate_bps: column(|pair| pair.rate_bps),
            marks: column(|pair| pair.marks),
            lost_bytes: column(|pair| pair.lost_bytes),
            windows: pairs.iter().map(|pair| pair.windows).collect(),
            met: pairs.iter().map(|pair| pair.met).collect(),
            held: pairs.iter().map(|pair| pair.held.map_or("", word)).collect(),
            rates_bps: pairs
                .into_iter()
                .map(|pair| pair.rates_bps.into_pyarray(py).unbind())
                .collect(),
        })
    }
}

fn word(held: Held) -> &'static str {
    match held {
        Held::Growing => "growing",
        Held::Unused => "unused",
        Held::Lost => "lost",
        Held::Marked => "marked",
        Held::Waited => "waited",
        Held::Holding => "holding",
        Held::Ceiling => "ceiling",
        Held::Silent => "silent",
    }
}
