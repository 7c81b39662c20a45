//! The push-once mesh: the source sends each block once, to one helper, which passes it on to all others.
//!
//! The helpers' shares are in proportion to their uplinks, and every flow is paced, so that no queue of a receiver fills with all
//! others' bytes at once. In a fluid this is the fastest there is (Kumar and Ross, 2006): where the uplinks together
//! are too slow, the source sends some blocks to everyone itself.

use super::ground::Ground;

/// What part of the blocks each host passes on, and how fast.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// By host: its share of the blocks; the source's are those it sends to all itself. They add up to 1.
    pub share: Vec<f64>,
    /// How long it takes.
    pub seconds: f64,
}

impl Shares {
    /// The shares that end soonest.
    pub fn new(ground: &Ground, bytes: u64) -> Self {
        let count = ground.network().hosts().len();
        let receivers = ground.receivers();
        let mut share = vec![0.0; count];
        let uplink = |host: usize| {
            // Some limit, so that shares are numbers: where nobody has one, all are equal.
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
            // Of each bit/s that leaves the source for helpers, so much can be passed on.
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
        let loads: Vec<_> = shares.loads(ground, bytes).collect();
        shares.seconds = ground.load_seconds(loads.into_iter());
        shares
    }

    /// Source, target and bytes of each flow.
    pub fn loads<'a>(&'a self, ground: &'a Ground, bytes: u64) -> impl Iterator<Item = (usize, usize, f64)> + 'a {
        let source = ground.source();
        let from_source = move |host: usize| (source, host, bytes as f64 * (self.share[host] + self.share[source]));
        let onward = move |helper: usize| {
            let others = ground.receivers().iter().filter(move |&&host| host != helper);
            others.map(move |&host| (helper, host, bytes as f64 * self.share[helper]))
        };
        let first = ground.receivers().iter().map(move |&host| from_source(host));
        first.chain(ground.receivers().iter().flat_map(move |&helper| onward(helper)))
    }

    /// Who passes on each of `count` blocks: shares evenly interleaved.
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
