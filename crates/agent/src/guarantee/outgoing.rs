//! The traffic that a host sends to another one: its limit, and whether its guarantee is met.

use gavotte_limiter::{Allocator, Feedback, Held, Offer};
use gavotte_net::Seconds;
use gavotte_shaper::Sent;

use crate::contract::agents::GuardedPair;
use crate::guarantee::duty::Duty;
use crate::guarantee::talk::{Tally, UNIT_BYTES};
use crate::guarantee::windows::Judged;

/// Shortest window in which a guarantee counts as met or unmet, in seconds.
const WINDOW_S: f64 = 0.2;
/// A window in which the pair reaches this share of its guarantee has met it.
const MET: f64 = 0.95;
/// After a pause of this length, a new window begins: a pair that had nothing to send had no guarantee to meet.
const PAUSE_S: f64 = 1.0;
/// A pair that has sent nothing for this long may have ended, although its limiter was full before.
const ENDED_S: f64 = 0.06;
/// A limiter that is used to this share holds back more than passes.
const FULL_USE: f64 = 0.9;
/// The usual time between two reports, at most. A window is judged if it is not much longer than two such times.
const REPORT_S: f64 = 0.4;
/// A pair that has not sent for this long is idle.
const IDLE_S: f64 = 0.3;

/// Traffic that this host sends to the other host.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Computes the pair's limit; `None` while the pair is idle.
    pub(super) allocator: Option<Allocator>,
    pub(super) offer: Option<Offer>,
    pub(super) guarantee_bps: f64,
    /// When the pair last had bytes to send; `None` if its class has been removed since.
    pub(super) active_s: Option<f64>,
    seen: Sent,
    seen_s: f64,
    pub(super) untold_bytes: u64,
    /// The counters at the receiver's last report.
    at_report: Sent,
    report_s: f64,
    tally: Option<Tally>,
    /// The longest time between two reports, as the receiver announced it.
    pub(super) interval_s: f64,
    /// When the receiver sent its last report, by its own clock.
    told_us: Option<u32>,
    window: Window,
    /// What has been judged in the last minute.
    judged: Judged,
    marks: u64,
    lost: u64,
    /// Whether the receiver cannot distinguish this host's packets from those of another host.
    mixed: bool,
}

/// A time window in which the guarantee is met or unmet.
#[derive(Debug, Default)]
struct Window {
    begin_s: f64,
    bytes: u64,
    sent_bytes: u64,
    /// When the pair last had bytes to send.
    sent_s: f64,
    /// Whether packets were lost, marked or delayed, or refused by a full queue.
    trouble: bool,
    refused: bool,
    rate_bps: f64,
    /// How many windows the last one stands for.
    weight: u32,
    /// Whether the window is over, and whether bytes waited in sockets has to be known to judge it.
    open_question: bool,
}

impl Outgoing {
    /// Returns the bytes that have entered the pair's class since the last call, and whether the pair was active.
    pub(super) fn count(&mut self, now_s: f64, now: Sent) -> (u64, bool) {
        let bytes = now.bytes.saturating_sub(self.seen.bytes);
        let refused = now.dropped > self.seen.dropped;
        if bytes > 0 && now_s - self.window.sent_s > PAUSE_S {
            self.window = Window {
                begin_s: self.seen_s,
                ..Window::default()
            };
        }
        self.window.refused |= refused;
        self.window.sent_bytes += bytes;
        if bytes > 0 || refused {
            self.window.sent_s = now_s;
        }
        self.untold_bytes += bytes;
        (self.seen, self.seen_s) = (now, now_s);
        (bytes, bytes > 0 || refused)
    }

    /// Records the receiver's report, which left at `told_us` by its clock. Returns the feedback for the allocator, if the
    /// report has any news.
    pub(super) fn report(&mut self, now_s: f64, told_us: u32, tally: Tally) -> Option<Feedback> {
        // Use the time between counts, not the time between reports: packets arrive in bursts.
        let since_s = self.seen_s - self.report_s;
        if since_s <= 0.0 {
            // The next report covers this one too.
            return None;
        }
        let before = self.tally.replace(tally);
        let sent = std::mem::replace(&mut self.at_report, self.seen);
        self.report_s = self.seen_s;
        let told_before_us = self.told_us.replace(told_us);
        let before = before?;
        let since = |now: u32, before: u32| {
            let units = now.wrapping_sub(before);
            // A larger difference means that the receiver restarted.
            (units < 1 << 31).then(|| f64::from(units) * UNIT_BYTES)
        };
        let bytes = since(tally.units, before.units)?;
        let lost = since(tally.lost_units, before.lost_units)?;
        let marked = since(tally.marked_units, before.marked_units)?;
        let waited = since(tally.waited_units, before.waited_units)?;
        self.lost += u64::from(tally.lost.wrapping_sub(before.lost));
        self.marks += u64::from(tally.marked.wrapping_sub(before.marked));
        self.window.bytes += bytes as u64;
        self.window.trouble |= lost > 0.0 || marked > 0.0 || waited > 0.0;
        self.judge(now_s);
        let own_bps = 8.0 * self.seen.bytes.saturating_sub(sent.bytes) as f64 / since_s;
        // Packets that the class dropped could have been sent.
        let full = self.seen.dropped > sent.dropped;
        let limit_bps = self.allocator.as_ref().map_or(0.0, |own| own.limit_bps(Seconds(now_s)));
        Some(Feedback {
            rate_bps: if full { own_bps.max(limit_bps) } else { own_bps },
            lost_bytes: lost,
            marked_bytes: marked,
            waited_bytes: waited,
            bytes,
            arrived_bps: told_before_us.map_or(0.0, |before_us| {
                let arriving_s = f64::from(told_us.wrapping_sub(before_us)) * 1e-6;
                // A clock that was set back gives a time that is much too long.
                if arriving_s > 0.0 && arriving_s < 60.0 {
                    8.0 * bytes / arriving_s
                } else {
                    0.0
                }
            }),
        })
    }

    /// Forgets the receiver's counts after the receiver restarted.
    pub(super) fn forget(&mut self) {
        (self.tally, self.told_us) = (None, None);
    }

    /// Records whether the receiver knows which of the packets that it receives are this host's.
    pub(super) fn set_distinguished(&mut self, known: bool) {
        self.mixed = !known;
        if self.mixed {
            self.forget();
        }
    }

    /// The pair's current limit. The allocator learns a new guarantee only with the next report, so its limit may be too
    /// low.
    pub(super) fn limit_bps(&self, duty: &Duty, allocator: &Allocator, now_s: f64) -> f64 {
        let guarantee_bps = self.guarantee_bps;
        if duty.fixed || self.mixed || allocator.held(Seconds(now_s)) == Held::Silent {
            guarantee_bps
        } else if duty.parameters.allocation.guarantees {
            allocator.limit_bps(Seconds(now_s)).max(guarantee_bps)
        } else {
            allocator.limit_bps(Seconds(now_s))
        }
    }

    /// Whether the pair has recently had bytes to send.
    pub(super) fn is_active(&self, now_s: f64) -> bool {
        self.active_s.is_some_and(|active_s| now_s - active_s < IDLE_S)
    }

    /// Closes a window that is over. It is called for each report, since only reports show what arrived.
    fn judge(&mut self, now_s: f64) {
        let limit_bps = self.allocator.as_ref().map(|own| own.limit_bps(Seconds(now_s)));
        let window = &mut self.window;
        let elapsed_s = now_s - window.begin_s;
        if elapsed_s < WINDOW_S {
            return;
        }
        window.rate_bps = 8.0 * window.bytes as f64 / elapsed_s;
        let sent_bps = 8.0 * window.sent_bytes as f64 / elapsed_s;
        window.open_question = false;
        // A rare report covers several windows.
        window.weight = (elapsed_s / WINDOW_S) as u32;
        let weight = window.weight;
        if let Some(limit_bps) = limit_bps
            && (window.bytes > 0 || window.trouble || window.refused)
            && elapsed_s < WINDOW_S + 2.0 * self.interval_s.max(REPORT_S)
        {
            let least_bps = MET * self.guarantee_bps;
            if window.rate_bps >= least_bps {
                self.judged.note(now_s, weight, true);
            } else if now_s - window.sent_s < ENDED_S
                && (window.refused || sent_bps >= FULL_USE * limit_bps.max(self.guarantee_bps))
            {
                self.judged.note(now_s, weight, false);
            } else {
                window.open_question = true;
            }
        }
        (window.begin_s, window.bytes, window.sent_bytes) = (now_s, 0, 0);
        (window.trouble, window.refused) = (false, false);
    }

    /// Whether the last window can only be judged by the bytes that wait in sockets.
    pub(super) fn asks(&self) -> bool {
        self.window.open_question
    }

    /// Judges the last window. Less than the guarantee has arrived, so the guarantee was met only if nothing waited in
    /// the pair's sockets.
    pub(super) fn answer(&mut self, now_s: f64, waits: bool) {
        if std::mem::take(&mut self.window.open_question) {
            self.judged.note(now_s, self.window.weight, !waits);
        }
    }

    /// Leaves the last window unjudged.
    pub(super) fn skip(&mut self) {
        self.window.open_question = false;
    }

    /// Whether there is anything to report about the pair.
    pub(super) fn was_active(&self) -> bool {
        !self.judged.is_empty() || self.allocator.is_some()
    }

    /// The pair's state for a controller.
    pub(super) fn status(&self, now_s: f64, limit_bps: f64) -> GuardedPair {
        let active = self.is_active(now_s);
        let why = match self
            .allocator
            .as_ref()
            .filter(|_| active)
            .map(|own| own.held(Seconds(now_s)))
        {
            None => "idle",
            Some(_) if self.mixed => "its receiver cannot distinguish it from another host: static guarantee",
            Some(Held::Growing) => "grows",
            Some(Held::Unused) => "uses less than its limit",
            Some(Held::Lost) => "packets were lost",
            Some(Held::Marked) => "packets were marked",
            Some(Held::Waited) => "packets waited too long",
            Some(Held::Holding) => "waits after congestion",
            Some(Held::Ceiling) => "has reached its maximum",
            Some(Held::Silent) => "its receiver's agent is silent: static guarantee",
        };
        let (windows, unmet) = self.judged.sums(now_s);
        GuardedPair {
            guarantee_bps: self.guarantee_bps,
            limit_bps,
            rate_bps: if active { self.window.rate_bps } else { 0.0 },
            marks: self.marks,
            lost: self.lost,
            windows,
            unmet,
            why: why.into(),
            ..GuardedPair::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair with a guarantee of 45 Mbit/s that has sent and received at these rates for a window.
    fn judged(sent_bps: f64, arrived_bps: f64, dropped: u64) -> Outgoing {
        let rules = gavotte_limiter::Allocation::default();
        let speed = gavotte_net::Bandwidth;
        let mut out = Outgoing {
            allocator: Some(Allocator::new(
                Seconds(10.0),
                speed(45e6),
                speed(45e6),
                speed(1e9),
                &rules,
            )),
            guarantee_bps: 45e6,
            ..Outgoing::default()
        };
        let tally = |at_s: f64| Tally {
            units: (arrived_bps * at_s / 8.0 / UNIT_BYTES) as u32,
            ..Tally::default()
        };
        for step in 0..10_u32 {
            let at_s = 0.05 * f64::from(step);
            let sent = Sent {
                packets: 1,
                bytes: (sent_bps * at_s / 8.0) as u64,
                dropped: u64::from(step) * dropped,
            };
            out.count(10.0 + at_s, sent);
            out.report(10.0 + at_s, (at_s * 1e6) as u32, tally(at_s));
        }
        out
    }

    #[test]
    fn a_pause_is_part_of_no_window() {
        let mut out = judged(45e6, 22e6, 0);
        let (before, _) = out.judged.sums(10.5);
        // Two and a half seconds later, it sends again; its receiver has reported nothing meanwhile.
        let mut sent = out.seen;
        out.count(12.95, sent);
        for step in 0..2_u32 {
            sent.bytes += 300_000;
            out.count(13.0 + 0.05 * f64::from(step), sent);
        }
        let tally = Tally {
            units: (2e6 / UNIT_BYTES) as u32,
            ..Tally::default()
        };
        out.report(13.1, 3_000_000, tally);
        assert_eq!(out.judged.sums(13.2).0, before);
    }

    #[test]
    fn a_rare_report_stands_for_several_windows() {
        let mut out = judged(45e6, 44e6, 0);
        out.interval_s = 2.0;
        let (before, _) = out.judged.sums(10.5);
        let mut sent = out.seen;
        for step in 1..=20_u32 {
            sent.bytes += 562_500;
            out.count(10.45 + 0.1 * f64::from(step), sent);
        }
        let tally = Tally {
            units: ((44e6 * 0.45 + 40e6 * 2.0) / 8.0 / UNIT_BYTES) as u32,
            ..Tally::default()
        };
        out.report(12.45, 2_000_000, tally);
        let (windows, unmet) = out.judged.sums(12.5);
        assert!((9..=10).contains(&(windows - before)), "{windows} {before}");
        assert_eq!(unmet, windows - before);
    }

    #[test]
    fn a_window_is_unmet_when_bytes_wait_and_less_than_the_guarantee_arrives() {
        let unmet = |out: &Outgoing| out.judged.sums(10.5).1 > 0;
        // Enough arrives.
        assert!(!unmet(&judged(60e6, 44e6, 0)));
        // The limiter's queue holds back what exceeds the guarantee, or overflows.
        assert!(unmet(&judged(45e6, 22e6, 0)));
        assert!(unmet(&judged(22e6, 22e6, 3)));
        // The limiter is not full: it depends on the sockets.
        for waits in [true, false] {
            let mut out = judged(22e6, 22e6, 0);
            assert!(out.asks() && !unmet(&out));
            out.answer(10.5, waits);
            assert_eq!((unmet(&out), out.asks()), (waits, false));
        }
    }
}
