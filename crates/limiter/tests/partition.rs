//! Compares guarantee partitioning with its definition. Both ends exchange offers, with a delay of one round.

use gavotte_limiter::{End, Need, Partition, Partitioner, Share, divide};
use gavotte_net::max_min;
use gavotte_net::{Bandwidth, Bytes, Seconds};
use proptest::prelude::*;

const PERIOD_S: f64 = 0.05;

/// Hosts with hoses, and pairs between sources and targets with their demands, in bit/s.
#[derive(Clone, Debug)]
struct Cloud {
    source_bps: Vec<f64>,
    target_bps: Vec<f64>,
    /// Source, target, demand; infinite = unlimited.
    pairs: Vec<(usize, usize, f64)>,
}

fn clouds() -> impl Strategy<Value = Cloud> {
    let hoses = || prop::collection::vec((1_u32..40).prop_map(|n| f64::from(n) * 10e6), 1..8);
    (hoses(), hoses()).prop_flat_map(|(source_bps, target_bps)| {
        let all: Vec<(usize, usize)> = (0..source_bps.len())
            .flat_map(|s| (0..target_bps.len()).map(move |t| (s, t)))
            .collect();
        let count = all.len();
        let demand = prop_oneof![Just(f64::INFINITY), (1_u32..200).prop_map(|n| f64::from(n) * 1e6)];
        let pairs = prop::sample::subsequence(all, 1..=count.min(30));
        (pairs, prop::collection::vec(demand, 30)).prop_map(move |(pairs, demands)| Cloud {
            source_bps: source_bps.clone(),
            target_bps: target_bps.clone(),
            pairs: pairs.into_iter().zip(demands).map(|((s, t), d)| (s, t, d)).collect(),
        })
    })
}

struct Run {
    cloud: Cloud,
    rules: Partition,
    sources: Vec<Partitioner<usize>>,
    targets: Vec<Partitioner<usize>>,
    round: u32,
}

impl Run {
    fn new(cloud: Cloud, rules: Partition) -> Self {
        let ends = |end, hoses: &[f64]| {
            hoses
                .iter()
                .map(|&bps| Partitioner::new(end, Bandwidth(bps), &rules))
                .collect()
        };
        Self {
            sources: ends(End::Source, &cloud.source_bps),
            targets: ends(End::Target, &cloud.target_bps),
            rules,
            cloud,
            round: 0,
        }
    }

    /// The demand of a pair that its source estimates if nothing limits the pair.
    fn demand_bps(&self, source: usize, bps: f64) -> f64 {
        (self.rules.growth * bps).max(self.rules.floor * self.cloud.source_bps[source])
    }

    /// One division at every host, then all messages. Returns the shares of sources and of targets.
    fn round(&mut self) -> [Vec<Vec<Share<usize>>>; 2] {
        self.round += 1;
        let now_s = f64::from(self.round) * PERIOD_S;
        for &(source, target, demand_bps) in &self.cloud.pairs {
            // A pair with unlimited demand fills its limiter; any other pair is far below its limit.
            let (rate_bps, limit_bps) = if demand_bps.is_infinite() {
                (1e9, 1e9)
            } else {
                (demand_bps, 1e12)
            };
            let bytes = (rate_bps * PERIOD_S / 8.0).round() as u64;
            self.sources[source].observe(target, Bytes(bytes), Bandwidth(limit_bps));
            self.targets[target].observe(source, Bytes(bytes), Bandwidth::UNLIMITED);
        }
        let sources: Vec<_> = self
            .sources
            .iter_mut()
            .map(|end| end.partition(Seconds(now_s)))
            .collect();
        let targets: Vec<_> = self
            .targets
            .iter_mut()
            .map(|end| end.partition(Seconds(now_s)))
            .collect();
        for (source, shares) in sources.iter().enumerate() {
            for share in shares {
                self.targets[share.peer].hear(source, Seconds(now_s), share.offer());
            }
        }
        for (target, shares) in targets.iter().enumerate() {
            for share in shares {
                self.sources[share.peer].hear(target, Seconds(now_s), share.offer());
            }
        }
        [sources, targets]
    }

    /// The max-min fair guarantees by water-filling over all hoses at once, and the number of their levels.
    fn oracle(&self) -> (Vec<f64>, usize) {
        let hoses: Vec<f64> = [&self.cloud.source_bps[..], &self.cloud.target_bps].concat();
        let own = |(number, &(source, _, bps)): (usize, &(usize, usize, f64))| (number, self.demand_bps(source, bps));
        let demands: Vec<(usize, f64)> = self.cloud.pairs.iter().enumerate().map(own).collect();
        let rates: Vec<f64> = hoses
            .iter()
            .copied()
            .chain(demands.iter().map(|(_, bps)| bps.min(1e12)))
            .collect();
        let paths: Vec<[u32; 3]> = self
            .cloud
            .pairs
            .iter()
            .enumerate()
            .map(|(number, &(source, target, _))| {
                [
                    source as u32,
                    (self.cloud.source_bps.len() + target) as u32,
                    (hoses.len() + number) as u32,
                ]
            })
            .collect();
        let flows: Vec<(&[u32], f64)> = paths.iter().map(|path| (&path[..], 1.0)).collect();
        let held = max_min(&rates, &flows);
        let fair: Vec<f64> = held
            .into_iter()
            .map(|held| held.expect("every pair is held").level)
            .collect();
        let mut levels = fair.clone();
        levels.sort_by(f64::total_cmp);
        levels.dedup_by(|a, b| (*a - *b).abs() < 1.0);
        let count = levels.len();
        (fair, count)
    }
}

/// The paper's constants, with shares that follow at once.
fn exact() -> Partition {
    Partition {
        hysteresis: 0.0,
        ..Partition::paper()
    }
}

proptest! {
    /// For any demands, and any pairs that start or stop:
    ///
    /// 1. Safety: the guarantees of a host's pairs never exceed its hose, at either end.
    /// 2. No starvation: each pair has a guarantee.
    /// 3. Efficiency: each hose is divided completely.
    #[test]
    fn guarantees_stay_within_both_hoses(cloud in clouds(), changes in prop::collection::vec((0_usize..30, 1_u32..200), 20), mice: bool) {
        let rules = if mice { Partition::default() } else { Partition::paper() };
        let mut run = Run::new(cloud, rules);
        for (at, demand) in changes {
            let pair = at % run.cloud.pairs.len();
            run.cloud.pairs[pair].2 = if demand > 150 { f64::INFINITY } else { f64::from(demand) * 1e6 };
            let [sources, targets] = run.round();
            for (shares, hose_bps) in sources.iter().zip(&run.cloud.source_bps).chain(targets.iter().zip(&run.cloud.target_bps)) {
                let sum: f64 = shares.iter().map(|share| share.share_bps).sum();
                prop_assert!(shares.is_empty() || (sum / hose_bps - 1.0).abs() < 1e-9, "{sum} of {hose_bps}");
            }
            let mut into = vec![0.0; targets.len()];
            for share in sources.iter().flatten() {
                prop_assert!(share.guarantee_bps > 0.0);
                into[share.peer] += share.guarantee_bps;
            }
            if run.round > 1 {
                for (sum, hose_bps) in into.iter().zip(&run.cloud.target_bps) {
                    prop_assert!(*sum <= hose_bps * (1.0 + 1e-9), "{sum} of {hose_bps}");
                }
            }
        }
    }

    /// Optimality: both ends find the max-min fair division over hoses and demands, in two rounds for each of its
    /// levels. A hose whose pairs have reached their level sends it to the other ends, which send it to the hoses of
    /// the next level.
    #[test]
    fn both_ends_agree_on_the_max_min_fair_division(cloud in clouds()) {
        let mut run = Run::new(cloud, exact());
        let (fair, levels) = run.oracle();
        for _ in 0..2 * levels {
            run.round();
        }
        let [sources, targets] = run.round();
        for (number, &(source, target, _)) in run.cloud.pairs.iter().enumerate() {
            let of = |shares: &[Share<usize>], peer: usize| shares.iter().find(|share| share.peer == peer).copied();
            let own = of(&sources[source], target).expect("a share");
            let remote = of(&targets[target], source).expect("a share");
            let agreed = own.offer_bps.min(remote.offer_bps);
            prop_assert!((agreed / fair[number] - 1.0).abs() < 1e-6, "{agreed} instead of {} after {levels} levels", fair[number]);
            prop_assert!(own.guarantee_bps >= fair[number] * (1.0 - 1e-6), "{} below {}", own.guarantee_bps, fair[number]);
        }
    }

    /// A tenant's hosts keep their own guarantees, and get no more than the aggregate and their limits.
    #[test]
    fn a_tenant_is_divided_within_its_aggregate(
        total in 1_f64..1e3,
        needs in prop::collection::vec((0_f64..50.0, 0_f64..300.0, 50_f64..400.0), 1..10),
    ) {
        let needs: Vec<Need> = needs.into_iter().map(|(least_bps, demand_bps, most_bps)| Need { least_bps, demand_bps, most_bps }).collect();
        let own: f64 = needs.iter().map(|need| need.least_bps).sum();
        let shares = divide(Bandwidth(total), &needs);
        prop_assert!(shares.iter().sum::<f64>() <= total.max(own) * (1.0 + 1e-9));
        for (share, need) in shares.iter().zip(&needs) {
            prop_assert!(*share >= need.least_bps && *share <= need.most_bps * (1.0 + 1e-9));
        }
        let most: f64 = needs.iter().map(|need| need.most_bps).sum();
        prop_assert!(total < own || shares.iter().sum::<f64>() >= total.min(most) * (1.0 - 1e-9));
    }
}

#[test]
fn a_silent_peer_is_no_bound_after_a_second() {
    let mut end = Partitioner::new(End::Source, Bandwidth(100e6), &exact());
    let mut shares = Vec::new();
    for round in 0..40 {
        let now_s = f64::from(round) * PERIOD_S;
        end.observe(1, Bytes(1_000_000), Bandwidth(1e6));
        if round < 5 {
            let share_bps = 10e6;
            end.hear(
                1,
                Seconds(now_s),
                gavotte_limiter::Offer {
                    share_bps,
                    offer_bps: share_bps,
                },
            );
        }
        shares.push(end.partition(Seconds(now_s))[0].guarantee_bps);
    }
    assert!((shares[4] - 10e6).abs() < 1.0);
    assert!((shares[19] - 10e6).abs() < 1.0);
    assert!((shares[39] - 100e6).abs() < 1.0);
}

/// Section 7.1, Fig. 9: a long flow alongside short ones, each to a different host.
fn left_to_an_elephant(new_per_s: f64, rules: &Partition) -> f64 {
    let mut end = Partitioner::new(End::Source, Bandwidth(450e6), rules);
    let (mut due, mut next, mut sum) = (0.0, 1_u32, 0.0);
    for round in 0..200 {
        let now_s = f64::from(round) * PERIOD_S;
        end.observe(0, Bytes(3_000_000), Bandwidth(450e6));
        due += new_per_s * PERIOD_S;
        while due >= 1.0 {
            // Each short flow fills its limiter while it lasts.
            end.observe(next, Bytes(20_000), Bandwidth(3e6));
            (next, due) = (next + 1, due - 1.0);
        }
        sum += end.partition(Seconds(now_s))[0].guarantee_bps / 200.0;
    }
    sum / 450e6
}

#[test]
fn mice_to_new_hosts_cost_an_elephant_little() {
    for new_per_s in [10.0, 20.0, 50.0] {
        assert!(left_to_an_elephant(new_per_s, &Partition::default()) > 0.95);
    }
    assert!(left_to_an_elephant(50.0, &Partition::paper()) < 0.9);
}

#[test]
fn small_changes_leave_shares_as_they_are() {
    let mut end = Partitioner::new(End::Source, Bandwidth(100e6), &Partition::paper());
    let mut share = |now_s: f64, rate_bps: f64| {
        for (peer, rate_bps) in [(1, rate_bps), (2, 1e9)] {
            end.observe(peer, Bytes((rate_bps * PERIOD_S / 8.0) as u64), Bandwidth(1e9));
        }
        end.partition(Seconds(now_s))[0].share_bps
    };
    let first = share(0.05, 20e6);
    assert!((share(0.10, 20.5e6) - first).abs() < 1.0);
    assert!((share(0.15, 30e6) - first).abs() > 5e6);
}

#[test]
fn the_offers_of_slow_pairs_do_not_follow_their_bursts() {
    let rules = Partition::default();
    let mut source = Partitioner::new(End::Source, Bandwidth(90e6), &rules);
    let mut changes = 0;
    let mut before_bps = 0.0;
    for round in 1_u32..=400 {
        // A burst of four packets about every 53 ms is 0.9 Mbit/s; divisions see none, one or two of them.
        let bursts = u64::from(round * 17 / 18 - (round - 1) * 17 / 18) + u64::from(round % 7 == 0);
        source.observe(1, Bytes(bursts * 6056), Bandwidth(2e6));
        source.observe(2, Bytes(500_000), Bandwidth(80e6));
        let shares = source.partition(Seconds(PERIOD_S * f64::from(round)));
        let Some(slow) = shares.iter().find(|share| share.peer == 1) else {
            continue;
        };
        if (slow.offer_bps - before_bps).abs() > 0.3 * before_bps {
            changes += 1;
        }
        before_bps = slow.offer_bps;
    }
    // It has to find the rate once.
    assert!(changes <= 8, "{changes} changes by more than 30 % in 20 s");
}
