//! The 95 % interval of a sum that was sampled.

/// The normal distribution's 97.5 % quantile.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % interval of a total that samples stand for.
///
/// Packets are sampled as a Poisson process.
///
/// * With packets of one size, the number of samples n is Poisson and Garwood's interval is exact.
/// * With several sizes, n = whole^2 / squares is the number of equal samples with the same uncertainty. The upper end
///   allows for one more sample, of size `unit` (Fay and Feuer 1997).
///
/// The interval narrows by the share of bytes seen directly, and its lower end is not below these bytes. Chi-square
/// quantiles are Wilson and Hilferty's, within 1 % for n >= 1.
///
/// * `whole`: the sum of size times rate.
/// * `squares`: the sum of its squares.
/// * `seen`: the sum of sizes.
/// * `unit`: the bytes that a sample not drawn may have stood for, at least the mean of the drawn samples.
pub fn sampled_range(whole: f64, squares: f64, seen: f64, unit: f64) -> (f64, f64) {
    if whole <= 0.0 || squares <= 0.0 {
        return (whole.max(0.0), whole.max(0.0));
    }
    let samples = whole * whole / squares;
    let cubed = |n: f64, way: f64| n * (1.0 - 1.0 / (9.0 * n) + way * Z / (3.0 * n.sqrt())).max(0.0).powi(3);
    let unseen = (1.0 - seen / whole).clamp(0.0, 1.0).sqrt();
    let low = whole - (whole - whole / samples * cubed(samples, -1.0)) * unseen;
    let unit = unit.max(whole / samples);
    let more = (whole + unit).powi(2) / (squares + unit * unit);
    let high = whole + ((whole + unit) / more * cubed(more, 1.0) - whole) * unseen;
    (low.max(seen).min(whole), high.max(whole))
}

#[cfg(test)]
mod tests {
    use super::sampled_range;

    #[test]
    fn it_is_garwoods_for_equal_samples() {
        // Exact: 10 events, 4.795 to 18.390; 1 event, 0.0253 to 5.572.
        for (n, low, high) in [(10.0, 4.795, 18.390), (100.0, 81.36, 121.63)] {
            let range = sampled_range(n * 1e3, n * 1e6, 0.0, 0.0);
            assert!((range.0 / 1e3 - low).abs() < 0.01 * n, "{range:?}");
            assert!((range.1 / 1e3 - high).abs() < 0.01 * n, "{range:?}");
        }
        let one = sampled_range(1.0, 1.0, 0.0, 0.0);
        assert!(one.0 < 0.05 && (one.1 - 5.572).abs() < 0.06, "{one:?}");
    }

    #[test]
    fn a_pair_of_small_samples_may_have_had_a_large_packet() {
        let (_, high) = sampled_range(720.0, 720.0 * 720.0, 36.0, 1.3e6);
        assert!(high > 3.0 * 1.3e6, "{high}");
    }

    #[test]
    fn what_was_seen_is_certain() {
        assert_eq!(sampled_range(500.0, 2500.0, 500.0, 0.0), (500.0, 500.0));
        assert!(sampled_range(1000.0, 1e6, 900.0, 0.0).0 >= 900.0);
        assert_eq!(sampled_range(0.0, 0.0, 0.0, 9.0), (0.0, 0.0));
    }
}
