//! Quantiles of distributions, by `statrs`.

use pyo3::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};

use crate::errors::Error;

/// Degrees of freedom from which Wilson and Hilferty's approximation (1931) counts. Its relative error is below a
/// millionth there, where the distribution's own series loses digits.
const MANY: f64 = 5_000.0;

/// A quantile of the chi-squared distribution.
#[pyfunction]
pub(crate) fn chi_squared_quantile(chance: f64, freedom: f64) -> PyResult<f64> {
    if !(chance > 0.0 && chance < 1.0) {
        return Err(Error::Value(format!("{chance} is not a chance between 0 and 1")).into());
    }
    let distribution = ChiSquared::new(freedom)
        .map_err(|_| Error::Value(format!("{freedom} is not a number of degrees of freedom above 0")))?;
    if freedom < MANY {
        return Ok(distribution.inverse_cdf(chance));
    }
    let spread = 2.0 / (9.0 * freedom);
    let root = 1.0 - spread + Normal::standard().inverse_cdf(chance) * spread.sqrt();
    Ok(freedom * root.powi(3))
}
