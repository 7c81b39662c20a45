//! Advises the sender of a gated train: how many packets may be in flight, and how many it should hand over as one.
//!
//! As in TCP, a full window keeps the path's queue from becoming empty without an estimate of the path's rate, and the
//! sender need not pace. The window follows the arrivals:
//!
//! 1. It shrinks when packets are lost.
//! 2. It grows while the path is not saturated although the sender waits for the window.
//! 3. Once the path is saturated, it approaches the size that survives a stall of the sender. On a long path it also
//!    covers the packets in flight during a round trip.

use super::shape::{Way, as_many_bytes};
use super::wire::Data;

/// Initial window in bytes: fills a link of 10 Gbit/s for 0.2 ms.
pub const FIRST_WINDOW_BYTES: u32 = 256 * 1024;
/// Smallest window in full packets: a queue of 50 kB still drops few of them.
const MIN_WINDOW: u32 = 24;
/// Duration of a window once the path is saturated, in nanoseconds: a sender may lose its core for one turn of the
/// scheduler, 3 ms.
const WANTED_NS: f64 = 6e6;
/// Delay that counts as waiting in a queue, in nanoseconds, above the smallest delay and the time to hand over the
/// previous batch. Only advice depends on it, never an answer.
const QUEUED_NS: i64 = 200_000;
/// Share of packets that may be lost before the window shrinks, and number of packets that may be lost in addition. In
/// a small window, one random loss on a link already exceeds that share.
const BEARABLE_LOSS: f64 = 0.02;
const BEARABLE_PACKETS: f64 = 2.0;
/// Share of lost packets that indicates a policer, if the other packets did not wait in a queue.
const POLICED_LOSS: f64 = 0.1;
/// Factor by which the sender then exceeds the rate of arrivals, so that the policer always has packets to drop.
const POLICED_PACE: f64 = 1.5;
/// The larger factor while the policer drops less than `CLEAN_LOSS`.
const CLEAN_PACE: f64 = 3.0;
const CLEAN_LOSS: f64 = 0.03;
/// Smallest number of full packets for a rate behind a policer.
const POLICED_PACKETS: u32 = 16;
/// Shortest time for a rate, in nanoseconds.
const RATE_NS: i64 = 2_000_000;
/// Up to this rate, in bit/s, packets are handed over one at a time. A core can send 1.6 Gbit/s of them, and each
/// super-packet blurs the depth of a bucket by its own size.
const SINGLE_BPS: f64 = 0.5e9;
/// Sizes of super-packets, in full frames: they grow from 4 packets to 16 if 4 do not fill the path.
const FEW_SEGMENTS: u16 = 4;
const MANY_SEGMENTS: u16 = 16;
const FULL_BYTES: u32 = 1_514;
/// From this rate on, super-packets grow at once.
const FEW_BPS: f64 = 3e9;
/// At lower rates, they grow after this many consecutive rates that do not fill the path. A sender below 0.5 Gbit/s on
/// a busy host then also changes to super-packets.
const PATIENCE: u32 = 10;

/// Advises the sender of one train. Times are arguments.
#[derive(Clone, Debug)]
pub struct Advisor {
    wire_bytes: u32,
    least: u32,
    most: u32,
    round_trip_s: f64,
    jitter_ns: i64,
    window: u32,
    ceiling: u32,
    segments: u16,
    floor_ns: i64,
    heard: u32,
    waits: u32,
    batches: u32,
    batch_sent_ns: i64,
    took_ns: i64,
    overflow: u32,
    unfilled: u32,
    starved: bool,
    epoch: Epoch,
    mark: Option<Mark>,
    rate_bps: f64,
    policed: bool,
    pace: f64,
}

/// The start of the current rate measurement.
#[derive(Clone, Copy, Debug)]
struct Mark {
    ns: i64,
    packets: u32,
    heard: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    first: u32,
    packets: u32,
    queued: u32,
    waits: u32,
    batches: u32,
    overflow: u32,
}

impl Advisor {
    /// An advisor for packets of `wire_bytes` on this path.
    pub fn new(wire_bytes: u32, way: &Way) -> Self {
        let least = as_many_bytes(MIN_WINDOW, wire_bytes);
        let most = (way.buffer_bytes / 3 / accounted_bytes(wire_bytes)).max(least);
        let window = (FIRST_WINDOW_BYTES / wire_bytes).clamp(least, most);
        Self {
            wire_bytes,
            least,
            most,
            round_trip_s: way.round_trip.as_secs_f64(),
            jitter_ns: way.jitter.as_nanos() as i64,
            window,
            ceiling: most,
            segments: 1,
            floor_ns: i64::MAX,
            heard: 0,
            waits: 0,
            batches: 0,
            batch_sent_ns: 0,
            took_ns: 0,
            overflow: 0,
            unfilled: 0,
            starved: false,
            epoch: Epoch::default(),
            mark: None,
            rate_bps: 0.0,
            policed: false,
            pace: POLICED_PACE,
        }
    }

    /// Number of packets that may be in flight.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Number of packets to hand over as one.
    pub fn segments(&self) -> u16 {
        self.segments
    }

    /// The rate on the wire at which to send regardless of the window, in bit/s, while a policer seems to drop packets.
    pub fn pace_bps(&self) -> Option<f64> {
        (self.policed && self.rate_bps > 0.0).then_some(self.pace * self.rate_bps)
    }

    /// Highest packet number that arrived, plus 1.
    pub fn heard(&self) -> u32 {
        self.heard
    }

    /// Rate of the last milliseconds on the wire, in bit/s; 0 at first.
    pub fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    /// Records one packet with the kernel's receive timestamp, in nanoseconds, and the packets that the receiver has
    /// dropped so far. Returns whether the packet seems to have waited in a queue.
    pub fn take(&mut self, data: &Data, received_ns: i64, overflow: u32) -> bool {
        let nanoseconds = |stamp: u64| stamp.min(i64::MAX as u64) as i64;
        let sent_ns = nanoseconds(data.sent_ns);
        if data.batch == self.batches.wrapping_add(1) {
            self.took_ns = nanoseconds(data.ended_ns).saturating_sub(self.batch_sent_ns).max(0);
        }
        if data.batch >= self.batches {
            self.batch_sent_ns = sent_ns;
        }
        let delay = received_ns.saturating_sub(sent_ns);
        self.floor_ns = self.floor_ns.min(delay);
        let queued = delay.saturating_sub(self.floor_ns).saturating_sub(self.took_ns) > QUEUED_NS + self.jitter_ns;
        self.heard = self.heard.max(data.seq.saturating_add(1));
        self.waits = self.waits.max(data.waits);
        self.batches = self.batches.max(data.batch);
        self.overflow = overflow;
        self.epoch.packets += 1;
        self.epoch.queued += u32::from(queued);
        self.measure(received_ns);
        // The effect of a change shows only after a window's worth of packets.
        if self.heard - self.epoch.first >= self.window.max(2 * self.least) {
            self.adjust();
            self.epoch = Epoch {
                first: self.heard,
                waits: self.waits,
                batches: self.batches,
                overflow: self.overflow,
                ..Epoch::default()
            };
        }
        queued
    }

    fn measure(&mut self, received_ns: i64) {
        let heard = self.heard;
        let mark = self.mark.get_or_insert(Mark {
            ns: received_ns,
            packets: 0,
            heard,
        });
        mark.packets += 1;
        let (packets, sent) = (mark.packets - 1, heard - mark.heard);
        let ns = received_ns.saturating_sub(mark.ns);
        let least = if self.policed {
            as_many_bytes(POLICED_PACKETS, self.wire_bytes)
        } else {
            2 * self.least
        };
        if ns < RATE_NS || packets < least {
            return;
        }
        self.rate_bps = 8e9 * f64::from(packets) * f64::from(self.wire_bytes) / ns as f64;
        self.mark = Some(Mark {
            ns: received_ns,
            packets: 0,
            heard,
        });
        let clean = f64::from(sent.saturating_sub(packets)) < CLEAN_LOSS * f64::from(sent);
        self.pace = if clean { CLEAN_PACE } else { POLICED_PACE };
        let unfilled = 2 * self.epoch.queued < self.epoch.packets;
        self.unfilled = if unfilled { self.unfilled + 1 } else { 0 };
        let starved = self.unfilled >= PATIENCE && !self.policed;
        let (few, many) = (self.segments_of(FEW_SEGMENTS), self.segments_of(MANY_SEGMENTS));
        self.segments = match self.segments {
            1 if self.rate_bps > 1.2 * SINGLE_BPS || starved => few,
            same if same == few && unfilled && (self.rate_bps > FEW_BPS || starved) => many,
            2.. if self.rate_bps < SINGLE_BPS && !self.starved => 1,
            same => same,
        };
        if starved {
            // If single packets did not fill the path once, do not return to them.
            self.starved = true;
            self.unfilled = 0;
        }
    }

    /// Packets of a super-packet with as many bytes as `full` packets of 1514 bytes, at least 2.
    fn segments_of(&self, full: u16) -> u16 {
        let scaled = u32::from(full) * FULL_BYTES / self.wire_bytes.max(1);
        (scaled as u16).clamp(2, full)
    }

    fn adjust(&mut self) {
        let epoch = self.epoch;
        let passed = self.heard - epoch.first;
        let dropped = self.overflow.wrapping_sub(epoch.overflow);
        let lost = passed.saturating_sub(epoch.packets);
        let queued = f64::from(epoch.queued) / f64::from(epoch.packets.max(1));
        let per_s = self.rate_bps / 8.0 / f64::from(self.wire_bytes);
        let queue_s = (WANTED_NS + 2.0 * self.jitter_ns as f64) * 1e-9;
        let wanted = ((queue_s + self.round_trip_s) * per_s) as u32;
        // Packets in flight do not fill the receiver's socket.
        let most = self.most.saturating_add((self.round_trip_s * per_s) as u32);
        let heavy = f64::from(lost.saturating_sub(dropped)) > POLICED_LOSS * f64::from(passed);
        let crowded = f64::from(dropped) > BEARABLE_LOSS * f64::from(passed);
        self.policed = queued < 0.1 && !crowded && (heavy || self.policed);
        if f64::from(lost.max(dropped)) > BEARABLE_LOSS * f64::from(passed) + BEARABLE_PACKETS {
            // The queue holds as many packets as arrived together.
            let through = u64::from(self.window) * u64::from(epoch.packets) / u64::from(passed.max(1));
            self.window = (self.window / 4 * 3).min(through as u32);
            self.ceiling = self.window.max(self.least);
        } else if queued < 0.5 && 2 * (self.waits - epoch.waits) > self.batches - epoch.batches {
            self.window = self.window.saturating_mul(2);
            self.ceiling = most;
        } else if queued > 0.9 && wanted > 0 {
            self.window = wanted.clamp(self.window / 2, self.window * 2).min(self.ceiling);
        }
        self.window = self.window.clamp(self.least, most);
    }
}

/// Bytes that the kernel accounts for a packet in a socket's buffer. Linear buffers of jumbo frames are rounded up to a
/// power of two.
fn accounted_bytes(wire_bytes: u32) -> u32 {
    if wire_bytes < 3_000 {
        wire_bytes + 832
    } else {
        (wire_bytes + 512).next_power_of_two() + 512
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn way(buffer_bytes: u32) -> Way {
        Way {
            headers_bytes: 42,
            buffer_bytes,
            round_trip: Duration::ZERO,
            jitter: Duration::ZERO,
        }
    }

    fn advisor() -> Advisor {
        Advisor::new(1514, &way(32 << 20))
    }

    fn data(seq: u32, sent_ns: i64) -> Data {
        Data {
            seq,
            batch: seq / 16,
            sent_ns: sent_ns as u64,
            waits: seq / 16,
            ..Data::default()
        }
    }

    /// Feeds packets that are `gap_ns` apart and took `delay_ns` each.
    fn feed(advisor: &mut Advisor, from: u32, count: u32, gap_ns: i64, delay_ns: i64) {
        for seq in from..from + count {
            let sent = i64::from(seq) * gap_ns;
            advisor.take(&data(seq, sent), sent + delay_ns, 0);
        }
    }

    #[test]
    fn a_window_that_starves_the_path_grows() {
        let mut advisor = advisor();
        let before = advisor.window();
        feed(&mut advisor, 0, 20_000, 1_000, 50_000);
        assert!(advisor.window() > 4 * before);
        assert_eq!(advisor.segments(), 16);
    }

    #[test]
    fn a_standing_queue_is_kept_short() {
        let mut advisor = advisor();
        feed(&mut advisor, 0, 10, 121_120, 50_000);
        feed(&mut advisor, 10, 3_000, 121_120, 20_000_000);
        // 6 ms at 100 Mbit/s.
        assert!((45..=55).contains(&advisor.window()), "{}", advisor.window());
        assert!((advisor.rate_bps() / 100e6 - 1.0).abs() < 0.05);
        assert_eq!(advisor.segments(), 1);
    }

    #[test]
    fn loss_shrinks_the_window() {
        let mut advisor = advisor();
        for seq in (0..9_000).step_by(3) {
            advisor.take(&data(seq, 0), i64::from(seq) * 10_000, 0);
        }
        assert_eq!(advisor.window(), MIN_WINDOW);
    }

    #[test]
    fn jumbo_frames_are_counted_in_bytes() {
        let advisor = Advisor::new(9_014, &way(32 << 20));
        assert_eq!((advisor.window(), advisor.least), (29, 4));
        assert_eq!((advisor.segments_of(4), advisor.segments_of(16)), (2, 2));
        assert_eq!(Advisor::new(9_014, &way(425_984)).window(), 8);
    }

    #[test]
    fn a_small_receive_buffer_bounds_the_window() {
        assert_eq!(Advisor::new(1514, &way(425_984)).window(), 60);
        assert_eq!(Advisor::new(1514, &way(0)).window(), MIN_WINDOW);
    }
}
