//! The traffic that a host receives from another one, and what it reports of it.

use gavotte_limiter::{Counts, Delay, Offer};
use gavotte_net::Seconds;
use gavotte_shaper::Received;

use crate::guarantee::talk::{Tally, UNIT_BYTES};

/// Size that a lost packet is assumed to have had before any packet has arrived: full, at MTU 1500.
const FULL_PACKET_BYTES: f64 = 1514.0;
/// Time after the last mark in which waiting does not count as congestion.
const MARKS_S: f64 = 2.0;
/// A longer round trip is not believed.
const MOST_ROUND_TRIP_US: u32 = 2_000_000;

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
    pub(super) untold: Counts,
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

    /// The share of bytes that counts as delayed, since they waited longer than `most_s`, by the last datagrams.
    pub(super) fn waited(&self, now_s: f64, most_s: f64) -> f64 {
        self.delay.marked(Seconds(now_s), Seconds(most_s))
    }

    /// Counts what arrived since the last call. ECN marks count if `marks` is set. `waited` is the share of bytes that
    /// waited too long. Unless `waits` is set, they count only while no packets are marked.
    pub(super) fn count(&mut self, now_s: f64, now: Received, marks: bool, waits: bool, waited: f64) -> Counts {
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
            waited
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let count = |mut incoming: Incoming, now_s: f64, now: Received, marks: bool, waits: bool, most_s: f64| {
            let waited = incoming.waited(now_s, most_s);
            incoming.count(now_s, now, marks, waits, waited)
        };
        let bytes = |counts: Counts| [counts.marked_bytes, counts.waited_bytes].map(|bytes| bytes.round() as u64);
        // By mode: whether marks count, and whether waits count where packets are marked.
        assert_eq!(bytes(count(queue(), 0.2, received(10), true, true, 0.01)), [15_000; 2]);
        assert_eq!(bytes(count(queue(), 0.2, received(10), true, false, 0.01)), [15_000, 0]);
        assert_eq!(bytes(count(queue(), 0.2, received(10), false, true, 0.01)), [0, 15_000]);
        assert_eq!(bytes(count(queue(), 0.2, received(10), false, true, 0.0)), [0, 0]);
        // In mode `ecn`, they count again some time after the last mark.
        let mut incoming = queue();
        incoming.count(0.2, received(10), true, false, 1.0);
        for at_s in [2.2, 2.3] {
            incoming.time(at_s, 4_000_020_000_u32);
        }
        let unmarked = Received { ce: 10, ..received(20) };
        assert_eq!(bytes(count(incoming, 2.3, unmarked, true, false, 0.01)), [0, 15_000]);
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
