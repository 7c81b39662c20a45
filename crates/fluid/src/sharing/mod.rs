//! Max-min fair sharing of links by weighted flows, updated as flows start and end.
//!
//! In a max-min fair allocation every flow is *held back* by a link of its path. That link is full, and no flow on it has a higher rate
//! per weight (Bertsekas and Gallager, Data Networks, 6.5.2). It is the flow's holder, and that rate per weight is the link's *level*.
//! The whole state is the holder of each flow and the level of each link:
//!
//! - A level is `(rate - what flows held elsewhere use) / weight of the own flows`. It depends on the levels of the
//!   holders that cross the link, all of which are lower. A change therefore spreads from low levels to high ones, link
//!   by link. The use of one link by the flows that another link holds is a sum of weights times one level
//!   ([`crossings`]).
//! - The allocation is max-min fair under two conditions: on each link, no crossing holder's level is above the link's own, and
//!   links that hold no flow back have room. A link that finds a higher level *pulls* those flows to itself.
//! - A flow is done when its holder has sent the flow's bytes per weight. Each link has a clock that counts exactly
//!   that. A new level therefore moves one entry in the calendar, not one for each flow.
//!
//! The work of an event is thus proportional to the number of links whose level changes, for any number of flows. The
//! result does not depend on the order of evaluation, since the max-min fair allocation is unique.
//!
//! If thousands of links are full, one additional flow changes almost all levels, most of them very little. With an
//! *accuracy* above zero, a level stays unchanged, and no other link is updated, while its error is at most that share
//! of itself.

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
use gavotte_net::{BitsPerSec, Seconds};
use heap::{Heap, Places};

/// Levels whose relative difference is below this count as equal, so that rounding errors do not move flows back and
/// forth.
const EQUAL: f64 = 1e-11;
/// Smaller relative changes of a level are not passed on.
const STILL: f64 = 1e-13;
/// Number of changes after which the use of a link by other holders' flows is summed again. Each change adds an error
/// of half an ulp, so the sum stays accurate to 6e-14.
const SUM_AGAIN: u32 = 512;
/// Flows that end within this time of each other, relative to the present time, end together.
const TOGETHER: f64 = 1e-12;

/// Links and the flows on them. Rates are bytes per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    now_s: f64,
    /// Largest relative error of a level; 0 = exact.
    accuracy: f64,
    /// By link: capacity.
    rate: Vec<f64>,
    /// By link: rate per weight of the flows that it holds; 0 if there are none.
    level: Vec<f64>,
    /// By link: sum of the weights of the flows that it holds.
    weight: Vec<f64>,
    /// By link that holds flows: its use by other holders' flows, and the number of changes since that was summed.
    used: Vec<f64>,
    changes: Vec<u32>,
    /// By link that holds flows: an upper bound for the levels of the holders among its crossings.
    top: Vec<f64>,
    /// By link: bytes of the flows that have ended.
    carried: Vec<f64>,
    links: Vec<Link>,
    crossings: Crossings,
    flows: Vec<Flow>,
    /// Slots without a flow.
    free: Vec<u32>,
    /// Flow slots in [`Link::held`].
    places: Places,
    /// The end of the next flow of each link.
    calendar: Heap,
    calendar_places: Places,
    /// Links to evaluate, lowest level first.
    queue: BinaryHeap<Reverse<(Level, Index)>>,
    queued: Vec<bool>,
    /// Links whose calendar entry is outdated.
    touched: Vec<Index>,
    scratch: Vec<Index>,
}

/// The data that only evaluations of a single link need.
#[derive(Clone, Debug, Default)]
struct Link {
    /// The flows that it holds, by the clock at which they end.
    held: Heap,
    /// Bytes sent per weight since it last began to hold flows.
    clock: f64,
    /// The time of the clock's last update.
    at_s: f64,
    touched: bool,
    /// How long it has held flows, and since when it does.
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
    /// Creates a solver without links, whose levels have at most this relative error; 0 = exact.
    pub(crate) fn new(accuracy: f64) -> Self {
        Self {
            accuracy,
            ..Self::default()
        }
    }

    /// Adds a link of a finite rate.
    pub(crate) fn add_link(&mut self, rate: BitsPerSec) -> Index {
        let index = self.links.len();
        self.rate.push(rate.bytes_per_s());
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

    /// Rate of a link in bit/s.
    pub(crate) fn rate_bps(&self, link: Index) -> f64 {
        self.rate[link as usize] * 8.0
    }

    /// Changes the rate of a link. Takes effect with [`Sharing::settle`].
    pub(crate) fn set_rate(&mut self, link: Index, rate: BitsPerSec) {
        self.rate[link as usize] = rate.bytes_per_s();
        self.queue(link, self.level[link as usize]);
    }

    /// How long the link has held flows so far, in seconds.
    pub(crate) fn busy_s(&self, link: Index) -> f64 {
        let state = &self.links[link as usize];
        let open_s = if self.crossings.is_busy(link) {
            self.now_s - state.busy_since_s
        } else {
            0.0
        };
        state.busy_s + open_s
    }

    /// When the next flow ends, unless another flow starts or ends before.
    pub(crate) fn next_s(&self) -> Option<f64> {
        self.calendar.first().map(|(time_s, _)| time_s)
    }

    /// Advances time.
    ///
    /// PRECONDITION: settled, and `now_s` is neither before now nor after [`Sharing::next_s`].
    pub(crate) fn advance(&mut self, Seconds(now_s): Seconds) {
        self.now_s = now_s;
    }

    /// Makes the allocation max-min fair again after flows started or ended.
    pub(crate) fn settle(&mut self) {
        // Each link is evaluated about once; only near-ties in an unlucky order need more. A full refill always ends.
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

    /// Sets the level of one link to what the links that cross it leave.
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
            // Holders with high levels may have gone.
            self.sum(link);
        }
        if self.higher(self.top[at], level) {
            let level = self.pull(link, level);
            // Exactly, since otherwise the links that it pulled from might pull back.
            self.set_level(link, level);
        } else if (level - self.level[at]).abs() > self.still() * level {
            self.set_level(link, level);
        }
    }

    /// Sums the use of a link by other holders' flows, and finds the highest level of those holders.
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

    /// Takes over the flows on `link` whose holders' levels exceed the link's own, highest first. Returns the new
    /// level.
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
            // No other link reads this level yet, except those that the following moves queue.
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
            // A link whose level does not change has nothing to pass on.
            let share = (self.rate[crossed] - self.used[crossed]) / self.weight[crossed];
            let off = (share - self.level[crossed]).abs() > self.still() * share;
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

    /// Schedules the evaluation of `link`; if it is idle, right after all links below `level`.
    fn queue(&mut self, link: Index, level: f64) {
        let at = link as usize;
        if !std::mem::replace(&mut self.queued[at], true) {
            let level = if self.weight[at] > 0.0 { self.level[at] } else { level };
            self.queue.push(Reverse((Level(level), link)));
        }
    }

    /// Advances the clock of `link` to the present, before its level or its flows change.
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

    /// Largest relative error of a level. It is half the accuracy: a flow moves only for twice that difference, so
    /// never because of an error.
    fn still(&self) -> f64 {
        (self.accuracy / 2.0).max(STILL)
    }

    /// Whether level `a` exceeds level `b` by more than the tolerance.
    fn higher(&self, a: f64, b: f64) -> bool {
        a > b + self.accuracy.max(EQUAL) * b.abs()
    }
}
