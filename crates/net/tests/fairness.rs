//! Max-min fair shares, checked by their definition.

use gavotte_net::max_min;
use proptest::prelude::*;

/// Small numbers, or numbers across eighteen decades. The digits that remain after a large number is subtracted from a
/// sum must be correct.
fn weights() -> impl Strategy<Value = f64> {
    prop_oneof![
        (1_u32..4).prop_map(f64::from),
        (-9_f64..9.0).prop_map(|decade| 10_f64.powf(decade))
    ]
}

#[test]
fn light_flows_keep_the_level_of_heavy_ones_that_fill_both_links() {
    let flows: [(&[u32], f64); 4] = [
        (&[0, 1], 613_558_614.212_856_5),
        (&[0], 3.0),
        (&[0, 1], 1.0),
        (&[1], 3.0),
    ];
    let held: Vec<_> = max_min(&[4.0, 4.0], &flows).into_iter().flatten().collect();
    assert!(held[3].level >= held[0].level, "{held:?}");
    assert!((held[3].level / held[0].level - 1.0).abs() < 1e-6, "{held:?}");
}

proptest! {
    /// Bertsekas and Gallager, 6.5.2: an allocation is max-min fair under two conditions. No link is overloaded, and
    /// each flow crosses a full link on which no flow has a higher rate per weight.
    #[test]
    fn every_flow_is_held_by_a_full_link_on_which_none_has_more(
        rates in prop::collection::vec(1_u32..9, 5),
        flows in prop::collection::vec((prop::sample::subsequence(vec![0_u32, 1, 2, 3, 4], 1..=4), weights()), 1..40),
    ) {
        let rates: Vec<f64> = rates.into_iter().map(f64::from).collect();
        let flows: Vec<(&[u32], f64)> = flows.iter().map(|(path, weight)| (&path[..], *weight)).collect();
        let held: Vec<_> = max_min(&rates, &flows).into_iter().flatten().collect();
        prop_assert_eq!(held.len(), flows.len());
        let mut used = vec![0.0; rates.len()];
        for ((path, weight), held) in flows.iter().zip(&held) {
            path.iter().for_each(|&link| used[link as usize] += weight * held.level);
        }
        for (used, rate) in used.iter().zip(&rates) {
            prop_assert!(*used <= rate * (1.0 + 1e-9), "{used} of {rate}");
        }
        for ((path, _), own) in flows.iter().zip(&held) {
            prop_assert!(path.contains(&own.link));
            let link = own.link as usize;
            prop_assert!(used[link] >= rates[link] * (1.0 - 1e-9), "{} of {} is room left", used[link], rates[link]);
            for ((other, _), held) in flows.iter().zip(&held) {
                prop_assert!(!other.contains(&own.link) || held.level <= own.level * (1.0 + 1e-9));
            }
        }
    }
}
