//! The flows on one link that another link limits.
//!
//! The solver never looks at the individual flows of a link. All flows that one link (their *holder*) limits have the
//! same rate per weight. For every other link, it is therefore enough to know the sum of their weights.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// All flows on a link that the same other link limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The link that limits them.
    pub(super) holder: u32,
    /// The index of this link in the holder's list.
    twin: u32,
    flows: u32,
    /// Sum of weights.
    pub(super) weight: f64,
}

/// A link that a holder's flows cross.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub(super) link: u32,
    /// The index of the holder in the link's list.
    twin: u32,
    /// The same as the weight in the link's share.
    pub(super) weight: f64,
    /// While the link is idle: it has spare capacity as long as no holder's level exceeds the limit given to it.
    limit: f64,
}

/// All pairs of a link and a holder of flows on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Crossings {
    /// By link: the holders of its flows, without the link itself.
    shares: Vec<Vec<Share>>,
    /// By holder: the links that its flows cross, those that limit flows themselves (busy) and those that do not
    /// (idle).
    crossed: [Vec<Vec<Crossing>>; 2],
    busy: Vec<bool>,
    /// By holder: a lower bound of the limits among its idle crossings.
    guard: Vec<f64>,
    /// By link and holder: the holder's index in the link's list. A link may have thousands of holders.
    places: HashMap<u64, u32, BuildHasherDefault<Spread>>,
}

/// Spreads numbers over a table: Fibonacci hashing (Knuth, volume 3, 6.4). No adversary chooses the numbers.
#[derive(Clone, Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

fn key(link: u32, holder: u32) -> u64 {
    u64::from(link) << 32 | u64::from(holder)
}

impl Crossings {
    /// Adds an idle link without flows.
    pub(super) fn add_link(&mut self) {
        self.shares.push(Vec::new());
        self.crossed.iter_mut().for_each(|lists| lists.push(Vec::new()));
        self.busy.push(false);
        self.guard.push(f64::INFINITY);
    }

    /// The holders of flows on `link`, without the link itself.
    pub(super) fn shares(&self, link: u32) -> &[Share] {
        &self.shares[link as usize]
    }

    /// The busy links that flows of `holder` cross.
    pub(super) fn busy_links(&self, holder: u32) -> &[Crossing] {
        &self.crossed[1][holder as usize]
    }

    /// Whether `link` limits any flows.
    pub(super) fn is_busy(&self, link: u32) -> bool {
        self.busy[link as usize]
    }

    /// Adds one flow on `link` that `holder` limits.
    pub(super) fn add(&mut self, link: u32, holder: u32, weight: f64) {
        if let Some(at) = self.find(link, holder) {
            let share = &mut self.shares[link as usize][at];
            share.flows += 1;
            share.weight += weight;
            let (twin, sum) = (share.twin as usize, share.weight);
            self.crossed[usize::from(self.busy[link as usize])][holder as usize][twin].weight = sum;
            return;
        }
        let shares = &mut self.shares[link as usize];
        let list = &mut self.crossed[usize::from(self.busy[link as usize])][holder as usize];
        let (here, there) = (shares.len() as u32, list.len() as u32);
        self.places.insert(key(link, holder), here);
        shares.push(Share {
            holder,
            twin: there,
            flows: 1,
            weight,
        });
        list.push(Crossing {
            link,
            twin: here,
            weight,
            limit: f64::INFINITY,
        });
    }

    /// Removes one flow on `link` that `holder` no longer limits.
    ///
    /// PRECONDITION: it was added with the same weight.
    pub(super) fn subtract(&mut self, link: u32, holder: u32, weight: f64) {
        let Some(at) = self.find(link, holder) else { return };
        let share = &mut self.shares[link as usize][at];
        share.flows -= 1;
        share.weight -= weight;
        let side = usize::from(self.busy[link as usize]);
        if share.flows > 0 {
            let (twin, sum) = (share.twin as usize, share.weight);
            self.crossed[side][holder as usize][twin].weight = sum;
            return;
        }
        let share = self.shares[link as usize].swap_remove(at);
        self.places.remove(&key(link, holder));
        if let Some(moved) = self.shares[link as usize].get(at) {
            self.places.insert(key(link, moved.holder), at as u32);
            self.crossed[side][moved.holder as usize][moved.twin as usize].twin = at as u32;
        }
        self.unlist(side, share);
    }

    /// Lists `link` as one that limits flows.
    pub(super) fn wake(&mut self, link: u32) {
        self.turn(link, true);
    }

    /// Lists `link` as one that limits no flows. Its limits are infinite until [`Crossings::certify`].
    pub(super) fn sleep(&mut self, link: u32) {
        self.turn(link, false);
        self.guard[link as usize] = f64::INFINITY;
    }

    /// Records that an idle link has spare capacity until a holder's level rises to `slack` times its present value.
    pub(super) fn certify(&mut self, link: u32, slack: f64, level: &[f64]) {
        for share in &self.shares[link as usize] {
            let limit = level[share.holder as usize] * slack;
            self.crossed[0][share.holder as usize][share.twin as usize].limit = limit;
            let guard = &mut self.guard[share.holder as usize];
            *guard = guard.min(limit);
        }
    }

    /// Calls `visit` with each idle link that may be full now that the level of `holder` is `level`.
    pub(super) fn for_each_exhausted(&mut self, holder: u32, level: f64, mut visit: impl FnMut(u32)) {
        if level <= self.guard[holder as usize] {
            return;
        }
        let mut guard = f64::INFINITY;
        for crossing in &mut self.crossed[0][holder as usize] {
            if crossing.limit < level {
                // The link is evaluated soon, which sets a limit again.
                crossing.limit = f64::INFINITY;
                visit(crossing.link);
            }
            guard = guard.min(crossing.limit);
        }
        self.guard[holder as usize] = guard;
    }

    fn find(&self, link: u32, holder: u32) -> Option<usize> {
        self.places.get(&key(link, holder)).map(|&at| at as usize)
    }

    fn turn(&mut self, link: u32, busy: bool) {
        if std::mem::replace(&mut self.busy[link as usize], busy) == busy {
            return;
        }
        for at in 0..self.shares[link as usize].len() {
            let share = self.shares[link as usize][at];
            self.unlist(usize::from(!busy), share);
            let list = &mut self.crossed[usize::from(busy)][share.holder as usize];
            self.shares[link as usize][at].twin = list.len() as u32;
            list.push(Crossing {
                link,
                twin: at as u32,
                weight: share.weight,
                limit: f64::INFINITY,
            });
        }
    }

    /// Removes the crossing of `share` from its holder's list.
    fn unlist(&mut self, side: usize, share: Share) {
        let list = &mut self.crossed[side][share.holder as usize];
        list.swap_remove(share.twin as usize);
        if let Some(moved) = list.get(share.twin as usize) {
            self.shares[moved.link as usize][moved.twin as usize].twin = share.twin;
        }
    }
}
