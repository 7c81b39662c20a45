//! Token buckets of hosts: what they let pass at once after a pause.

use gavotte_net::Bucket;

/// Bytes that a bucket lets pass now, and when its last byte at the peak rate has passed.
#[derive(Clone, Copy, Debug)]
struct Level {
    bytes: f64,
    at_s: f64,
    passed_s: f64,
}

impl Level {
    /// Lets the bucket fill until now.
    fn fill(&mut self, bucket: &Bucket, now_s: f64) {
        if bucket.depth_bytes.is_infinite() {
            return;
        }
        let filled = bucket.fill.bps() / 8.0 * (now_s - self.at_s);
        self.bytes = bucket.depth_bytes.min(self.bytes + filled);
        self.at_s = now_s;
    }
}

/// How a piece passes the buckets of its two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Passage {
    /// All of it is through at this time.
    Through(f64),
    /// This number of its bytes follows at the rate of the network.
    Left(u64),
}

/// The buckets of all hosts, full at the start, in both directions.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    /// By host: what it sends, and what it receives. `None` = still full.
    levels: Vec<[Option<Level>; 2]>,
}

impl Bursts {
    pub(crate) fn new(hosts: usize) -> Self {
        Self {
            levels: vec![[None; 2]; hosts],
        }
    }

    /// Passes a piece of a message through the buckets of its sender and its receiver.
    ///
    /// All bytes count when they start. A bucket may therefore be in debt, which it has paid when the bytes have passed
    /// at its fill rate.
    pub(crate) fn pass(&mut self, hosts: [u32; 2], buckets: &[Bucket; 2], bytes: u64, now_s: f64) -> Passage {
        let mut free = f64::INFINITY;
        for ((&host, bucket), way) in hosts.iter().zip(buckets).zip(0..) {
            let level = self.levels[host as usize][way].get_or_insert(Level {
                bytes: bucket.depth_bytes,
                at_s: now_s,
                passed_s: now_s,
            });
            level.fill(bucket, now_s);
            free = free.min(level.bytes);
        }
        let whole = free >= bytes as f64;
        let mut through_s = now_s;
        for ((&host, bucket), way) in hosts.iter().zip(buckets).zip(0..) {
            let Some(level) = &mut self.levels[host as usize][way] else {
                continue;
            };
            level.bytes -= bytes as f64;
            if whole {
                level.passed_s = level.passed_s.max(now_s) + bytes as f64 * 8.0 / bucket.peak.bps();
                through_s = through_s.max(level.passed_s);
            }
        }
        if whole {
            return Passage::Through(through_s);
        }
        Passage::Left((bytes as f64 - free.max(0.0)).ceil() as u64)
    }
}

#[cfg(test)]
mod tests {
    use gavotte_net::BitsPerSec;

    use super::{Bucket, Bursts, Passage};

    fn bucket(depth_bytes: f64, fill_bps: f64, peak_bps: f64) -> Bucket {
        let rate = |bps| BitsPerSec::new(bps).expect("a rate");
        Bucket {
            depth_bytes,
            fill: rate(fill_bps),
            peak: rate(peak_bps),
        }
    }

    #[test]
    fn a_full_bucket_passes_its_depth_and_fills_at_its_rate() {
        let ways = [bucket(1000.0, 8000.0, f64::INFINITY), Bucket::NONE];
        let mut bursts = Bursts::new(2);
        let mut pass = |bytes, now_s| bursts.pass([0, 1], &ways, bytes, now_s);
        assert_eq!(pass(600, 0.0), Passage::Through(0.0));
        assert_eq!(pass(600, 0.0), Passage::Left(200));
        // The debt of 200 bytes is paid at 0.2 s, when the piece has passed at the fill rate.
        assert_eq!(pass(600, 0.2), Passage::Left(600));
        // 600 bytes of debt, 900 s later the bucket is full, and not more than full.
        assert_eq!(pass(1001, 900.0), Passage::Left(1));
    }

    #[test]
    fn the_emptier_of_both_buckets_counts() {
        let ways = [bucket(1000.0, 8000.0, 80_000.0), bucket(300.0, 8000.0, f64::INFINITY)];
        let mut bursts = Bursts::new(3);
        assert_eq!(bursts.pass([0, 1], &ways, 200, 0.0), Passage::Through(0.02));
        // The next byte at the peak rate follows the last one.
        assert_eq!(bursts.pass([0, 2], &ways, 200, 0.0), Passage::Through(0.04));
        assert_eq!(bursts.pass([0, 1], &ways, 200, 0.0), Passage::Left(100));
    }
}
