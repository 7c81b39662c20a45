//! Max-min fair sharing of links by weighted flows, kept up to date as flows come and go.
//!
//! In a max-min fair allocation every flow is *held back* by a link of its path that is full and on which no flow has a
//! higher rate per weight (Bertsekas and Gallager, Data Networks, 6.5.2). Call that link the flow's holder and that rate
//! per weight the link's *level*. The state is the holder of each flow and the level of each link, and no more:
//!
//! - A level is `(rate - what flows held elsewhere use) / weight of the own flows`. It depends on the levels of the
//!   holders that cross the link, all lower, so a change travels from low levels to high ones, link by link. What the
//!   flows held by one link use of another is a sum of weights times one level ([`crossings`]).
//! - The allocation is max-min fair if, on each link, no level of a crossing holder is above the link's own, and if the
//!   links that hold no flow back have room. Where a link finds a higher level, it *pulls* those flows to itself.
//! - A flow is done when its holder has sent so much per weight. Each link has a clock that counts exactly that, so a
//!   new level moves one entry in the calendar, not one for each flow.
//!
//! The work of an event is thus in proportion to the links whose level changes, however many flows they carry. The
//! result does not depend on the order of evaluation, since the max-min fair allocation is unique.
//!
//! Where thousands of links are full, one flow more changes the level of almost all, most by a hair. With an *accuracy*
//! above zero, a level is left as it is, and passed on to nobody, while it is off by no more than that share of itself.

mod crossings;
mod flow;
mod flows;
mod heap;
mod refill;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crossings::Crossings;
use flow::Flow;
pub(crate) use flow::{Finished, Index, Slot};
use heap::{Heap, Places};

/// Levels nearer to each other than this, relatively, count as equal. Keeps rounding from moving flows to and fro.
const EQUAL: f64 = 1e-11;
/// A level that moves by less than this, relatively, is not passed on.
const STILL: f64 = 1e-13;
/// What others use of a link is summed anew after so many changes: each adds an error of half an ulp, so that the sum stays
/// right to 6e-14.
const SUM_AGAIN: u32 = 512;
/// Flows that end within this of each other, relative to the time of day, end together.
const TOGETHER: f64 = 1e-12;

/// Links and the flows on them. Rates are bytes per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    now_s: f64,
    /// By how much of itself a level may be off; 0 = exact.
    accuracy: f64,
    /// By link: capacity.
    rate: Vec<f64>,
    /// By link: rate per weight of the flows it holds back; 0 if there are none.
    level: Vec<f64>,
    /// By link: summed weight of the flows it holds back.
    weight: Vec<f64>,
    /// By link that holds flows back: what flows held by others use of it, and how often that changed since it was summed.
    used: Vec<f64>,
    changes: Vec<u32>,
    /// By link that holds flows back: no holder among its crossings has a higher level.
    top: Vec<f64>,
    /// By link: bytes of the flows that ended.
    carried: Vec<f64>,
    links: Vec<Link>,
    crossings: Crossings,
    flows: Vec<Flow>,
    /// Slots without a flow.
    free: Vec<u32>,
    /// Flow slots in [`Link::held`].
    places: Places,
    /// When the next flow of each link ends.
    calendar: Heap,
    calendar_places: Places,
    /// Links to evaluate, lowest level first.
    queue: BinaryHeap<Reverse<(Level, Index)>>,
    queued: Vec<bool>,
    /// Links whose entry in the calendar is out of date.
    touched: Vec<Index>,
    scratch: Vec<Index>,
}

/// What only a look at a single link needs.
#[derive(Clone, Debug, Default)]
struct Link {
    /// Flows that it holds back, by the clock at which they end.
    held: Heap,
    /// Bytes sent per weight since it last began to hold flows back.
    clock: f64,
    /// Time of the clock.
    at_s: f64,
    touched: bool,
    /// How long it held flows back, and since when it does.
    busy_s: f64,
    busy_since_s: f64,
}

/// A level in a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level(f64);

impl Eq for Level {}

impl PartialOrd for Level {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Level {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Sharing {
    /// Without links, with levels right to this share of themselves; 0 = exact.
    pub(crate) fn new(accuracy: f64) -> Self {
        Self {
            accuracy,
            ..Self::default()
        }
    }

    /// Adds a link of `rate` bytes per second, above zero and finite.
    pub(crate) fn add_link(&mut self, rate: f64) -> Index {
        let index = self.links.len();
        self.rate.push(rate);
        self.level.push(0.0);
        self.weight.push(0.0);
        self.used.push(0.0);
        self.changes.push(0);
        self.top.push(0.0);
        self.carried.push(0.0);
        self.links.push(Link::default());
        self.crossings.add_link();
        self.queued.push(false);
        self.calendar_places.grow(index + 1);
        index as Index
    }

    /// Rate of a link in bytes per second.
    pub(crate) fn rate(&self, link: Index) -> f64 {
        self.rate[link as usize]
    }

    /// Gives a link another rate. Takes effect with [`Sharing::settle`].
    pub(crate) fn set_rate(&mut self, link: Index, rate: f64) {
        self.rate[link as usize] = rate;
        self.queue(link, self.level[link as usize]);
    }

    /// How long the link held flows back until now, in seconds.
    pub(crate) fn busy_s(&self, link: Index) -> f64 {
        let state = &self.links[link as usize];
        let open_s = if self.crossings.is_busy(link) {
            self.now_s - state.busy_since_s
        } else {
            0.0
        };
        state.busy_s + open_s
    }

    /// When the next flow ends, if none comes or goes before.
    pub(crate) fn next_s(&self) -> Option<f64> {
        self.calendar.first().map(|(time_s, _)| time_s)
    }

    /// Lets time pass.
    ///
    /// PRECONDITION: settled, and `now_s` is neither before now nor after [`Sharing::next_s`].
    pub(crate) fn advance(&mut self, now_s: f64) {
        self.now_s = now_s;
    }

    /// Makes the allocation max-min fair again after flows came or went.
    pub(crate) fn settle(&mut self) {
        // Each link is evaluated about once; only near-ties in unlucky order need more. A full refill always ends.
        let mut patience = 64 * self.links.len() + 1024;
        while let Some(Reverse((_, link))) = self.queue.pop() {
            if patience == 0 {
                self.refill();
                break;
            }
            patience -= 1;
            self.queued[link as usize] = false;
            self.evaluate(link);
        }
        while let Some(link) = self.touched.pop() {
            self.reschedule(link);
        }
    }

    /// Brings one link to the level that the links crossing it leave it.
    fn evaluate(&mut self, link: Index) {
        let at = link as usize;
        let (rate, own) = (self.rate[at], self.weight[at]);
        if own == 0.0 {
            self.sum(link);
            let (used, most) = (self.used[at], rate * (1.0 + self.accuracy));
            if used <= most * (1.0 + EQUAL) {
                self.crossings.certify(link, (most / used).max(1.0), &self.level);
                return;
            }
        } else if self.changes[at] >= SUM_AGAIN {
            self.sum(link);
        }
        let level = if own > 0.0 {
            (rate - self.used[at]) / own
        } else {
            f64::MIN
        };
        if self.higher(self.top[at], level) {
            // Holders of high levels may have gone.
            self.sum(link);
        }
        if self.higher(self.top[at], level) {
            let level = self.pull(link, level);
            // Exactly, or the links that it pulled from might pull back.
            self.set_level(link, level);
        } else if (level - self.level[at]).abs() > self.still() * level {
            self.set_level(link, level);
        }
    }

    /// Adds up what flows held by others use of a link, and finds the highest level among their holders.
    fn sum(&mut self, link: Index) {
        let (mut used, mut top) = (0.0, 0.0_f64);
        for share in self.crossings.shares(link) {
            let level = self.level[share.holder as usize];
            used += share.weight * level;
            top = top.max(level);
        }
        let at = link as usize;
        (self.used[at], self.top[at], self.changes[at]) = (used, top, 0);
    }

    /// Takes over the flows on `link` that other links let send at more than the link's own level, highest first.
    /// Returns the new level.
    fn pull(&mut self, link: Index, mut level: f64) -> f64 {
        let at = link as usize;
        let mut used = self.used[at];
        let of = |share: &crossings::Share| self.level[share.holder as usize];
        let mut above: Vec<_> = self
            .crossings
            .shares(link)
            .iter()
            .filter(|share| self.higher(of(share), level))
            .collect();
        above.sort_unstable_by(|a, b| of(b).total_cmp(&of(a)).then(a.holder.cmp(&b.holder)));
        let mut own = self.weight[at];
        let mut holders = Vec::with_capacity(above.len());
        for share in above {
            if !self.higher(of(share), level) {
                break;
            }
            used -= share.weight * of(share);
            own += share.weight;
            level = (self.rate[at] - used) / own;
            holders.push(share.holder);
        }
        if self.weight[at] == 0.0 {
            // No other link reads this level yet, except those that the moves below queue.
            self.level[at] = level;
        }
        for holder in holders {
            let mut moving = std::mem::take(&mut self.scratch);
            moving.extend(
                self.links[holder as usize]
                    .held
                    .numbers()
                    .filter(|&slot| self.flows[slot as usize].path.contains(&link)),
            );
            for slot in moving.drain(..) {
                self.rehome(slot, link);
            }
            self.scratch = moving;
        }
        self.sum(link);
        (self.rate[at] - self.used[at]) / self.weight[at]
    }

    fn set_level(&mut self, link: Index, level: f64) {
        let at = link as usize;
        if (level - self.level[at]).abs() <= STILL * level {
            return;
        }
        self.sync(link);
        let change = level - self.level[at];
        self.level[at] = level;
        let mut reached = std::mem::take(&mut self.scratch);
        for crossing in self.crossings.busy_links(link) {
            let crossed = crossing.link as usize;
            self.used[crossed] += crossing.weight * change;
            self.changes[crossed] += 1;
            self.top[crossed] = self.top[crossed].max(level);
            // One that stays level as it is has nothing to pass on.
            let found = (self.rate[crossed] - self.used[crossed]) / self.weight[crossed];
            let off = (found - self.level[crossed]).abs() > self.still() * found;
            if off || self.higher(level, self.level[crossed]) {
                reached.push(crossing.link);
            }
        }
        self.crossings
            .for_each_exhausted(link, level, |idle| reached.push(idle));
        for crossed in reached.drain(..) {
            self.queue(crossed, level);
        }
        self.scratch = reached;
    }

    /// Has `link` evaluated; if idle, as soon as all links below `level` are done.
    fn queue(&mut self, link: Index, level: f64) {
        let at = link as usize;
        if !std::mem::replace(&mut self.queued[at], true) {
            let level = if self.weight[at] > 0.0 { self.level[at] } else { level };
            self.queue.push(Reverse((Level(level), link)));
        }
    }

    /// Brings the clock of `link` up to now, before its level or its flows change.
    fn sync(&mut self, link: Index) {
        let state = &mut self.links[link as usize];
        state.clock += self.level[link as usize] * (self.now_s - state.at_s);
        state.at_s = self.now_s;
        if !std::mem::replace(&mut state.touched, true) {
            self.touched.push(link);
        }
    }

    fn reschedule(&mut self, link: Index) {
        let state = &mut self.links[link as usize];
        state.touched = false;
        match state.held.first() {
            Some((end, _)) if end < f64::INFINITY => {
                let time_s = state.at_s + (end - state.clock).max(0.0) / self.level[link as usize];
                self.calendar.set(time_s, link, &mut self.calendar_places);
            }
            _ => self.calendar.remove(link, &mut self.calendar_places),
        }
    }

    /// By how much of itself a level may be off. Half the accuracy: a flow moves for a difference twice as large, so never
    /// for one that is not there.
    fn still(&self) -> f64 {
        (self.accuracy / 2.0).max(STILL)
    }

    /// Whether level `a` is above level `b` by more than counts.
    fn higher(&self, a: f64, b: f64) -> bool {
        a > b + self.accuracy.max(EQUAL) * b.abs()
    }
}
