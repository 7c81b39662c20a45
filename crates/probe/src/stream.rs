//! The record of packets that arrive from a stream of even rate: loss, order, jitter and one-way delays. Pure code: times
//! are arguments.

/// Most delays that are kept for their quantiles. When they are full, every second one is dropped.
const KEPT: usize = 1 << 16;
/// Share of a change in the transit time by which the jitter moves (RFC 3550, section 6.4.1).
const SMOOTHING: f64 = 16.0;

/// What has arrived so far.
#[derive(Clone, Debug)]
pub struct Arrived {
    bin_s: f64,
    most_bins: usize,
    most_packets: u64,
    seen: Vec<u64>,
    received: u64,
    repeated: u64,
    late: u64,
    bytes: u64,
    highest: Option<u32>,
    first_ns: Option<u64>,
    last_ns: u64,
    transit_s: Option<f64>,
    jitter_s: f64,
    least_s: f64,
    most_s: f64,
    kept_s: Vec<f64>,
    every: u64,
    bins: Vec<u64>,
}

/// One-way delays in seconds, from the sender's clock to the receiver's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    /// The smallest.
    pub least_s: f64,
    /// The median.
    pub median_s: f64,
    /// The 95th percentile.
    pub high_s: f64,
    /// The largest.
    pub most_s: f64,
}

impl Arrived {
    /// Starts to record, in at most `most_bins` bins of `bin_s` seconds, packets with numbers below `most_packets`. There
    /// are no bins if `bin_s` is 0.
    pub fn new(bin_s: f64, most_bins: usize, most_packets: u64) -> Self {
        Self {
            bin_s,
            most_bins,
            most_packets,
            seen: Vec::new(),
            received: 0,
            repeated: 0,
            late: 0,
            bytes: 0,
            highest: None,
            first_ns: None,
            last_ns: 0,
            transit_s: None,
            jitter_s: 0.0,
            least_s: f64::INFINITY,
            most_s: f64::NEG_INFINITY,
            kept_s: Vec::new(),
            every: 1,
            bins: Vec::new(),
        }
    }

    /// Records packet number `seq`, sent at `sent_ns` by the sender's clock and received at `stamp_ns` by the receiver's.
    pub fn record(&mut self, seq: u32, sent_ns: u64, stamp_ns: u64, payload_bytes: u32) {
        if u64::from(seq) >= self.most_packets {
            return;
        }
        let (word, bit) = (seq as usize / 64, 1u64 << (seq % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.repeated += 1;
            return;
        }
        self.seen[word] |= bit;
        self.late += u64::from(self.highest.is_some_and(|highest| seq < highest));
        self.highest = Some(self.highest.map_or(seq, |highest| highest.max(seq)));
        self.bytes += u64::from(payload_bytes);
        self.delayed((i128::from(stamp_ns) - i128::from(sent_ns)) as f64 / 1e9);
        self.received += 1;
        let first_ns = *self.first_ns.get_or_insert(stamp_ns);
        self.last_ns = self.last_ns.max(stamp_ns);
        if self.bin_s > 0.0 {
            let bin = (stamp_ns.saturating_sub(first_ns) as f64 / 1e9 / self.bin_s) as usize;
            let bin = bin.min(self.most_bins.saturating_sub(1));
            if self.bins.len() <= bin {
                self.bins.resize(bin + 1, 0);
            }
            self.bins[bin] += u64::from(payload_bytes);
        }
    }

    fn delayed(&mut self, transit_s: f64) {
        if let Some(before_s) = self.transit_s.replace(transit_s) {
            self.jitter_s += ((transit_s - before_s).abs() - self.jitter_s) / SMOOTHING;
        }
        self.least_s = self.least_s.min(transit_s);
        self.most_s = self.most_s.max(transit_s);
        if self.received.is_multiple_of(self.every) {
            self.kept_s.push(transit_s);
            if self.kept_s.len() == KEPT {
                let mut index = 0;
                self.kept_s.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every *= 2;
            }
        }
    }

    /// Number of different packets.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Number of packets that had arrived before.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Number of packets that arrived after one with a higher number.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// UDP payload of all different packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Seconds from the first arrival to the last.
    pub fn span_s(&self) -> f64 {
        self.first_ns
            .map_or(0.0, |first_ns| self.last_ns.saturating_sub(first_ns) as f64 / 1e9)
    }

    /// The smoothed change of the transit time from packet to packet, as RFC 3550 defines jitter.
    pub fn jitter_s(&self) -> f64 {
        self.jitter_s
    }

    /// The one-way delays; all 0 if no packet has arrived.
    pub fn delays(&self) -> Delays {
        let mut sorted = self.kept_s.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
            sorted.get(index).copied()
        };
        let Some((median_s, high_s)) = at(0.5).zip(at(0.95)) else {
            return Delays::default();
        };
        Delays {
            least_s: self.least_s,
            median_s,
            high_s,
            most_s: self.most_s,
        }
    }

    /// The bytes in each bin since the first arrival.
    pub fn into_bins(self) -> Vec<u64> {
        self.bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn arrived(packets: &[(u32, u64)]) -> Arrived {
        let mut arrived = Arrived::new(0.01, 100, 1000);
        for (seq, stamp_ms) in packets {
            arrived.record(*seq, u64::from(*seq) * 10 * MS, stamp_ms * MS, 100);
        }
        arrived
    }

    #[test]
    fn a_packet_counts_once_and_is_late_after_a_higher_one() {
        let arrived = arrived(&[(0, 5), (2, 25), (1, 26), (2, 27), (4, 45), (5000, 50)]);
        assert_eq!((arrived.received(), arrived.repeated(), arrived.late()), (4, 1, 1));
        assert_eq!(arrived.bytes(), 400);
        assert!((arrived.span_s() - 0.040).abs() < 1e-12);
        assert_eq!(arrived.into_bins(), [100, 0, 200, 0, 100]);
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        // Transits of 5, 5, 21 and 5 ms.
        let arrived = arrived(&[(0, 5), (1, 15), (2, 41), (3, 35)]);
        let after_one = 16.0 / 16.0;
        let after_two = after_one + (16.0 - after_one) / 16.0;
        assert!((arrived.jitter_s() - after_two / 1e3).abs() < 1e-12);
        let delays = arrived.delays();
        assert!((delays.least_s - 0.005).abs() < 1e-12 && (delays.most_s - 0.021).abs() < 1e-12);
        assert!((delays.median_s - 0.005).abs() < 1e-12);
    }

    #[test]
    fn clocks_that_differ_give_negative_delays() {
        let mut arrived = Arrived::new(0.0, 0, 10);
        arrived.record(0, 20 * MS, 5 * MS, 100);
        assert!((arrived.delays().median_s + 0.015).abs() < 1e-12);
        assert_eq!(Arrived::new(0.0, 0, 10).delays(), Delays::default());
    }

    #[test]
    fn many_delays_keep_their_quantiles() {
        let mut arrived = Arrived::new(0.0, 0, 1_000_000);
        for seq in 0..400_000u32 {
            let sent_ns = u64::from(seq) * 1000;
            arrived.record(seq, sent_ns, sent_ns + u64::from(seq % 101) * MS, 100);
        }
        let delays = arrived.delays();
        assert!((delays.median_s - 0.050).abs() < 0.003, "{delays:?}");
        assert!((delays.high_s - 0.095).abs() < 0.003, "{delays:?}");
    }
}
