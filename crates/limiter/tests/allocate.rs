//! Rate allocation: no rate below its guarantee, and spare capacity shared in proportion to guarantees.

use gavotte_limiter::{Allocation, Allocator, Feedback, Held};
use gavotte_net::{Bandwidth, Seconds};
use proptest::prelude::*;

fn rules() -> impl Strategy<Value = Allocation> {
    prop_oneof![
        Just(Allocation::default()),
        Just(Allocation::loss()),
        Just(Allocation::paper_loss()),
        Just(Allocation::paper_ecn()),
    ]
}

proptest! {
    /// For any losses, marks, use, and changes of the guarantee: B <= R <= ceiling.
    #[test]
    fn a_limit_is_between_guarantee_and_ceiling(
        rules in rules(),
        ceiling_mbps in 100_f64..1000.0,
        periods in prop::collection::vec((0.1_f64..100.0, 0_f64..1.2, 0_f64..1e6, 0_f64..1.0), 1..200),
    ) {
        let mut pair = Allocator::new(Seconds(0.0), Bandwidth(1e6), Bandwidth(50e6), Bandwidth(ceiling_mbps * 1e6), &rules);
        for (number, (guarantee_mbps, used, lost_bytes, marked)) in periods.into_iter().enumerate() {
            let now_s = (number + 1) as f64 * rules.period_s;
            let rate_bps = used * pair.limit_bps(Seconds(now_s));
            let bytes = rate_bps * rules.period_s / 8.0;
            let lost_bytes = if lost_bytes < 5e5 { 0.0 } else { lost_bytes };
            let feedback = Feedback { rate_bps, bytes, lost_bytes, marked_bytes: marked * bytes, marks: marked > 0.5 };
            let limit_bps = pair.feedback(Seconds(now_s), &feedback, Bandwidth(guarantee_mbps * 1e6));
            prop_assert!((guarantee_mbps * 1e6..=ceiling_mbps * 1e6).contains(&limit_bps), "{limit_bps}");
            prop_assert!((limit_bps - pair.limit_bps(Seconds(now_s))).abs() < 1.0);
        }
    }
}

/// Two pairs on one link with a phantom queue. Returns their mean rates over the last half.
fn sharing(guarantees_bps: [f64; 2], link_bps: f64) -> [f64; 2] {
    let rules = Allocation::default();
    let mut pairs = guarantees_bps.map(|bps| {
        Allocator::new(
            Seconds(0.0),
            Bandwidth(bps),
            Bandwidth(bps),
            Bandwidth::UNLIMITED,
            &rules,
        )
    });
    let (mut queue_bytes, mut sums, mut count) = (0.0_f64, [0.0, 0.0], 0.0);
    for round in 1..4000 {
        let now_s = f64::from(round) * rules.period_s;
        let rates = [pairs[0].limit_bps(Seconds(now_s)), pairs[1].limit_bps(Seconds(now_s))];
        queue_bytes = (queue_bytes + (rates[0] + rates[1] - 0.95 * link_bps) * rules.period_s / 8.0).max(0.0);
        let marked = if queue_bytes > 100e3 { 1.0 } else { 0.0 };
        queue_bytes = queue_bytes.min(200e3);
        for at in 0..2 {
            let bytes = rates[at] * rules.period_s / 8.0;
            let feedback = Feedback {
                rate_bps: rates[at],
                bytes,
                lost_bytes: 0.0,
                marked_bytes: marked * bytes,
                marks: marked > 0.0,
            };
            pairs[at].feedback(Seconds(now_s), &feedback, Bandwidth(guarantees_bps[at]));
            if round > 2000 {
                sums[at] += rates[at];
                count += 0.5;
            }
        }
    }
    sums.map(|sum| sum / count)
}

#[test]
fn what_is_left_is_shared_by_guarantees() {
    for guarantees_mbps in [[45.0, 90.0], [90.0, 180.0], [225.0, 450.0]] {
        let rates = sharing(guarantees_mbps.map(|mbps| mbps * 1e6), 1e9);
        let ratio = rates[1] / rates[0];
        assert!((1.8..2.2).contains(&ratio), "{guarantees_mbps:?}: {rates:?}");
        assert!(rates[0] + rates[1] > 0.864e9, "{guarantees_mbps:?}: {rates:?}");
    }
}

fn full(pair: &Allocator, now_s: f64, lost_bytes: f64) -> Feedback {
    let rate_bps = pair.limit_bps(Seconds(now_s));
    Feedback {
        rate_bps,
        bytes: rate_bps * 0.015 / 8.0,
        lost_bytes,
        marked_bytes: 0.0,
        marks: false,
    }
}

#[test]
fn drops_of_what_was_sent_before_a_fall_do_not_make_another() {
    let rules = Allocation::loss();
    let mut pair = Allocator::new(Seconds(0.0), Bandwidth(100e6), Bandwidth(100e6), Bandwidth(1e9), &rules);
    let mut now_s = 0.0;
    while pair.limit_bps(Seconds(now_s)) < 400e6 {
        now_s += rules.period_s;
        pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(100e6));
    }
    let before = pair.limit_bps(Seconds(now_s));
    let after: Vec<f64> = (1..=3)
        .map(|n| {
            let now_s = now_s + f64::from(n) * rules.period_s;
            pair.feedback(Seconds(now_s), &full(&pair, now_s, 3000.0), Bandwidth(100e6)) / before
        })
        .collect();
    let left = 1.0 - rules.loss_decrease;
    for (found, wanted) in after.iter().zip([left, left, left * left]) {
        assert!((found - wanted).abs() < 1e-9, "{after:?}");
    }
}

#[test]
fn one_report_grows_a_pair_as_many_in_its_time_do() {
    let rules = Allocation::default();
    let grown_bps = |reports: u32| {
        let mut pair = Allocator::new(Seconds(0.0), Bandwidth(1e6), Bandwidth(1e6), Bandwidth(1e9), &rules);
        let each_s = 0.45 / f64::from(reports);
        let times = (1..=reports).map(|n| f64::from(n) * each_s);
        times.fold(0.0, |_, now_s| {
            pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(1e6))
        })
    };
    let (often, once) = (grown_bps(30), grown_bps(1));
    assert!(often > 2e6 && (once / often - 1.0).abs() < 0.02, "{often} and {once}");
}

#[test]
fn a_far_pair_grows_by_as_much_in_a_round_trip_as_a_near_one() {
    for rules in [Allocation::default(), Allocation::loss()] {
        let grown_bps = |round_trip_s: f64, seconds: f64| {
            let mut pair = Allocator::new(
                Seconds(0.0),
                Bandwidth(30e6),
                Bandwidth(30e6),
                Bandwidth::UNLIMITED,
                &rules,
            );
            pair.set_round_trip(Seconds(round_trip_s));
            for period in 1..=(seconds / rules.period_s).round() as u32 {
                let now_s = f64::from(period) * rules.period_s;
                pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(30e6));
            }
            pair.limit_bps(Seconds(seconds)) - 30e6
        };
        let (near_bps, far_bps) = (grown_bps(0.0, 0.6), grown_bps(4.0 * rules.near_s, 2.4));
        assert!(near_bps > 1e6 && (grown_bps(rules.near_s, 0.6) - near_bps).abs() < 1.0);
        // The far pair's steps are a quarter as long, and four times as many.
        assert!((far_bps / near_bps - 1.0).abs() < 0.15, "{far_bps} {near_bps}");
    }
}

#[test]
fn a_period_of_nothing_ends() {
    let rules = Allocation {
        period_s: 0.0,
        ..Allocation::default()
    };
    let mut pair = Allocator::new(Seconds(0.0), Bandwidth(1e6), Bandwidth(1e6), Bandwidth(1e9), &rules);
    assert!(pair.feedback(Seconds(0.1), &full(&pair, 0.1, 0.0), Bandwidth(1e6)) >= 1e6);
}

#[test]
fn hold_increase_waits_longer_for_small_guarantees() {
    let rules = Allocation::loss();
    let periods_held = |guarantee_bps: f64| {
        let mut pair = Allocator::new(
            Seconds(0.0),
            Bandwidth(guarantee_bps),
            Bandwidth(guarantee_bps),
            Bandwidth(1e9),
            &rules,
        );
        pair.feedback(Seconds(0.015), &full(&pair, 0.0, 1500.0), Bandwidth(guarantee_bps));
        (2..1000)
            .map(|n| f64::from(n) * 0.015)
            .take_while(|&now_s| {
                pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(guarantee_bps));
                pair.held(Seconds(now_s)) == Held::Holding
            })
            .count()
    };
    assert!(periods_held(45e6) > periods_held(450e6));
}

#[test]
fn silence_takes_a_pair_to_its_guarantee() {
    let rules = Allocation::default();
    let mut pair = Allocator::new(Seconds(0.0), Bandwidth(10e6), Bandwidth(10e6), Bandwidth(1e9), &rules);
    let mut now_s = 0.0;
    for _ in 0..100 {
        now_s += 0.015;
        pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(10e6));
    }
    assert!(pair.limit_bps(Seconds(now_s)) > 20e6);
    assert!((pair.limit_bps(Seconds(now_s + 1.1)) - 10e6).abs() < 1.0);
    assert_eq!(pair.held(Seconds(now_s + 1.1)), Held::Silent);
}

#[test]
fn a_path_that_marks_nothing_has_other_constants() {
    let (marked, unmarked) = (Allocation::default(), Allocation::loss());
    let mut pair = Allocator::new(Seconds(0.0), Bandwidth(1e6), Bandwidth(100e6), Bandwidth(1e9), &marked)
        .without_marks(&unmarked);
    let mut now_s = 0.0;
    // The share that is left of the limit after a report in which all bytes were marked or waited.
    let mut left = |marks| {
        now_s += 1.0;
        pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(1e6));
        let before_bps = pair.limit_bps(Seconds(now_s));
        now_s += marked.period_s;
        let arrived = full(&pair, now_s, 0.0);
        let marked_bytes = arrived.bytes;
        let feedback = Feedback {
            marked_bytes,
            marks,
            ..arrived
        };
        pair.feedback(Seconds(now_s), &feedback, Bandwidth(1e6)) / before_bps
    };
    // The first report of a wait on such a path already counts.
    let (waited, was_marked, waited_later) = (left(false), left(true), left(false));
    assert!((waited - (1.0 - unmarked.mark_decrease)).abs() < 1e-9, "{waited}");
    assert!((was_marked - (1.0 - marked.mark_decrease)).abs() < 1e-9, "{was_marked}");
    assert!((waited_later - was_marked).abs() < 1e-9, "{waited_later}");
}
