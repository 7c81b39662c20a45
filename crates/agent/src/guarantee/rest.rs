//! What a host sends in no pair: to hosts outside the set, or from and to addresses that no pair has.
//!
//! No receiver reports on it, so it has its share of the host's hose and no more, like a pair with a silent receiver.

use std::net::{IpAddr, Ipv4Addr};

use gavotte_limiter::{Partitioner, Share};
use gavotte_net::{Bandwidth, Bytes};

/// Names the rest among the pairs of a host.
pub(super) const REST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The traffic of a host that belongs to no pair.
#[derive(Debug, Default)]
pub(super) struct Rest {
    seen_bytes: u64,
    /// Its share of the hose at the last division; `None` while it is idle.
    share_bps: Option<f64>,
}

impl Rest {
    /// Adds what was sent since the last call to the division of the hose.
    pub(super) fn count(&mut self, all_bytes: u64, hose_bps: f64, targets: &mut Partitioner<IpAddr>) {
        let bytes = all_bytes.saturating_sub(self.seen_bytes);
        self.seen_bytes = all_bytes;
        if bytes > 0 {
            let limit_bps = self.share_bps.unwrap_or(hose_bps);
            targets.observe(REST, Bytes(bytes), Bandwidth(limit_bps));
        }
    }

    /// Forgets the share before the next division.
    pub(super) fn begin(&mut self) {
        self.share_bps = None;
    }

    /// Takes its share at a division. Returns whether the share is not a pair's.
    pub(super) fn take(&mut self, share: &Share<IpAddr>) -> bool {
        let own = share.peer == REST;
        if own {
            self.share_bps = Some(share.guarantee_bps);
        }
        own
    }

    /// The most that it may send now: while it is idle, the whole hose, and without a hose, all that the host may send.
    pub(super) fn limit_bps(&self, hose_bps: Option<f64>, host_limit_bps: f64) -> f64 {
        hose_bps.map_or(host_limit_bps, |hose_bps| self.share_bps.unwrap_or(hose_bps))
    }
}

#[cfg(test)]
mod tests {
    use gavotte_limiter::{End, Parameters};
    use gavotte_net::Seconds;

    use super::*;

    #[test]
    fn the_rest_shares_the_hose_with_pairs() {
        let hose_bps = 45e6;
        let rules = Parameters::default().partition;
        let mut targets = Partitioner::new(End::Source, Bandwidth(hose_bps), &rules);
        let mut rest = Rest::default();
        let pair = IpAddr::from([10, 0, 0, 2]);
        assert!((rest.limit_bps(Some(hose_bps), 1e9) - hose_bps).abs() < 1.0);
        assert!((rest.limit_bps(None, 1e9) - 1e9).abs() < 1.0);
        for round in 1..=40_u64 {
            // Both would send more than the hose.
            rest.count(round * 1_000_000, hose_bps, &mut targets);
            targets.observe(pair, Bytes(1_000_000), Bandwidth(hose_bps));
            rest.begin();
            for share in targets.partition(Seconds(0.1 * round as f64)) {
                rest.take(&share);
            }
        }
        assert!((rest.limit_bps(Some(hose_bps), 1e9) - hose_bps / 2.0).abs() < 0.05 * hose_bps);
    }
}
