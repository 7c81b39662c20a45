//! The simulator with bandwidth guarantees.

use std::collections::BTreeMap;

use gavotte_fluid as fluid;
use gavotte_limiter::Held;
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::fluid::Simulated;

/// Egress, ingress and their limits.
pub(crate) fn hose([egress_bps, ingress_bps, egress_limit_bps, ingress_limit_bps]: [f64; 4]) -> fluid::Hose {
    fluid::Hose {
        egress_bps,
        ingress_bps,
        egress_limit_bps,
        ingress_limit_bps,
    }
}

/// A protection by name, with some constants changed.
pub(crate) fn protected(name: &str, parameters: &BTreeMap<String, f64>) -> PyResult<fluid::Protection> {
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

/// The names of all protections.
#[pyfunction]
pub(crate) fn protections() -> Vec<&'static str> {
    fluid::Protection::NAMES.to_vec()
}

/// What a run with guarantees tells. Columns have one entry a pair that ever sent, by source and target.
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
    pub(crate) fn new(py: Python<'_>, platform: &dyn fluid::Platform, done: fluid::Guarded) -> PyResult<Self> {
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
        Held::Holding => "holding",
        Held::Ceiling => "ceiling",
        Held::Silent => "silent",
    }
}
