//! Checks for both flows and background traffic.

use gavotte_net::{Bandwidth, InputError, Seconds, check_value};

/// Weights must be from this ...
const LEAST_WEIGHT: f64 = 1e-3;
/// ... to this value: six decades, so that sums of weights keep nine digits of the smallest.
const MOST_WEIGHT: f64 = 1e3;

pub(crate) fn check_weight(what: impl Fn() -> String, weight: f64) -> Result<(), InputError> {
    check_value(
        what,
        weight,
        (LEAST_WEIGHT..=MOST_WEIGHT).contains(&weight),
        "from 0.001 to 1000",
    )
}

pub(crate) fn check_cap(what: impl Fn() -> String, Bandwidth(cap_bps): Bandwidth) -> Result<(), InputError> {
    check_value(what, cap_bps, cap_bps > 0.0, "above zero bit/s (infinity means no cap)")
}

pub(crate) fn check_latency(what: impl Fn() -> String, Seconds(latency_s): Seconds) -> Result<(), InputError> {
    let sound = latency_s >= 0.0 && latency_s.is_finite();
    check_value(what, latency_s, sound, "a finite number of seconds from 0 on")
}
