//! A sender with a window before a token bucket, with stalls, late stamps, jitter and loss. Deterministic.

use std::collections::VecDeque;

use gavotte_probe::gated::{Arrival, Train};

const WIRE_BYTES: u32 = 1514;
const BATCH: u32 = 16;
const WINDOW: u32 = 128;
/// One way, and the same back for answers.
const LATENCY_NS: f64 = 50_000.0;
const LONGEST_STALL_NS: f64 = 5e6;
/// Enough for 90 ms of saturation at any rate, behind any bucket.
const SATURATED_NS: f64 = 9e7;
const MOST_PACKETS: u32 = 30_000;

/// What the train meets.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) rate_bps: f64,
    pub(crate) bucket_bytes: f64,
    pub(crate) queue_bytes: f64,
    /// Time in which the sender hands over a packet.
    pub(crate) line_ns: f64,
    /// Mean of a stamp's lateness.
    pub(crate) jitter_ns: f64,
    /// Share of packets lost at random.
    pub(crate) loss: f64,
    /// Chance of a stall of the sender: before each batch, and again within it.
    pub(crate) stalls: f64,
    /// Chance with each packet that the receiver's core is away for a while.
    pub(crate) late_stamps: f64,
    pub(crate) seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rate_bps: 1e8,
            bucket_bytes: 32_768.0,
            queue_bytes: 3e6,
            line_ns: 2_000.0,
            jitter_ns: 0.0,
            loss: 0.0,
            stalls: 0.0,
            late_stamps: 0.0,
            seed: 1,
        }
    }
}

/// Steele and Vigna's `SplitMix64`.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn stall_ns(&mut self, chance: f64) -> f64 {
        if self.unit() < chance {
            LONGEST_STALL_NS * self.unit()
        } else {
            0.0
        }
    }
}

struct Shaper<'a> {
    path: &'a Path,
    tokens: f64,
    at_ns: f64,
    waiting: VecDeque<f64>,
}

impl Shaper<'_> {
    /// When a packet that comes at `now_ns` leaves; `None` when the queue is full.
    fn pass(&mut self, now_ns: f64) -> Option<f64> {
        let bytes = f64::from(WIRE_BYTES);
        let per_ns = self.path.rate_bps / 8e9;
        while self.waiting.front().is_some_and(|leaves| *leaves <= now_ns) {
            self.waiting.pop_front();
        }
        if (self.waiting.len() as f64 + 1.0) * bytes > self.path.queue_bytes {
            return None;
        }
        let from = now_ns.max(self.at_ns);
        // A bucket holds a packet at least, or nothing would ever pass.
        let depth = self.path.bucket_bytes.max(bytes);
        self.tokens = (self.tokens + per_ns * (from - self.at_ns)).min(depth);
        self.at_ns = from;
        if self.tokens < bytes {
            self.at_ns += (bytes - self.tokens) / per_ns;
            self.tokens = bytes;
        }
        self.tokens -= bytes;
        self.waiting.push_back(self.at_ns);
        Some(self.at_ns)
    }
}

/// Sends a train over the path.
pub(crate) fn simulate(path: &Path) -> Train {
    let mut random = Random(path.seed);
    let mut shaper = Shaper {
        path,
        tokens: path.bucket_bytes.max(f64::from(WIRE_BYTES)),
        at_ns: 0.0,
        waiting: VecDeque::new(),
    };
    let mut train = Train {
        wire_bytes: WIRE_BYTES,
        payload_bytes: 1472,
        ..Train::default()
    };
    let emptied_ns = 8e9 * path.bucket_bytes / path.rate_bps;
    let (mut now_ns, mut stamp_ns, mut away_ns) = (0.0f64, 0.0f64, 0.0f64);
    let (mut seq, mut batch) = (0u32, 0u32);
    // Packets under way: number, and when the sender hears of it.
    let mut answers: VecDeque<(u32, f64)> = VecDeque::new();
    let mut heard = 0;
    while now_ns < SATURATED_NS + emptied_ns && seq < MOST_PACKETS {
        now_ns += random.stall_ns(path.stalls);
        while let Some((number, at_ns)) = answers.front().copied() {
            if at_ns > now_ns && seq - heard < WINDOW {
                break;
            }
            now_ns = now_ns.max(at_ns);
            heard = heard.max(number + 1);
            answers.pop_front();
        }
        if seq - heard >= WINDOW {
            // All that was under way is lost: the sender's time-out.
            now_ns += 2e7;
            heard = seq;
        }
        let sent_ns = now_ns;
        now_ns += random.stall_ns(path.stalls);
        for _ in 0..BATCH {
            now_ns += path.line_ns;
            let lost = random.unit() < path.loss;
            if let Some(leaves_ns) = shaper.pass(now_ns).filter(|_| !lost) {
                if random.unit() < path.late_stamps {
                    away_ns = leaves_ns + LATENCY_NS + LONGEST_STALL_NS / 2.0 * random.unit();
                }
                let late_ns = -path.jitter_ns * (1.0 - random.unit()).ln();
                stamp_ns = stamp_ns.max(away_ns).max(leaves_ns + LATENCY_NS + late_ns);
                train.arrivals.push(Arrival {
                    seq,
                    batch,
                    sent_ns: sent_ns as i64,
                    received_ns: stamp_ns as i64,
                    overflow: 0,
                });
                answers.push_back((seq, stamp_ns + LATENCY_NS));
            }
            seq += 1;
        }
        train.batch_ends_ns.push(Some(now_ns as i64));
        batch += 1;
    }
    train.sent = u64::from(seq);
    train
}
