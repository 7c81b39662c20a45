//! Rate allocation: no rate below its guarantee, and spare capacity shared in proportion to guarantees.

use gavotte_limiter::{Allocation, Allocator, Feedback, Held};
use gavotte_net::{Bandwidth, Seconds};
use proptest::prelude::*;

fn rules() -> impl Strategy<Value = Allocation> {
    prop_oneof![
        Just(Allocation::default()),
        Just(Allocation::delay()),
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
            let feedback = Feedback { rate_bps, bytes, lost_bytes, marked_bytes: marked * bytes, waited_bytes: (1.0 - marked) * bytes, arrived_bps: rate_bps };
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
                arrived_bps: rates[at],
                ..Feedback::default()
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
        arrived_bps: rate_bps,
        ..Feedback::default()
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

/// The curve back to the former rate depends on time alone, whereas beyond it each report counts for a short time only.
#[test]
fn one_report_returns_a_pair_as_far_as_many_in_its_time_do() {
    let rules = Allocation::default();
    let returned_bps = |reports: u32| {
        let mut pair = Allocator::new(Seconds(0.0), Bandwidth(1e6), Bandwidth(1e6), Bandwidth(1e9), &rules);
        for now_s in (1..=200).map(|n| f64::from(n) * 0.015) {
            pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(1e6));
        }
        let before_bps = pair.feedback(Seconds(3.015), &full(&pair, 3.015, 1500.0), Bandwidth(1e6));
        // Hold-Increase ends first.
        let mut start_s = 3.015;
        while pair.held(Seconds(start_s)) != Held::Growing {
            start_s += 0.015;
            pair.feedback(Seconds(start_s), &full(&pair, start_s, 0.0), Bandwidth(1e6));
        }
        let each_s = 0.45 / f64::from(reports);
        let times = (1..=reports).map(|n| start_s + f64::from(n) * each_s);
        let after_bps = times.fold(0.0, |_, now_s| {
            pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(1e6))
        });
        after_bps / before_bps
    };
    let (often, once) = (returned_bps(30), returned_bps(1));
    assert!(often > 1.2 && (once / often - 1.0).abs() < 0.02, "{often} and {once}");
}

/// What a pair sends into a full link before it hears of it must not grow with the time between its reports.
#[test]
fn rare_reports_let_a_calm_pair_grow_by_less() {
    let rules = Allocation::delay();
    let most = |report_s: f64| {
        let mut pair = Allocator::new(Seconds(0.0), Bandwidth(1e6), Bandwidth(1e6), Bandwidth(1e9), &rules);
        let (mut before_bps, mut most) = (1e6, 0.0_f64);
        for now_s in (1..=(8.0 / report_s) as u32).map(|n| f64::from(n) * report_s) {
            let limit_bps = pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(1e6));
            most = most.max(limit_bps / before_bps - 1.0);
            before_bps = limit_bps;
        }
        most
    };
    assert!(most(0.03) > 0.09, "{}", most(0.03));
    for report_s in [0.24, 0.4, 1.6] {
        assert!(most(report_s) < 0.075, "{report_s}: {}", most(report_s));
    }
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
fn a_receiver_that_reports_rarely_is_waited_for_and_unused_limits_sink_as_fast() {
    let rules = Allocation::default();
    let after = |interval_s: f64| {
        let mut pair = Allocator::new(Seconds(0.0), Bandwidth(10e6), Bandwidth(90e6), Bandwidth(1e9), &rules);
        pair.set_patience(Seconds(5.0));
        let mut now_s = 0.0;
        while now_s < 7.9 {
            now_s += interval_s;
            let unused = Feedback {
                rate_bps: 5e6,
                bytes: 5e6 / 8.0 * interval_s,
                ..Feedback::default()
            };
            pair.feedback(Seconds(now_s), &unused, Bandwidth(10e6));
        }
        assert_eq!(pair.held(Seconds(now_s + 4.9)), Held::Unused);
        assert_eq!(pair.held(Seconds(now_s + 5.1)), Held::Silent);
        pair.limit_bps(Seconds(now_s))
    };
    let (often_bps, rarely_bps) = (after(0.4), after(2.0));
    assert!(
        (often_bps - rarely_bps).abs() < 0.01 * often_bps,
        "{often_bps} {rarely_bps}"
    );
}

/// A pair on a path that has shown nothing yet, with a guarantee of 45 Mbit/s, a limit of 90 and other constants for
/// each sign.
fn adaptive() -> Allocator {
    Allocator::new(
        Seconds(0.0),
        Bandwidth(45e6),
        Bandwidth(90e6),
        Bandwidth(1e9),
        &Allocation::default(),
    )
    .without_marks(&Allocation::delay(), &Allocation::loss())
}

/// What is left of the limit after a report in which all bytes were marked or waited, or some were lost.
fn left(pair: &mut Allocator, now_s: &mut f64, change: impl Fn(&mut Feedback)) -> f64 {
    *now_s += 0.03;
    pair.feedback(Seconds(*now_s), &full(pair, *now_s, 0.0), Bandwidth(45e6));
    let before_bps = pair.limit_bps(Seconds(*now_s));
    *now_s += 0.03;
    let mut feedback = full(pair, *now_s, 0.0);
    change(&mut feedback);
    pair.feedback(Seconds(*now_s), &feedback, Bandwidth(45e6)) / before_bps
}

/// Adds a sign of congestion to a report.
type Sign = fn(&mut Feedback);

#[test]
fn marks_waits_and_drops_each_have_their_own_constants() {
    let (marked, waited, lost) = (
        Allocation::default().mark_decrease,
        Allocation::delay().delay_decrease,
        Allocation::loss().loss_decrease,
    );
    let signs: [(f64, Sign); 3] = [
        (marked, |feedback| feedback.marked_bytes = feedback.bytes),
        (waited, |feedback| feedback.waited_bytes = feedback.bytes),
        (lost, |feedback| feedback.lost_bytes = 1500.0),
    ];
    for (decrease, change) in signs {
        let (mut pair, mut now_s) = (adaptive(), 0.0);
        let kept = left(&mut pair, &mut now_s, change);
        // Arrivals are averaged, so that they are a little below a limit that grows.
        assert!((kept - (1.0 - decrease)).abs() < 0.01, "{decrease}: {kept}");
    }
    // A wait counts even right after a mark.
    let (mut pair, mut now_s) = (adaptive(), 0.0);
    left(&mut pair, &mut now_s, |feedback| feedback.marked_bytes = feedback.bytes);
    let kept = left(&mut pair, &mut now_s, |feedback| feedback.waited_bytes = feedback.bytes);
    assert!(kept < 1.0 - marked, "{kept}");
}

#[test]
fn a_queue_that_drains_is_counted_once() {
    let (mut pair, mut now_s) = (adaptive(), 0.03);
    pair.feedback(Seconds(now_s), &full(&pair, now_s, 0.0), Bandwidth(45e6));
    // The link gives 80 Mbit/s, which is less than the limit.
    let limits: Vec<f64> = (0..6)
        .map(|_| {
            now_s += 0.03;
            let bytes = 80e6 * 0.03 / 8.0;
            let feedback = Feedback {
                rate_bps: pair.limit_bps(Seconds(now_s)),
                bytes,
                waited_bytes: bytes,
                arrived_bps: 80e6,
                ..Feedback::default()
            };
            pair.feedback(Seconds(now_s), &feedback, Bandwidth(45e6))
        })
        .collect();
    let goal_bps = 80e6 * (1.0 - Allocation::delay().delay_decrease);
    assert!((limits[5] / goal_bps - 1.0).abs() < 0.03, "{limits:?}");
    assert!(limits.iter().all(|&bps| bps > 0.99 * goal_bps), "{limits:?}");
}

#[test]
fn a_calm_pair_grows_exponentially_and_the_first_wait_takes_it_back() {
    let (mut pair, mut now_s) = (adaptive(), 0.0);
    // The link of 200 Mbit/s is free. Reports come every 30 ms.
    while pair.limit_bps(Seconds(now_s)) < 260e6 {
        now_s += 0.03;
        let limit_bps = pair.limit_bps(Seconds(now_s));
        let mut feedback = full(&pair, now_s, 0.0);
        feedback.arrived_bps = limit_bps.min(200e6);
        pair.feedback(Seconds(now_s), &feedback, Bandwidth(45e6));
    }
    assert!(now_s < 2.0, "{now_s}");
    now_s += 0.03;
    let mut feedback = full(&pair, now_s, 0.0);
    (feedback.arrived_bps, feedback.waited_bytes) = (200e6, feedback.bytes);
    let taken_back_bps = pair.feedback(Seconds(now_s), &feedback, Bandwidth(45e6));
    assert!(taken_back_bps < 200e6, "{taken_back_bps}");
    // A pair with rare reports does not run away between them.
    let (mut rare, mut now_s) = (adaptive(), 0.0);
    while now_s < 1.6 {
        now_s += 0.4;
        rare.feedback(Seconds(now_s), &full(&rare, now_s, 0.0), Bandwidth(45e6));
    }
    assert!(rare.limit_bps(Seconds(now_s)) < 200e6);
}
