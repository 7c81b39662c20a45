//! When a host reports on its pairs with another host.

use gavotte_net::{Bandwidth, Seconds, Volume};

use crate::arrivals::Counts;

/// A report is sent after this many times its own size has arrived, so that feedback stays at a thousandth of the
/// traffic.
const WORTH_TELLING: f64 = 1000.0;
/// Shortest time between two reports; limits change every 15 ms at most.
const TELL_S: f64 = 0.03;
/// Shortest time between two reports if packets were lost.
const TELL_LOSS_S: f64 = 0.015;
/// Shortest time between two reports of marks and waits for pairs that carry little.
const TELL_MARKS_S: f64 = 0.2;
/// Longest time between two reports on an active pair.
const BEAT_S: f64 = 0.4;
/// Calm pairs of a host with many pairs are reported more rarely, so that the cost of all stays the same: this time
/// between two reports for each pair, and at most this many times the usual time.
const BEAT_PAIR_S: f64 = 0.025;
const SLOWEST: f64 = 7.5;
/// A host follows the other one in that, but for a part, so that both return to the usual times.
const FOLLOWS: f64 = 0.9;
/// A host with many pairs looks at them more rarely, so that all looks cost the same: this time between two looks for
/// each pair, and at most this time.
const LOOK_PAIR_S: f64 = 0.000_25;
const LOOK_MOST_S: f64 = 0.025;
/// The most by which more bytes are worth a report.
const WORTH_MOST: f64 = 2.5;
/// A pair is calm if it sends at most this many times its guarantee and a burst: its receiver's reports then change its
/// limit by little.
const CALM: f64 = 1.25;
const BURST_BYTES: f64 = 24_000.0;
/// An offer is sent again if it differs by more than this share, and sooner if it differs by much more.
const OTHER_OFFER: f64 = 0.05;
/// The same for the growth of calm pairs' offers. A lower share is reported as soon as that of others: the shares of a
/// hose add up to the hose.
const OTHER_OFFER_CALM: f64 = 0.15;
const TELL_OFFER_S: f64 = 0.25;
const QUITE_OTHER_OFFER: f64 = 0.3;
const TELL_QUITE_S: f64 = 0.05;

/// What a host has not reported to another host yet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unreported {
    /// What arrived from the other host.
    pub counts: Counts,
    /// Bytes that were sent to it, if the transit times of its datagrams reveal queues on their way; otherwise zero.
    pub sent_bytes: f64,
    /// Whether either of the pairs has a share of a hose.
    pub is_active: bool,
    /// Whether a pair has begun or ended.
    pub begins: bool,
}

/// The reports of one host to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reports {
    at_s: f64,
    promised_s: f64,
    waits: bool,
}

impl Default for Reports {
    fn default() -> Self {
        Self::starting(Seconds(0.0))
    }
}

impl Reports {
    /// Creates the reports on a pair, as if the last one had left at `now`.
    pub const fn starting(Seconds(now_s): Seconds) -> Self {
        Self {
            at_s: now_s,
            promised_s: BEAT_S,
            waits: false,
        }
    }

    /// When the last report left.
    pub const fn last(&self) -> Seconds {
        Seconds(self.at_s)
    }

    /// The longest time until the next report, as the last one promised.
    pub const fn promised(&self) -> Seconds {
        Seconds(self.promised_s)
    }

    /// Whether a pair with this guarantee is calm: it has carried little more than its guarantee since the last report.
    pub fn is_calm(&self, Seconds(now_s): Seconds, Volume(bytes): Volume, Bandwidth(guarantee_bps): Bandwidth) -> bool {
        bytes <= CALM * guarantee_bps * (now_s - self.at_s) / 8.0 + BURST_BYTES
    }

    /// How many times rarer than usual calm pairs are reported by a host with `pairs` active pairs, if the other host
    /// promised its own next report after this time.
    pub fn rarity(pairs: usize, Seconds(other_s): Seconds) -> f64 {
        let own_s = BEAT_PAIR_S * pairs as f64;
        (own_s.max(FOLLOWS * other_s) / BEAT_S).clamp(1.0, SLOWEST)
    }

    /// The shortest time between two looks at the pairs of a host with `pairs` active ones, if it is usually `usual`.
    pub fn look(pairs: usize, Seconds(usual_s): Seconds) -> Seconds {
        Seconds(usual_s.max((LOOK_PAIR_S * pairs as f64).min(LOOK_MOST_S)))
    }

    /// Whether a report is due; if so, it is recorded as sent. A report has `report_bytes` on the wire. The pairs are
    /// calm if `rarity` is known: reports are then this many times rarer than usual. `differs` returns whether an offer has
    /// changed by more than a share of itself, or has fallen by more than the second share.
    pub fn due(
        &mut self,
        Seconds(now_s): Seconds,
        unreported: &Unreported,
        report_bytes: u64,
        rarity: Option<f64>,
        differs: impl Fn(f64, f64) -> bool,
    ) -> bool {
        let since_s = now_s - self.at_s;
        let Counts {
            bytes,
            lost_bytes,
            marked_bytes,
            waited_bytes,
        } = unreported.counts;
        let rare = rarity.unwrap_or(1.0);
        let other_offer = if rarity.is_some() {
            OTHER_OFFER_CALM
        } else {
            OTHER_OFFER
        };
        let worth_bytes = WORTH_TELLING * rare.min(WORTH_MOST) * report_bytes as f64;
        let longest_s = if rarity.is_some() { self.promised_s } else { BEAT_S };
        let due = unreported.begins
            || (lost_bytes > 0.0 && since_s >= TELL_LOSS_S * rare.powi(3))
            || (bytes.max(unreported.sent_bytes) >= worth_bytes && since_s >= TELL_S)
            || (waited_bytes > 0.0 && !self.waits && since_s >= TELL_S * rare)
            || (marked_bytes + waited_bytes > 0.0 && since_s >= TELL_MARKS_S * rare * rare)
            || (since_s >= TELL_OFFER_S && differs(other_offer, OTHER_OFFER))
            || (since_s >= TELL_QUITE_S && differs(QUITE_OTHER_OFFER, QUITE_OTHER_OFFER))
            || ((unreported.is_active || bytes > 0.0) && since_s >= longest_s);
        if due {
            *self = Self {
                at_s: now_s,
                promised_s: BEAT_S * rare,
                waits: waited_bytes > 0.0,
            };
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT_BYTES: u64 = 113;

    fn arrived(bytes: f64) -> Unreported {
        Unreported {
            counts: Counts {
                bytes,
                ..Counts::default()
            },
            is_active: true,
            ..Unreported::default()
        }
    }

    /// The times of a pair's reports in 12 s, looked at every 10 ms; `add` changes what is unreported at each look.
    fn times(guarantee_bps: f64, pairs: usize, add: impl Fn(&mut Unreported)) -> Vec<f64> {
        let (mut reports, mut unreported) = (Reports::default(), arrived(0.0));
        let mut all = Vec::new();
        for step in 1..=1200_u32 {
            let now = Seconds(0.01 * f64::from(step));
            add(&mut unreported);
            let calm = reports.is_calm(now, Volume(unreported.counts.bytes), Bandwidth(guarantee_bps));
            let rarity = calm.then(|| Reports::rarity(pairs, Seconds(0.0)));
            if reports.due(now, &unreported, REPORT_BYTES, rarity, |_, _| false) {
                all.push(now.0);
                unreported = arrived(0.0);
            }
        }
        all
    }

    #[test]
    fn feedback_is_a_thousandth_of_fast_traffic() {
        let bps = 20e6;
        let count = times(1e6, 1, |unreported| unreported.counts.bytes += bps / 8.0 * 0.01).len();
        let share = (count as u64 * REPORT_BYTES) as f64 * 8.0 / (12.0 * bps);
        assert!((0.0008..=0.001).contains(&share), "{share}");
    }

    #[test]
    fn calm_pairs_of_a_host_with_many_pairs_are_reported_rarely() {
        let count = |pairs, bps: f64| times(1e6, pairs, |unreported| unreported.counts.bytes += bps / 8.0 * 0.01).len();
        assert_eq!([1, 16, 50, 100].map(|pairs| count(pairs, 0.8e6)), [29, 29, 10, 5]);
        // One that sends far more than its guarantee can fall, whatever the number of pairs.
        assert!(count(200, 3e6) >= 29);
        // The other host's promise counts, but for a part.
        assert!((Reports::rarity(1, Seconds(1.0)) - 2.25).abs() < 1e-9);
        assert!((Reports::rarity(1000, Seconds(100.0)) - SLOWEST).abs() < 1e-9);
    }

    #[test]
    fn reports_on_many_calm_pairs_cost_less_than_a_thousandth_of_their_link() {
        for pairs in [60, 100, 120] {
            let (link_bps, guarantee_bps) = (100e6, 90e6 / pairs as f64);
            let add = |unreported: &mut Unreported| unreported.counts.bytes += guarantee_bps / 8.0 * 0.01;
            let one_way = times(guarantee_bps, pairs, add).len() * pairs;
            let share = (2 * one_way as u64 * REPORT_BYTES) as f64 * 8.0 / (12.0 * link_bps);
            assert!(share < 0.0008, "{pairs}: {share}");
        }
    }

    #[test]
    fn many_pairs_are_looked_at_more_rarely() {
        let look_s = |pairs, usual_s| Reports::look(pairs, Seconds(usual_s)).0;
        for (pairs, usual_s, wanted_s) in [
            (1, 0.015, 0.015),
            (60, 0.015, 0.015),
            (80, 0.015, 0.02),
            (300, 0.015, 0.025),
            (300, 0.03, 0.03),
        ] {
            assert!((look_s(pairs, usual_s) - wanted_s).abs() < 1e-9, "{pairs}");
        }
    }

    #[test]
    fn losses_and_first_waits_are_reported_before_their_time() {
        let (mut lost, mut waited) = (arrived(1e3), arrived(1e3));
        lost.counts.lost_bytes = 1500.0;
        waited.counts.waited_bytes = 1e3;
        let due = |reports: &mut Reports, now_s: f64, unreported: &Unreported| {
            reports.due(Seconds(now_s), unreported, REPORT_BYTES, Some(1.0), |_, _| false)
        };
        let mut reports = Reports::starting(Seconds(1.0));
        assert!(!due(&mut reports, 1.014, &lost) && due(&mut reports, 1.016, &lost));
        assert!(!due(&mut reports, 1.03, &waited) && due(&mut reports, 1.05, &waited));
        // Further waits may wait.
        assert!(!due(&mut reports, 1.2, &waited) && due(&mut reports, 1.26, &waited));
        assert_eq!(reports.last(), Seconds(1.26));
    }

    #[test]
    fn offers_that_differ_are_reported_and_idle_hosts_are_not() {
        let idle = Unreported::default();
        let due = |now_s: f64, unreported: &Unreported, changed: f64| {
            let differs = |by: f64, _| changed > by;
            Reports::starting(Seconds(0.0)).due(Seconds(now_s), unreported, REPORT_BYTES, None, differs)
        };
        assert!(!due(100.0, &idle, 0.0));
        assert!(due(0.001, &Unreported { begins: true, ..idle }, 0.0));
        let active = arrived(0.0);
        assert!(!due(0.2, &active, 0.1) && due(0.26, &active, 0.1));
        assert!(!due(0.04, &active, 0.4) && due(0.06, &active, 0.4));
    }
}
