//! Quantiles of distributions, by `statrs`.

use pyo3::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

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

/// A quantile of Student's t distribution.
///
/// From [`MANY`] degrees of freedom on, it is that of the normal distribution with the first two terms by which they differ
/// (Abramowitz and Stegun 26.7.5). The distribution's own takes ever longer there.
#[pyfunction]
pub(crate) fn student_quantile(chance: f64, freedom: f64) -> PyResult<f64> {
    if !(chance > 0.0 && chance < 1.0) {
        return Err(Error::Value(format!("{chance} is not a chance between 0 and 1")).into());
    }
    let distribution = StudentsT::new(0.0, 1.0, freedom)
        .map_err(|_| Error::Value(format!("{freedom} is not a number of degrees of freedom above 0")))?;
    if freedom < MANY {
        return Ok(distribution.inverse_cdf(chance));
    }
    let z = Normal::standard().inverse_cdf(chance);
    let terms =
        (z.powi(3) + z) / (4.0 * freedom) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom);
    Ok(z + terms)
}
