//! Properties that hold for any input.

use gavotte_constant::{Times, mode, principal, quantile};
use proptest::prelude::*;

/// Average spacings of order statistics for up to ten snapshots, accurate enough for tests.
const GAPS: [f64; 11] = [0.0, 0.0, 1.13, 0.85, 0.73, 0.67, 0.98, 0.91, 0.86, 1.10, 1.16];

/// A rank-one matrix: load x constant.
fn rank_one(load: &[f64], constant: &[f64]) -> Vec<f64> {
    load.iter().flat_map(|u| constant.iter().map(move |c| u * c)).collect()
}

fn near(found: &[f64], wanted: &[f64], share: f64) {
    for (at, (a, b)) in found.iter().zip(wanted).enumerate() {
        assert!((a / b - 1.0).abs() < share, "{at}: {a} for {b}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_constant_without_change_is_found(constant in prop::collection::vec(0.01..100.0_f64, 20..150)) {
        let values = rank_one(&[1.0; 6], &constant);
        let times = Times::new(&values, 6).unwrap();
        near(&mode(&times, &GAPS).constant, &constant, 1e-9);
        near(&principal(&times).constant, &constant, 1e-5);
        near(&quantile(&times, 0.5), &constant, 1e-12);
    }

    #[test]
    fn spikes_loads_and_holes_do_not_hide_it(
        constant in prop::collection::vec(0.01..100.0_f64, 60..150),
        spikes in prop::collection::vec((0..8_usize, 0..60_usize, 1.5..20.0_f64), 0..30),
        holes in prop::collection::vec((0..8_usize, 0..60_usize), 0..20),
    ) {
        let load = [0.7, 1.3, 1.0, 1.0, 0.9, 1.1, 1.0, 1.0];
        let mut values = rank_one(&load, &constant);
        // At most two of eight snapshots of a pair, so that five still agree.
        let mut touched = vec![0; constant.len()];
        for (row, pair, factor) in spikes {
            if touched[pair] < 1 {
                touched[pair] += 1;
                values[row * constant.len() + pair] *= factor;
            }
        }
        for (row, pair) in holes {
            if touched[pair] < 2 {
                touched[pair] += 1;
                values[row * constant.len() + pair] = f64::NAN;
            }
        }
        let times = Times::new(&values, 8).unwrap();
        let estimate = mode(&times, &GAPS);
        near(&estimate.constant, &constant, 1e-9);
        near(&estimate.load, &load, 1e-9);
    }
}

#[test]
fn the_pursuit_fills_holes_and_forgets_spikes() {
    let constant: Vec<f64> = (0..400).map(|pair| 1.0 + f64::from(pair % 17)).collect();
    let mut values = rank_one(&[1.0; 10], &constant);
    for pair in 0..400 {
        values[(pair % 10) * 400 + pair] *= 6.0;
        values[((pair + 3) % 10) * 400 + pair] = f64::NAN;
    }
    let estimate = principal(&Times::new(&values, 10).unwrap());
    near(&estimate.constant, &constant, 0.03);
    assert!(estimate.steps < 100);
}

#[test]
fn a_pair_never_measured_stays_unknown() {
    let mut values = rank_one(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0]);
    for row in 0..5 {
        values[row * 4 + 2] = f64::NAN;
    }
    let times = Times::new(&values, 5).unwrap();
    for constant in [
        mode(&times, &GAPS).constant,
        principal(&times).constant,
        quantile(&times, 0.0),
    ] {
        assert!(constant[2].is_nan());
        near(&[constant[0], constant[1], constant[3]], &[1.0, 2.0, 4.0], 1e-4);
    }
}
