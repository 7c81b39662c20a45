//! One other host, and the two pairs between it and the agent's own.

use gavotte_limiter::{Allocator, Counts, Feedback, Held, Offer};
use gavotte_shaper::{Received, Sent};

use crate::contract::agents::GuardedPair;
use crate::guarantee::talk::Tally;

/// Width of the windows in which a guarantee is met or not.
const WINDOW_S: f64 = 0.2;
/// A window that carries this share of the guarantee has met it.
const MET: f64 = 0.95;
/// Packets that make a report worth while.
const WORTH_TELLING: u64 = 8;
/// Fewer are told after so long.
const TELL_S: f64 = 0.1;
/// Whoever is active says something this often.
const BEAT_S: f64 = 0.25;
/// An offer is told anew when it differs by more.
const OTHER_OFFER: f64 = 0.02;

/// What is sent to the other host.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// What decides the limit; `None` while the pair is idle.
    pub(super) allocator: Option<Allocator>,
    pub(super) offer: Option<Offer>,
    pub(super) guarantee_bps: f64,
    seen: Sent,
    /// At the last report of the receiver.
    at_report: Sent,
    report_s: f64,
    tally: Option<Tally>,
    window: Window,
    marks: u64,
    lost: u64,
}

/// One stretch of time in which the guarantee is met or not.
#[derive(Debug, Default)]
struct Window {
    begin_s: f64,
    bytes: u64,
    /// Losses, marks, or more offered than could pass.
    trouble: bool,
    rate_bps: f64,
    count: u64,
    unmet: u64,
}

impl Outgoing {
    /// Bytes that have gone into the pair's class since the last call, and whether anything was to go.
    pub(super) fn count(&mut self, now: Sent) -> (u64, bool) {
        let bytes = now.bytes.saturating_sub(self.seen.bytes);
        let refused = now.dropped > self.seen.dropped;
        self.window.trouble |= refused;
        self.seen = now;
        (bytes, bytes > 0 || refused)
    }

    /// Takes what the receiver says; gives what the allocator should know, if it is news.
    pub(super) fn report(&mut self, now_s: f64, tally: Tally) -> Option<Feedback> {
        let before = self.tally.replace(tally);
        let (sent, since_s) = (std::mem::replace(&mut self.at_report, self.seen), now_s - self.report_s);
        self.report_s = now_s;
        // The receiver began anew, or has not said anything before.
        let before = before.filter(|before| before.bytes <= tally.bytes && before.lost_bytes <= tally.lost_bytes)?;
        let bytes = tally.bytes - before.bytes;
        let lost = tally.lost_bytes - before.lost_bytes;
        let marked = tally.marked_bytes.saturating_sub(before.marked_bytes);
        self.lost += tally.lost().saturating_sub(before.lost());
        self.marks += tally.marked().saturating_sub(before.marked());
        self.window.bytes += bytes;
        self.window.trouble |= lost > 0 || marked > 0;
        if since_s <= 0.0 {
            return None;
        }
        let own_bps = 8.0 * self.seen.bytes.saturating_sub(sent.bytes) as f64 / since_s;
        // What had to be dropped could have been sent.
        let full = self.seen.dropped > sent.dropped;
        let limit_bps = self.allocator.as_ref().map_or(0.0, |own| own.limit_bps(now_s));
        Some(Feedback {
            rate_bps: if full { own_bps.max(limit_bps) } else { own_bps },
            lost_bytes: lost as f64,
            marked_bytes: marked as f64,
            bytes: bytes as f64,
        })
    }

    /// Closes a window when it is over.
    pub(super) fn judge(&mut self, now_s: f64) {
        let window = &mut self.window;
        let elapsed_s = now_s - window.begin_s;
        if elapsed_s < WINDOW_S {
            return;
        }
        window.rate_bps = 8.0 * window.bytes as f64 / elapsed_s;
        if self.allocator.is_some() && (window.bytes > 0 || window.trouble) && elapsed_s < 2.0 * WINDOW_S {
            window.count += 1;
            window.unmet += u64::from(window.trouble && window.rate_bps < MET * self.guarantee_bps);
        }
        (window.begin_s, window.bytes, window.trouble) = (now_s, 0, false);
    }

    /// Whether there is anything to tell of it.
    pub(super) fn was_active(&self) -> bool {
        self.window.count > 0 || self.allocator.is_some()
    }

    /// How it stands.
    pub(super) fn status(&self, now_s: f64, limit_bps: f64) -> GuardedPair {
        let why = match self.allocator.as_ref().map(|own| own.held(now_s)) {
            None => "idle",
            Some(Held::Growing) => "grows",
            Some(Held::Unused) => "uses less than it may",
            Some(Held::Lost) => "packets were lost",
            Some(Held::Marked) => "packets were marked",
            Some(Held::Holding) => "waits after congestion",
            Some(Held::Ceiling) => "has the most it may",
            Some(Held::Silent) => "its receiver's agent is silent: static guarantee",
        };
        GuardedPair {
            guarantee_bps: self.guarantee_bps,
            limit_bps,
            rate_bps: self.window.rate_bps,
            marks: self.marks,
            lost: self.lost,
            windows: self.window.count,
            unmet: self.window.unmet,
            why: why.into(),
            ..GuardedPair::default()
        }
    }
}

/// What comes from the other host.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) offer: Option<Offer>,
    pub(super) guarantee_bps: f64,
    seen: Received,
    /// Gaps that have been charged; a gap counts when it is still there at the next look, since packets overtake.
    charged: u64,
    gaps_before: u64,
    lost_packets: u64,
    marked_packets: u64,
    tally: Tally,
    charged_bytes: f64,
    untold: u64,
}

impl Incoming {
    /// What came since the last call.
    pub(super) fn count(&mut self, now: Received, marks: bool) -> Counts {
        let packets = now.packets.saturating_sub(self.seen.packets);
        let bytes = now.bytes.saturating_sub(self.seen.bytes);
        let marked = now.ce + now.would_mark - self.seen.ce - self.seen.would_mark;
        let sure = now.gaps.min(self.gaps_before);
        let lost = sure.saturating_sub(self.charged);
        self.charged = self.charged.max(sure);
        self.gaps_before = now.gaps;
        self.seen = now;
        let mean = if packets > 0 {
            bytes as f64 / packets as f64
        } else {
            1514.0
        };
        let marked = if marks { marked.min(packets.max(1)) } else { 0 };
        self.lost_packets += lost;
        self.marked_packets += marked;
        self.untold += packets + lost;
        Counts {
            bytes: bytes as f64,
            lost_bytes: lost as f64 * mean,
            marked_bytes: marked as f64 * mean,
        }
    }

    /// Adds what shall be told of it.
    pub(super) fn charge(&mut self, counts: &Counts) {
        self.charged_bytes += counts.lost_bytes;
        self.tally.bytes += counts.bytes as u64;
        self.tally.lost_bytes = self.charged_bytes as u64;
        self.tally.marked_bytes += counts.marked_bytes as u64;
        self.tally.packets = self.lost_packets << 32 | self.marked_packets & 0xffff_ffff;
    }

    /// Its numbers begin anew.
    pub(super) fn renumber(&mut self) {
        (self.charged, self.gaps_before) = (0, 0);
        self.seen.packets = 0;
        self.seen.gaps = 0;
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }
}

/// Another host.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    /// Of its last word.
    pub(super) number: u64,
    pub(super) heard_s: Option<f64>,
    pub(super) epoch: Option<u32>,
    told_s: f64,
    told: [Option<Offer>; 2],
}

impl Pair {
    /// Whether it is time to tell the other host something; if so, it counts as told.
    pub(super) fn is_due(&mut self, now_s: f64) -> bool {
        let offers = [self.out.offer, self.incoming.offer];
        let since_s = now_s - self.told_s;
        let active = offers.iter().any(Option::is_some);
        let news = offers
            .iter()
            .zip(&self.told)
            .any(|(now, before)| differs(*now, *before));
        let due = self.incoming.untold >= WORTH_TELLING
            || (self.incoming.untold > 0 && since_s >= TELL_S)
            || news
            || (active && since_s >= BEAT_S);
        if due {
            (self.told_s, self.told, self.incoming.untold) = (now_s, offers, 0);
        }
        due
    }
}

fn differs(now: Option<Offer>, before: Option<Offer>) -> bool {
    let far = |now: f64, before: f64| (now - before).abs() > OTHER_OFFER * before;
    match (now, before) {
        (Some(now), Some(before)) => far(now.share_bps, before.share_bps) || far(now.offer_bps, before.offer_bps),
        (now, before) => now.is_some() != before.is_some(),
    }
}
