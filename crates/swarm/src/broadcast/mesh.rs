//! The push-once mesh: the source sends each block once, to one helper, which passes it on to all other receivers.
//!
//! The helpers' shares are in proportion to their uplinks. Every flow is paced, so that a receiver's queue does not
//! fill with the bytes of all others at once. In a fluid model no mechanism is faster (Kumar and Ross, 2006). If the
//! uplinks together are too slow, the source sends some blocks to all receivers directly.

use gavotte_net::Bytes;

use super::ground::Ground;

/// The share of the blocks that each host passes on, and the time that the mesh takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// By host: its share of the blocks. The source's share is the blocks that it sends to all receivers directly. The
    /// shares add up to 1.
    pub share: Vec<f64>,
    /// Time that the mesh takes, in seconds.
    pub seconds: f64,
}

impl Shares {
    /// The shares with which the mesh ends soonest.
    pub fn new(ground: &Ground, Bytes(bytes): Bytes) -> Self {
        let count = ground.network().hosts().len();
        let receivers = ground.receivers();
        let mut share = vec![0.0; count];
        let uplink = |host: usize| {
            // Use a finite rate, so that shares are numbers: if no host has a limit, all shares are equal.
            let bps = ground.uplink(host).bps();
            if bps.is_finite() { bps } else { 1e15 }
        };
        let (source, all) = (
            uplink(ground.source()),
            receivers.iter().map(|&host| uplink(host)).sum::<f64>(),
        );
        let others = receivers.len() as f64 - 1.0;
        if receivers.len() < 2 {
            share[ground.source()] = 1.0;
        } else {
            // The part that the source has to send itself: the helpers can only pass on as much as their uplinks carry.
            let own = (1.0 - (all / others) * (others + 1.0) / (source + all)).clamp(0.0, 1.0);
            let helped = 1.0 - own;
            share[ground.source()] = if own < 1e-3 { 0.0 } else { own };
            for &host in receivers {
                share[host] = helped * uplink(host) / all;
            }
        }
        let total: f64 = share.iter().sum();
        for share in &mut share {
            *share /= total;
        }
        let mut shares = Self { share, seconds: 0.0 };
        let loads: Vec<_> = shares.loads(ground, Bytes(bytes)).collect();
        shares.seconds = ground.load_seconds(loads.into_iter());
        shares
    }

    /// Source, target and bytes of each flow.
    pub fn loads<'a>(
        &'a self,
        ground: &'a Ground,
        Bytes(bytes): Bytes,
    ) -> impl Iterator<Item = (usize, usize, f64)> + 'a {
        let source = ground.source();
        let from_source = move |host: usize| (source, host, bytes as f64 * (self.share[host] + self.share[source]));
        let onward = move |helper: usize| {
            let others = ground.receivers().iter().filter(move |&&host| host != helper);
            others.map(move |&host| (helper, host, bytes as f64 * self.share[helper]))
        };
        let first = ground.receivers().iter().map(move |&host| from_source(host));
        first.chain(ground.receivers().iter().flat_map(move |&helper| onward(helper)))
    }

    /// The longest time that a byte is on its way, in seconds: from the source to a helper and on to another receiver.
    /// Unknown latencies count as 0.
    pub fn latency_s(&self, ground: &Ground) -> f64 {
        let source = ground.source();
        let way_s = |m: usize, n: usize| ground.network().latency_s(m, n).unwrap_or(0.0);
        let via = |helper: usize| {
            let onward = ground.receivers().iter().map(move |&host| way_s(helper, host));
            way_s(source, helper) + onward.fold(0.0, f64::max)
        };
        let helpers = ground.receivers().iter().filter(|&&host| self.share[host] > 0.0);
        let direct = ground.receivers().iter().map(|&host| way_s(source, host));
        helpers.map(|&host| via(host)).chain(direct).fold(0.0, f64::max)
    }

    /// The host that passes on each of `count` blocks, with the shares evenly interleaved.
    pub fn assign(&self, count: u32) -> Vec<usize> {
        let mut owed = vec![0.0; self.share.len()];
        let mut helpers = Vec::with_capacity(count as usize);
        for _ in 0..count {
            for (owed, share) in owed.iter_mut().zip(&self.share) {
                *owed += share;
            }
            let most = (0..owed.len()).max_by(|&m, &n| owed[m].total_cmp(&owed[n]).then(n.cmp(&m)));
            let most = most.unwrap_or(0);
            owed[most] -= 1.0;
            helpers.push(most);
        }
        helpers
    }
}
