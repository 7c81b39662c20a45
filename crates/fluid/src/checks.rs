//! Checks that flows and background traffic have in common.

use gavotte_net::{InputError, check_value};

/// Weights from here ...
const LEAST_WEIGHT: f64 = 1e-3;
/// ... to here: six decades, so that sums of weights keep nine digits of the least.
const MOST_WEIGHT: f64 = 1e3;

pub(crate) fn check_weight(what: impl Fn() -> String, weight: f64) -> Result<(), InputError> {
    check_value(
        what,
        weight,
        (LEAST_WEIGHT..=MOST_WEIGHT).contains(&weight),
        "from 0.001 to 1000",
    )
}

pub(crate) fn check_cap(what: impl Fn() -> String, cap_bps: f64) -> Result<(), InputError> {
    check_value(what, cap_bps, cap_bps > 0.0, "above zero bit/s (infinity means no cap)")
}
