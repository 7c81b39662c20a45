//! How many packets the sender of a gated train may have under way, and how many it should hand over as one.
//!
//! A full window is what keeps the path's queue from running empty without any estimate of its rate, as TCP does it: the
//! sender never paces. The window follows what arrives: it grows while the path is not saturated although the sender
//! waits for it, and shrinks when packets are lost or wait longer than a stall of the sender could last.

use super::wire::Data;

/// Window that a train begins with, in bytes: fills a link of 10 Gbit/s for 0.2 ms.
pub const FIRST_WINDOW_BYTES: u32 = 256 * 1024;
/// Smallest window in packets: a queue of 50 kB still drops few of them.
const MIN_WINDOW: u32 = 24;
/// What a window should hold in time once the path is saturated, in nanoseconds: a sender may be off its core for one turn
/// of the scheduler, 3 ms.
const WANTED_NS: f64 = 6e6;
/// Delay beyond the smallest, and beyond the time that the batch before took to hand over, that is taken for waiting in a
/// queue, in nanoseconds. Only advice depends on it, no answer.
const QUEUED_NS: i64 = 200_000;
/// Share of packets that may be lost before the window shrinks.
const BEARABLE_LOSS: f64 = 0.02;
/// The rate is told from at least so long a time, in nanoseconds.
const RATE_NS: i64 = 2_000_000;
/// Up to this rate in bit/s single packets are handed over: a core sends 1.6 Gbit/s of them, and each super-packet blurs
/// the depth of a bucket by its size.
const SINGLE_BPS: f64 = 0.5e9;
/// Super-packets grow from 4 packets to 16 where 4 do not fill the path: at once from this rate on,
const FEW_BPS: f64 = 3e9;
/// else after so many rates in a row. A sender slower than 0.5 Gbit/s, on a busy host, turns to super-packets then, too.
const PATIENCE: u32 = 10;

/// Advises the sender of one train. Times come in as arguments.
#[derive(Clone, Debug)]
pub struct Advisor {
    wire_bytes: u32,
    most: u32,
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
    mark: Option<(i64, u32)>,
    rate_bps: f64,
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
    /// Advice for packets of `wire_bytes` that arrive in a socket buffer of `buffer_bytes`.
    pub fn new(wire_bytes: u32, buffer_bytes: u32) -> Self {
        // The kernel accounts some 832 bytes more for a packet than it is long.
        let most = (buffer_bytes / 3 / (wire_bytes + 832)).max(MIN_WINDOW);
        let window = (FIRST_WINDOW_BYTES / wire_bytes).clamp(MIN_WINDOW, most);
        Self {
            wire_bytes,
            most,
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
        }
    }

    /// Packets that may be under way.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Packets to hand over as one.
    pub fn segments(&self) -> u16 {
        self.segments
    }

    /// Highest packet number that came, plus 1.
    pub fn heard(&self) -> u32 {
        self.heard
    }

    /// Rate of the last milliseconds on the wire, in bit/s; 0 at first.
    pub fn rate_bps(&self) -> f64 {
        self.rate_bps
    }

    /// Takes one packet with the kernel's receive stamp, in nanoseconds, and the receiver's dropped packets so far. Tells
    /// whether it seems to have waited in a queue.
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
        let queued = delay.saturating_sub(self.floor_ns).saturating_sub(self.took_ns) > QUEUED_NS;
        self.heard = self.heard.max(data.seq.saturating_add(1));
        self.waits = self.waits.max(data.waits);
        self.batches = self.batches.max(data.batch);
        self.overflow = overflow;
        self.epoch.packets += 1;
        self.epoch.queued += u32::from(queued);
        self.measure(received_ns);
        // A change needs a window's worth of packets to show.
        if self.heard - self.epoch.first >= self.window.max(2 * MIN_WINDOW) {
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
        let (since, packets) = *self.mark.get_or_insert((received_ns, 0));
        self.mark = Some((since, packets + 1));
        let ns = received_ns.saturating_sub(since);
        if ns < RATE_NS || packets < 2 * MIN_WINDOW {
            return;
        }
        self.rate_bps = 8e9 * f64::from(packets) * f64::from(self.wire_bytes) / ns as f64;
        self.mark = Some((received_ns, 0));
        let unfilled = 2 * self.epoch.queued < self.epoch.packets;
        self.unfilled = if unfilled { self.unfilled + 1 } else { 0 };
        let starved = self.unfilled >= PATIENCE;
        self.segments = match self.segments {
            1 if self.rate_bps > 1.2 * SINGLE_BPS || starved => 4,
            4 if unfilled && (self.rate_bps > FEW_BPS || starved) => 16,
            4.. if self.rate_bps < SINGLE_BPS && !self.starved => 1,
            same => same,
        };
        if starved {
            // What single packets did not fill they would not fill again.
            self.starved = true;
            self.unfilled = 0;
        }
    }

    fn adjust(&mut self) {
        let epoch = self.epoch;
        let passed = self.heard - epoch.first;
        let dropped = self.overflow.wrapping_sub(epoch.overflow);
        let lost = passed.saturating_sub(epoch.packets);
        let queued = f64::from(epoch.queued) / f64::from(epoch.packets.max(1));
        let wanted = (WANTED_NS * 1e-9 * self.rate_bps / 8.0 / f64::from(self.wire_bytes)) as u32;
        if f64::from(lost.max(dropped)) > BEARABLE_LOSS * f64::from(passed) {
            // What came through at once is what the queue holds.
            let through = u64::from(self.window) * u64::from(epoch.packets) / u64::from(passed.max(1));
            self.window = (self.window / 4 * 3).min(through as u32);
            self.ceiling = self.window.max(MIN_WINDOW);
        } else if queued < 0.5 && 2 * (self.waits - epoch.waits) > self.batches - epoch.batches {
            self.window *= 2;
            self.ceiling = self.most;
        } else if queued > 0.9 && wanted > 0 {
            self.window = wanted.clamp(self.window / 2, self.window * 2).min(self.ceiling);
        }
        self.window = self.window.clamp(MIN_WINDOW, self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advisor() -> Advisor {
        Advisor::new(1514, 32 << 20)
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

    /// Packets `gap_ns` apart that each took `delay_ns`.
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
    fn a_small_receive_buffer_bounds_the_window() {
        assert_eq!(Advisor::new(1514, 425_984).window(), 60);
        assert_eq!(Advisor::new(1514, 0).window(), MIN_WINDOW);
    }
}
