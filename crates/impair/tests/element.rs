//! Properties of an element for any packets.

use gavotte_impair::{BucketShape, Element, Fate, Lane, Nanos, Profile};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn shapes() -> impl Strategy<Value = Option<BucketShape>> {
    let some = (1e5..1e10_f64, 0..1_000_000_u64, prop_oneof![Just(0), 1..1_000_000_u64]);
    prop::option::of(some.prop_map(|(rate_bps, burst_bytes, queue_bytes)| BucketShape {
        rate_bps,
        burst_bytes,
        queue_bytes,
    }))
}

fn profiles() -> impl Strategy<Value = Profile> {
    let parts = (
        0..200 * MS,
        0..50 * MS,
        prop_oneof![Just(0.0), 0.0..1.0],
        shapes(),
        any::<u64>(),
    );
    parts.prop_map(|(latency, jitter, loss, bucket, seed)| Profile {
        latency: Nanos(latency),
        jitter: Nanos(jitter),
        loss,
        bucket,
        seed,
    })
}

/// Gaps before packets, and their sizes.
fn arrivals() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0..5 * MS, 60..1515_usize), 1..200)
}

/// Offers packets to a lane. Returns when each arrived and when it leaves, unless it is dropped.
fn offered(lane: &mut Lane<usize>, arrivals: &[(u64, usize)]) -> Vec<(u64, Option<u64>)> {
    let mut now = 0;
    let offer = |(number, (gap, bytes)): (usize, &(u64, usize))| {
        now += gap;
        match lane.offer(Nanos(now), *bytes, number) {
            Fate::Leaves(due) => (now, Some(due.0)),
            Fate::Lost | Fate::Policed => (now, None),
        }
    };
    arrivals.iter().enumerate().map(offer).collect()
}

proptest! {
    #[test]
    fn packets_keep_their_order_and_their_delay(profile in profiles(), arrivals in arrivals()) {
        let mut lane = Lane::new(profile);
        let fates = offered(&mut lane, &arrivals);
        let mut last = 0;
        for (arrived, left) in &fates {
            let Some(left) = *left else { continue };
            prop_assert!(left >= last);
            prop_assert!(left >= arrived + profile.latency.0);
            if profile.bucket.is_none() {
                prop_assert!(left <= arrived + profile.latency.0 + profile.jitter.0 + 1);
            }
            last = left;
        }
        let kept: Vec<usize> = (0..fates.len()).filter(|&number| fates[number].1.is_some()).collect();
        let taken: Vec<usize> = std::iter::from_fn(|| lane.take(Nanos(u64::MAX))).collect();
        prop_assert_eq!(kept, taken);
    }

    #[test]
    fn the_same_seed_gives_the_same_fates(profile in profiles(), arrivals in arrivals()) {
        let fates = || offered(&mut Lane::new(profile), &arrivals);
        prop_assert_eq!(fates(), fates());
    }

    /// In any interval, a bucket passes no more than its depth plus its rate's bytes.
    #[test]
    fn a_bucket_passes_no_more_than_its_curve(shape in shapes(), arrivals in arrivals()) {
        let Some(shape) = shape else { return Ok(()) };
        let mut lane = Lane::new(Profile { bucket: Some(shape), ..Profile::default() });
        let fates = offered(&mut lane, &arrivals);
        let passed: Vec<(u64, usize)> = fates.iter().zip(&arrivals).filter_map(|(fate, (_, bytes))| Some((fate.1?, *bytes))).collect();
        for first in 0..passed.len() {
            let mut bytes = 0.0;
            for (left, size) in &passed[first..] {
                bytes += *size as f64;
                let seconds = (left - passed[first].0 + 1) as f64 / 1e9;
                let most = shape.burst_bytes.max(1514) as f64 + shape.rate_bps / 8.0 * seconds;
                prop_assert!(bytes <= most + 1.0, "{bytes} B in {seconds} s, at most {most}");
            }
        }
    }

    /// A policer never delays a packet, and drops none for which it has tokens.
    #[test]
    fn a_policer_drops_or_passes_at_once(rate_bps in 1e5..1e9_f64, burst_bytes in 1514..100_000_u64, arrivals in arrivals()) {
        let bucket = BucketShape { rate_bps, burst_bytes, queue_bytes: 0 };
        let mut lane = Lane::new(Profile { bucket: Some(bucket), ..Profile::default() });
        let (mut tokens, mut last) = (burst_bytes as f64, 0);
        for ((arrived, left), (_, bytes)) in offered(&mut lane, &arrivals).iter().zip(&arrivals) {
            tokens = (tokens + (arrived - last) as f64 * rate_bps / 8e9).min(burst_bytes as f64);
            last = *arrived;
            match left {
                Some(left) => {
                    prop_assert_eq!(left, arrived);
                    tokens -= *bytes as f64;
                    prop_assert!(tokens > -0.01);
                }
                None => prop_assert!(tokens < *bytes as f64 + 0.01),
            }
        }
    }

    #[test]
    fn an_element_gives_back_every_packet_once_and_in_time(
        profiles in prop::collection::vec(profiles(), 1..5),
        offers in prop::collection::vec((0..4_usize, 0..3 * MS, 60..1515_usize), 1..200),
    ) {
        let mut element = Element::new(usize::MAX / 2);
        let lanes: Vec<_> = profiles.iter().map(|profile| element.add(*profile)).collect();
        let (mut now, mut waiting) = (0, std::collections::BTreeMap::new());
        for (number, (lane, gap, bytes)) in offers.iter().enumerate() {
            now += gap;
            while let Some(due) = element.next().filter(|due| due.0 <= now) {
                let taken: usize = element.take(due).expect("it is due");
                prop_assert_eq!(waiting.remove(&taken), Some(due));
            }
            let lane = lanes[lane % lanes.len()];
            if let Some(Fate::Leaves(due)) = element.offer(lane, Nanos(now), *bytes, number) {
                waiting.insert(number, due);
            }
        }
        while let Some(due) = element.next() {
            let taken = element.take(due).expect("it is due");
            prop_assert_eq!(waiting.remove(&taken), Some(due));
        }
        prop_assert!(waiting.is_empty());
        let counts = element.counts();
        prop_assert_eq!((counts.passed + counts.lost + counts.policed) as usize, offers.len());
    }
}

#[test]
fn the_share_lost_is_the_share_asked_for() {
    for loss in [0.001, 0.01, 0.1, 0.5] {
        let mut lane = Lane::new(Profile {
            loss,
            seed: 7,
            ..Profile::default()
        });
        let count = 400_000;
        let lost = (0..count)
            .filter(|&now| lane.offer(Nanos(now), 100, ()) == Fate::Lost)
            .count() as f64;
        let expected = loss * count as f64;
        let deviation = (expected * (1.0 - loss)).sqrt();
        assert!((lost - expected).abs() < 5.0 * deviation, "{lost} lost of {expected}");
    }
}

#[test]
fn jitter_uses_its_whole_range() {
    let jitter = 5 * MS;
    let mut lane = Lane::new(Profile {
        jitter: Nanos(jitter),
        seed: 3,
        ..Profile::default()
    });
    let mut extra: Vec<u64> = (0..200_000_u64)
        .map(|number| {
            let now = number * MS / 4;
            match lane.offer(Nanos(now), 100, ()) {
                Fate::Leaves(due) => due.0 - now,
                fate => panic!("{fate:?}"),
            }
        })
        .collect();
    let mean = extra.iter().sum::<u64>() as f64 / extra.len() as f64;
    assert!((mean / jitter as f64 - 0.5).abs() < 0.05);
    extra.sort_unstable();
    assert!(extra[extra.len() / 50] < jitter / 8);
    assert!(extra[extra.len() * 49 / 50] > jitter * 7 / 8);
}

/// Ten minutes of credit at 1 Mbit/s, more than HTB can express, after a pause of two minutes.
#[test]
fn a_deep_bucket_refills_as_long_as_it_rests() {
    let bucket = BucketShape {
        rate_bps: 1e6,
        burst_bytes: 75_000_000,
        queue_bytes: 0,
    };
    let mut lane = Lane::new(Profile {
        bucket: Some(bucket),
        ..Profile::default()
    });
    let mut pass = |now: u64| {
        (0..100_000)
            .take_while(|_| matches!(lane.offer(Nanos(now), 1500, ()), Fate::Leaves(_)))
            .count()
    };
    assert_eq!(pass(0), 50_000);
    assert_eq!(pass(120_000 * MS), 10_000);
    assert_eq!(pass(1_000_000 * MS), 50_000);
}

#[test]
fn an_element_holds_no_more_than_it_may() {
    let mut element = Element::new(3000);
    let lane = element.add(Profile {
        latency: Nanos(MS),
        ..Profile::default()
    });
    let kept = (0..5)
        .filter(|_| element.offer(lane, Nanos(0), 1500, ()).is_some())
        .count();
    assert_eq!((kept, element.counts().crowded), (2, 3));
    assert_eq!(element.take(Nanos(MS)), Some(()));
    assert!(element.offer(lane, Nanos(MS), 1500, ()).is_some());
}
