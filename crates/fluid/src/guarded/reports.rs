//! When agents report on a pair, as real ones do.

use gavotte_limiter::Counts;

/// Agents report after this many bytes, so that reports stay at a thousandth of the traffic.
const WORTH_BYTES: f64 = 113e3;
/// Shortest time between two reports, and the same after losses.
const LEAST_S: f64 = 0.03;
const LEAST_LOSS_S: f64 = 0.015;
/// Shortest time between two reports of marks and waits for pairs that carry little.
const MARKS_S: f64 = 0.2;
/// Longest time between two reports.
const BEAT_S: f64 = 0.4;
/// The same for a pair that sends at most this many times its guarantee and a burst.
const CALM: f64 = 1.25;
const CALM_BURST_BYTES: f64 = 24e3;
/// Calm pairs of a host with many pairs are reported more rarely: this time between two reports for each pair, and at
/// most this many times the usual time.
const BEAT_PAIR_S: f64 = 0.008;
const SLOWEST: f64 = 7.5;
const WORTH_MOST: f64 = 2.5;

/// How many times rarer than usual the reports on a calm pair are, if one of its hosts has this many active pairs.
pub(crate) fn slow(pairs: u32) -> f64 {
    (BEAT_PAIR_S * f64::from(pairs) / BEAT_S).clamp(1.0, SLOWEST)
}

/// The reports of one agent on one pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reports {
    /// When the last one left, and after which time the next one leaves at the latest.
    pub(crate) at_s: f64,
    promised_s: f64,
    waits: bool,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            at_s: f64::NEG_INFINITY,
            promised_s: BEAT_S,
            waits: false,
        }
    }
}

impl Reports {
    /// The reports on a pair that starts now.
    pub(crate) fn starting(now_s: f64) -> Self {
        Self {
            at_s: now_s,
            ..Self::default()
        }
    }

    /// Whether these counts of a pair with this guarantee are reported now; if so, it is recorded. Agents report `slow`
    /// times more rarely on pairs that send little more than is guaranteed.
    pub(crate) fn due(&mut self, now_s: f64, counts: &Counts, guarantee_bps: f64, slow: f64) -> bool {
        let since_s = now_s - self.at_s;
        let calm = counts.bytes <= CALM * guarantee_bps / 8.0 * since_s + CALM_BURST_BYTES;
        let slow = if calm { slow } else { 1.0 };
        let signs = counts.marked_bytes + counts.waited_bytes > 0.0;
        let due = counts.lost_bytes > 0.0 && since_s >= LEAST_LOSS_S * slow.powi(3)
            || counts.bytes >= WORTH_BYTES * slow.min(WORTH_MOST) && since_s >= LEAST_S
            || counts.waited_bytes > 0.0 && !self.waits && since_s >= LEAST_S * slow
            || signs && since_s >= MARKS_S * slow * slow
            || !calm && since_s >= BEAT_S
            || since_s >= self.promised_s;
        if due {
            *self = Self {
                at_s: now_s,
                promised_s: BEAT_S * slow,
                waits: counts.waited_bytes > 0.0,
            };
        }
        due
    }
}
