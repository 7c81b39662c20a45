//! One other host, and the two pairs between it and this agent's host.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use gavotte_limiter::{Allocator, Counts, Delay, Feedback, Held, Offer};
use gavotte_net::Seconds;
use gavotte_shaper::{Received, Sent};

use crate::contract::agents::GuardedPair;
use crate::guarantee::duty::{Duty, Hose};
use crate::guarantee::talk::{BYTES, Numbers, Tally, UNIT_BYTES};

/// Shortest window in which a guarantee counts as met or unmet, in seconds.
const WINDOW_S: f64 = 0.2;
/// A window in which the pair reaches this share of its guarantee has met it.
const MET: f64 = 0.95;
/// Windows of this time are reported.
const REMEMBERED_S: f64 = 60.0;
/// A pair that has sent nothing for this long may have ended, although its limiter was full before.
const ENDED_S: f64 = 0.06;
/// A limiter that is used to this share holds back more than passes.
const FULL_USE: f64 = 0.9;
/// Size that a lost packet is assumed to have had before any packet has arrived: full, at MTU 1500.
const FULL_PACKET_BYTES: f64 = 1514.0;
/// A report is sent after this many times its own size has arrived, so that feedback stays at a thousandth of the
/// traffic.
const WORTH_TELLING: u64 = 1000;
/// Length of Ethernet's header and of UDP's.
const ETHERNET_UDP_BYTES: u64 = 14 + 8;
/// Shortest time between two reports; limits change every 15 ms at most.
const TELL_S: f64 = 0.03;
/// Shortest time between two reports if packets were lost.
const TELL_LOSS_S: f64 = 0.015;
/// Shortest time between two reports of marks for pairs that carry little.
const TELL_MARKS_S: f64 = 0.2;
/// Longest time between two reports of an active host: half the time after which the other host counts it as lost.
const BEAT_S: f64 = 0.4;
/// An offer is sent again if it differs by more than this share, and sooner if it differs by much more.
const OTHER_OFFER: f64 = 0.05;
const TELL_OFFER_S: f64 = 0.25;
const QUITE_OTHER_OFFER: f64 = 0.3;
const TELL_QUITE_S: f64 = 0.05;
/// Time after the last mark in which waiting does not count as congestion.
const MARKS_S: f64 = 2.0;
/// A pair that has not sent for this long is idle.
const IDLE_S: f64 = 0.3;
/// A longer round trip is not believed.
const MOST_ROUND_TRIP_US: u32 = 2_000_000;
/// A NAT lets datagrams in for this long after a host behind it has sent one.
const OPEN_S: f64 = 10.0;

/// Bytes that the network adds to a datagram for this address.
pub(super) fn around_bytes(address: IpAddr) -> u64 {
    ETHERNET_UDP_BYTES + if address.is_ipv4() { 20 } else { 40 }
}

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
    untold_bytes: u64,
    /// The counters at the receiver's last report.
    at_report: Sent,
    report_s: f64,
    tally: Option<Tally>,
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
    /// Whether the window is over, and whether bytes waited in sockets has to be known to judge it.
    open_question: bool,
}

/// Windows of the last minute, by second.
#[derive(Debug, Default)]
struct Judged(VecDeque<(f64, u32, u32)>);

impl Judged {
    fn note(&mut self, now_s: f64, met: bool) {
        let second = now_s.floor();
        match self.0.back_mut() {
            Some((at, count, unmet)) if (*at - second).abs() < 0.5 => {
                *count += 1;
                *unmet += u32::from(!met);
            }
            _ => self.0.push_back((second, 1, u32::from(!met))),
        }
        while self.0.front().is_some_and(|(at, ..)| now_s - at > REMEMBERED_S) {
            self.0.pop_front();
        }
    }

    /// The number of windows, and of those that were unmet.
    fn sums(&self, now_s: f64) -> (u64, u64) {
        let recent = self.0.iter().filter(|(at, ..)| now_s - at <= REMEMBERED_S);
        recent.fold((0, 0), |(windows, all_unmet), (_, count, unmet)| {
            (windows + u64::from(*count), all_unmet + u64::from(*unmet))
        })
    }
}

impl Outgoing {
    /// Returns the bytes that have entered the pair's class since the last call, and whether the pair was active.
    pub(super) fn count(&mut self, now_s: f64, now: Sent) -> (u64, bool) {
        let bytes = now.bytes.saturating_sub(self.seen.bytes);
        let refused = now.dropped > self.seen.dropped;
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
        if let Some(limit_bps) = limit_bps
            && (window.bytes > 0 || window.trouble || window.refused)
            && elapsed_s < WINDOW_S + 2.0 * BEAT_S
        {
            let least_bps = MET * self.guarantee_bps;
            if window.rate_bps >= least_bps {
                self.judged.note(now_s, true);
            } else if now_s - window.sent_s < ENDED_S
                && (window.refused || sent_bps >= FULL_USE * limit_bps.max(self.guarantee_bps))
            {
                self.judged.note(now_s, false);
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
            self.judged.note(now_s, !waits);
        }
    }

    /// Leaves the last window unjudged.
    pub(super) fn skip(&mut self) {
        self.window.open_question = false;
    }

    /// Whether there is anything to report about the pair.
    pub(super) fn was_active(&self) -> bool {
        self.judged.0.back().is_some() || self.allocator.is_some()
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

/// Traffic that this host receives from the other host.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) offer: Option<Offer>,
    pub(super) guarantee_bps: f64,
    seen: Received,
    /// Gaps that were charged. A gap counts only if it still exists at the next count, since packets may be reordered.
    charged: u64,
    gaps_before: u64,
    lost_packets: u64,
    marked_packets: u64,
    /// How long packets wait on their way, and the transit time of the first datagram.
    delay: Delay,
    first_us: Option<u32>,
    /// When packets were marked last.
    marks_s: Option<f64>,
    /// Mean size of the packets that came last.
    packet_bytes: Option<f64>,
    /// Counts since the start, in bytes.
    total: Counts,
    untold: Counts,
}

impl Incoming {
    /// Records a datagram's transit time by the two hosts' clocks, which differ.
    pub(super) fn time(&mut self, now_s: f64, took_us: u32) {
        // The clocks may drift apart for as long as both agents run, so use the full range.
        let more_us = took_us
            .wrapping_sub(*self.first_us.get_or_insert(took_us))
            .cast_signed();
        self.delay.note(Seconds(now_s), Seconds(f64::from(more_us) * 1e-6));
    }

    /// The shortest transit time of recent datagrams by the two hosts' clocks; 0 = unknown.
    fn transit_us(&self) -> u32 {
        let more_us = |least_s: f64| (least_s * 1e6).round() as i64 as u32;
        let least = self.first_us.zip(self.delay.least_s());
        least.map_or(0, |(first_us, least_s)| first_us.wrapping_add(more_us(least_s)).max(1))
    }

    /// The round trip without queues, if both hosts know how long the other's datagrams take at least.
    pub(super) fn round_trip(&self, tally: &Tally) -> Option<Seconds> {
        let (own_us, other_us) = (self.transit_us(), tally.transit_us);
        let sum_us = own_us.wrapping_add(other_us);
        // A clock that was set makes the sum senseless.
        (own_us != 0 && other_us != 0 && sum_us <= MOST_ROUND_TRIP_US).then(|| Seconds(f64::from(sum_us) * 1e-6))
    }

    /// Counts what arrived since the last call. ECN marks count if `marks` is set. Bytes that waited longer than `most_s`
    /// count as delayed. Unless `waits` is set, they do so only while no packets are marked.
    pub(super) fn count(&mut self, now_s: f64, now: Received, marks: bool, waits: bool, most_s: f64) -> Counts {
        let packets = now.packets.saturating_sub(self.seen.packets);
        let bytes = now.bytes.saturating_sub(self.seen.bytes);
        let ce = if marks { now.ce - self.seen.ce } else { 0 };
        let marked = (ce + now.would_mark - self.seen.would_mark).min(packets.max(1));
        let sure = now.gaps.min(self.gaps_before);
        let lost = sure.saturating_sub(self.charged);
        self.charged = self.charged.max(sure);
        self.gaps_before = now.gaps;
        self.seen = now;
        if packets > 0 {
            self.packet_bytes = Some(bytes as f64 / packets as f64);
        }
        let mean = self.packet_bytes.unwrap_or(FULL_PACKET_BYTES);
        self.lost_packets += lost;
        self.marked_packets += marked;
        if marked > 0 {
            self.marks_s = Some(now_s);
        }
        let waited = if !waits && self.marks_s.is_some_and(|marks_s| now_s - marks_s <= MARKS_S) {
            0.0
        } else {
            self.delay.marked(Seconds(now_s), Seconds(most_s))
        };
        Counts {
            bytes: bytes as f64,
            lost_bytes: lost as f64 * mean,
            marked_bytes: marked as f64 * mean,
            waited_bytes: waited * bytes as f64,
        }
    }

    /// Adds counts to those that will be reported.
    pub(super) fn charge(&mut self, counts: &Counts) {
        for sum in [&mut self.total, &mut self.untold] {
            sum.bytes += counts.bytes;
            sum.lost_bytes += counts.lost_bytes;
            sum.marked_bytes += counts.marked_bytes;
            sum.waited_bytes += counts.waited_bytes;
        }
    }

    /// Restarts packet numbers after the sender restarted.
    pub(super) fn renumber(&mut self) {
        (self.delay, self.first_us) = (Delay::default(), None);
        (self.charged, self.gaps_before) = (0, 0);
        self.seen.packets = 0;
        self.seen.gaps = 0;
    }

    pub(super) fn tally(&self) -> Tally {
        let units = |bytes: f64| (bytes / UNIT_BYTES) as u64 as u32;
        Tally {
            units: units(self.total.bytes),
            lost_units: units(self.total.lost_bytes),
            marked_units: units(self.total.marked_bytes),
            waited_units: units(self.total.waited_bytes),
            lost: self.lost_packets as u32,
            marked: self.marked_packets as u32,
            transit_us: self.transit_us(),
        }
    }
}

/// Another host.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) out: Outgoing,
    pub(super) incoming: Incoming,
    /// The numbers of the host's datagrams.
    pub(super) numbers: Numbers,
    pub(super) heard_s: Option<f64>,
    /// The other host's offers for the traffic to it and from it.
    pub(super) heard: [Option<Offer>; 2],
    reported_s: f64,
    reported: [Option<Offer>; 2],
    /// Whether the last report had bytes that waited too long.
    reported_waits: bool,
    /// Where its datagrams come from, once one has arrived.
    origin: Option<SocketAddr>,
    /// Where its last datagram came from.
    last_origin: Option<IpAddr>,
    /// Hosts whose packets arrive from one of its addresses, too.
    pub(super) mixed: Vec<IpAddr>,
}

impl Peer {
    /// Records where an authenticated datagram came from. Returns whether the host's addresses change. An address that
    /// differs from the one before counts from the second datagram in a row, so that a single datagram that was delayed
    /// or diverted changes nothing.
    pub(super) fn note_origin(&mut self, hose: &Hose, from: SocketAddr) -> bool {
        let again = self.last_origin.replace(from.ip()) == Some(from.ip());
        let known = self.origin.map(|origin| origin.ip());
        if known.is_none() || known == Some(from.ip()) || again {
            self.origin = Some(from);
            return known.unwrap_or(hose.place.ip()) != from.ip();
        }
        false
    }

    /// Forgets where datagrams came from, since the host is now reached at another place.
    pub(super) fn forget_origin(&mut self) {
        (self.origin, self.last_origin) = (None, None);
    }

    /// The addresses that the host's packets come from or go to.
    pub(super) fn addresses(&self, hose: &Hose) -> Vec<IpAddr> {
        let mut all = vec![hose.place.ip()];
        all.extend(
            self.origin
                .map(|origin| origin.ip())
                .filter(|ip| *ip != hose.place.ip()),
        );
        all
    }

    /// Where to send the host's datagrams: through the opening that its own datagrams have made in a NAT, if they come
    /// from another place than the known one.
    pub(super) fn place(&self, hose: &Hose, now_s: f64) -> SocketAddr {
        let recent = self.heard_s.is_some_and(|heard_s| now_s - heard_s <= OPEN_S);
        self.origin.filter(|_| recent).unwrap_or(hose.place)
    }

    /// Whether a report to the other host is due; if so, it is recorded as sent. `around_bytes` are the headers of its
    /// datagram. With `timed`, a sending source sends datagrams as often as reports arrive: their transit times reveal
    /// queues.
    pub(super) fn is_due(&mut self, now_s: f64, around_bytes: u64, timed: bool) -> bool {
        let offers = [self.out.offer, self.incoming.offer];
        let since_s = now_s - self.reported_s;
        let active = offers.iter().any(Option::is_some);
        let news = |by: f64| {
            let mut both = offers.iter().zip(&self.reported).zip(&self.heard);
            both.any(|((now, before), heard)| differs(*now, *before, *heard, by))
        };
        let Counts {
            bytes,
            lost_bytes,
            marked_bytes,
            waited_bytes,
        } = self.incoming.untold;
        let sent = if timed { self.out.untold_bytes as f64 } else { 0.0 };
        let worth = bytes.max(sent) >= (WORTH_TELLING * (BYTES as u64 + around_bytes)) as f64;
        let begins = offers
            .iter()
            .zip(&self.reported)
            .any(|(now, before)| now.is_some() != before.is_some());
        let due = begins
            || (lost_bytes > 0.0 && since_s >= TELL_LOSS_S)
            || (worth && since_s >= TELL_S)
            || (waited_bytes > 0.0 && !self.reported_waits && since_s >= TELL_S)
            || (marked_bytes + waited_bytes > 0.0 && since_s >= TELL_MARKS_S)
            || (since_s >= TELL_OFFER_S && news(OTHER_OFFER))
            || (since_s >= TELL_QUITE_S && news(QUITE_OTHER_OFFER))
            || ((active || bytes > 0.0) && since_s >= BEAT_S);
        if due {
            (self.reported_s, self.reported, self.incoming.untold) = (now_s, offers, Counts::default());
            self.reported_waits = waited_bytes > 0.0;
            self.out.untold_bytes = 0;
        }
        due
    }
}

/// Whether two offers differ by more than a share. Both are first capped a little above the other end's own offer,
/// since the lower of the two offers counts.
fn differs(now: Option<Offer>, before: Option<Offer>, heard: Option<Offer>, by: f64) -> bool {
    let far = |of: fn(&Offer) -> f64, now: &Offer, before: &Offer| {
        let most = heard
            .as_ref()
            .map_or(f64::INFINITY, |heard| (1.0 + OTHER_OFFER) * of(heard));
        let (now, before) = (of(now).min(most), of(before).min(most));
        (now - before).abs() > by * before
    };
    match (now, before) {
        (Some(now), Some(before)) => {
            far(|offer| offer.share_bps, &now, &before) || far(|offer| offer.offer_bps, &now, &before)
        }
        (now, before) => now.is_some() != before.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guarantee::duty::PairKey;

    #[test]
    fn the_first_wait_is_reported_soon() {
        let mut peer = Peer::default();
        let waited = Counts {
            bytes: 3000.0,
            waited_bytes: 3000.0,
            ..Counts::default()
        };
        let mut due_at = Vec::new();
        for step in 1..=10_u32 {
            let now_s = 0.05 * f64::from(step);
            peer.incoming.charge(&waited);
            if peer.is_due(now_s, 42, true) {
                due_at.push(step);
            }
        }
        assert_eq!(due_at, [1, 5, 9]);
    }

    #[test]
    fn an_offer_above_the_other_ends_is_no_news() {
        let offer = |bps| {
            Some(Offer {
                share_bps: bps,
                offer_bps: bps,
            })
        };
        assert!(differs(offer(45e6), offer(1.2e6), None, OTHER_OFFER));
        assert!(!differs(offer(45e6), offer(1.2e6), offer(0.9e6), OTHER_OFFER));
        assert!(differs(offer(45e6), offer(1.2e6), offer(1.5e6), OTHER_OFFER));
        assert!(differs(offer(0.5e6), offer(1.2e6), offer(0.9e6), OTHER_OFFER));
        assert!(differs(offer(45e6), None, offer(0.9e6), OTHER_OFFER));
        assert!(!differs(offer(45e6), offer(44e6), None, OTHER_OFFER));
    }

    #[test]
    fn a_datagram_teaches_where_its_host_is() {
        let place = |text: &str| text.parse::<SocketAddr>().unwrap();
        let hose = Hose {
            name: "c".into(),
            address: [10, 0, 0, 3].into(),
            position: 2,
            place: place("192.0.2.7:7412"),
            further: Vec::new(),
            key: PairKey([0; 32]),
            egress_bps: None,
            ingress_bps: None,
            egress_limit_bps: None,
            ingress_limit_bps: None,
        };
        let mut peer = Peer::default();
        assert_eq!(
            (peer.addresses(&hose), peer.place(&hose, 0.0)),
            (vec![hose.place.ip()], hose.place)
        );
        // The first datagram counts at once, and opens the NAT for a while.
        assert!(peer.note_origin(&hose, place("192.0.2.8:999")));
        peer.heard_s = Some(1.0);
        assert_eq!(peer.addresses(&hose).len(), 2);
        assert_eq!(peer.place(&hose, 5.0), place("192.0.2.8:999"));
        assert_eq!(peer.place(&hose, 20.0), hose.place);
        // A single datagram from elsewhere changes nothing; two in a row do.
        assert!(!peer.note_origin(&hose, place("198.51.100.1:5")));
        assert!(!peer.note_origin(&hose, place("192.0.2.8:1000")));
        assert_eq!(peer.place(&hose, 5.0), place("192.0.2.8:1000"));
        assert!(!peer.note_origin(&hose, place("192.0.2.7:7412")));
        assert!(peer.note_origin(&hose, place("192.0.2.7:7412")));
        assert_eq!(peer.addresses(&hose), [hose.place.ip()]);
    }

    #[test]
    fn a_report_is_worth_its_own_headers() {
        let addresses: [IpAddr; 2] = [[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()];
        for (address, headers_bytes) in addresses.into_iter().zip([42, 62]) {
            assert_eq!(around_bytes(address), headers_bytes);
            let mut peer = Peer::default();
            let arrive = |bytes: u64| Counts {
                bytes: bytes as f64,
                ..Counts::default()
            };
            let worth_bytes = WORTH_TELLING * (BYTES as u64 + headers_bytes);
            peer.incoming.charge(&arrive(worth_bytes - 1));
            assert!(!peer.is_due(2.0 * TELL_S, around_bytes(address), false));
            peer.incoming.charge(&arrive(1));
            assert!(peer.is_due(2.0 * TELL_S, around_bytes(address), false));
        }
    }

    #[test]
    fn what_waits_long_counts_with_marks_or_without() {
        let received = |packets| Received {
            packets,
            bytes: 1500 * packets,
            ce: packets,
            ..Received::default()
        };
        let queue = || {
            let mut incoming = Incoming::default();
            for (place, queue_us) in [0, 20_000, 20_000].into_iter().enumerate() {
                incoming.time(0.1 * place as f64, 4_000_000_000_u32.wrapping_add(queue_us));
            }
            incoming
        };
        let bytes = |counts: Counts| [counts.marked_bytes, counts.waited_bytes].map(|bytes| bytes.round() as u64);
        // By mode: whether marks count, and whether waits count where packets are marked.
        assert_eq!(bytes(queue().count(0.2, received(10), true, true, 0.01)), [15_000; 2]);
        assert_eq!(bytes(queue().count(0.2, received(10), true, false, 0.01)), [15_000, 0]);
        assert_eq!(bytes(queue().count(0.2, received(10), false, true, 0.01)), [0, 15_000]);
        assert_eq!(bytes(queue().count(0.2, received(10), false, true, 0.0)), [0, 0]);
        // In mode `ecn`, they count again some time after the last mark.
        let mut incoming = queue();
        incoming.count(0.2, received(10), true, false, 0.01);
        for at_s in [2.2, 2.3] {
            incoming.time(at_s, 4_000_020_000_u32);
        }
        let unmarked = Received { ce: 10, ..received(20) };
        assert_eq!(bytes(incoming.count(2.3, unmarked, true, false, 0.01)), [0, 15_000]);
    }

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

    #[test]
    fn only_the_last_minute_counts() {
        let mut judged = Judged::default();
        for tenth in 0..1000 {
            judged.note(0.2 * f64::from(tenth), tenth >= 500);
        }
        let (windows, unmet) = judged.sums(199.8);
        assert!((299..=305).contains(&windows), "{windows}");
        assert_eq!(unmet, 0);
        assert_eq!(judged.sums(300.0), (0, 0));
    }

    #[test]
    fn both_transit_times_give_the_round_trip_whatever_the_clocks_say() {
        for ahead_us in [0_u32, 77, 3_000_000_000, u32::MAX] {
            let (mut near, mut far) = (Incoming::default(), Incoming::default());
            assert_eq!(near.round_trip(&far.tally()), None);
            for (at_s, queue_us) in [(0.0, 9_000), (0.1, 0), (0.2, 5_000)] {
                near.time(at_s, 60_000_u32.wrapping_add(queue_us).wrapping_add(ahead_us));
                assert_eq!(far.round_trip(&near.tally()).is_some(), at_s > 0.0);
                far.time(at_s, 90_000_u32.wrapping_add(queue_us).wrapping_sub(ahead_us));
            }
            let round_trips = [near.round_trip(&far.tally()), far.round_trip(&near.tally())];
            for Seconds(round_trip_s) in round_trips.map(Option::unwrap) {
                assert!((round_trip_s - 0.15).abs() < 3e-6, "{round_trip_s}");
            }
        }
    }

    #[test]
    fn lost_packets_count_as_large_as_those_that_came_last() {
        let mut incoming = Incoming::default();
        let received = |gaps| Received {
            packets: 10,
            bytes: 90_140,
            gaps,
            ..Received::default()
        };
        incoming.count(0.1, received(2), false, true, 0.0);
        // Gaps count once they are still there at the next look, at which nothing came.
        let counts = incoming.count(0.2, received(2), false, true, 0.0);
        assert!((counts.lost_bytes - 2.0 * 9014.0).abs() < 1e-6);
    }
}
