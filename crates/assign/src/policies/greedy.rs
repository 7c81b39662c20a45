//! Choreo's greedy network-aware placement (section 5, Algorithm 1), implemented literally.

use std::cmp::Reverse;

use gavotte_net::Sharing;

use crate::error::PlaceError;
use crate::packing::capacity_left::Room;
use crate::packing::task_by_task::Partial;
use crate::policies::policy::Policy;
use crate::problem::{Assignment, Problem};

/// Takes the transfers in descending order of bytes, and puts each on the path where it would be fastest.
///
/// 1. A path is an ordered pair of hosts. A path within a host is infinitely fast.
/// 2. Of equally fast paths the first wins, by sending host and then by receiving host. Of equal transfers the one
///    given first comes first. Phases do not affect the order.
/// 3. Tasks that send and receive nothing come last, on the first host with room.
/// 4. A task never moves again. So a large task can be left without a host although a placement exists. That is an
///    error, as in the paper.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn place(&self, problem: &Problem, _seed: u64) -> Result<Assignment, PlaceError> {
        let mut order: Vec<usize> = (0..problem.transfers.len()).collect();
        order.sort_by_key(|&t| Reverse(problem.transfers[t].bytes));
        let mut partial = Partial::new(problem)?;
        let mut paths = Paths::new(problem);
        // Transfers already in progress take their share, like transfers placed before.
        problem.load.iter().for_each(|load| paths.add(load.source, load.target));
        for t in order {
            let (i, j) = (problem.transfers[t].source, problem.transfers[t].target);
            let Some((m, n)) = paths.best(&partial, i, j) else {
                let mut waiting = [i, j].into_iter().filter(|&task| partial.host_of(task).is_none());
                let alone = waiting.find(|&task| partial.room().first(task).is_none());
                return Err(partial.none_for(self.name(), alone.unwrap_or(j)));
            };
            for (task, host) in [(i, m), (j, n)] {
                if partial.host_of(task).is_none() {
                    partial.put(task, host);
                }
            }
            paths.add(m, n);
        }
        for task in partial.waiting() {
            let first = partial.room().first(task);
            partial.put(task, first.ok_or_else(|| partial.none_for(self.name(), task))?);
        }
        partial.finish(self.name())
    }
}

/// The number of transfers on every path, egress and group link so far.
struct Paths<'a> {
    problem: &'a Problem,
    /// By [`gavotte_net::Network::pair_index`], from the first pair.
    on_pair: Vec<u32>,
    out_of: Vec<u32>,
    up: Vec<u32>,
    down: Vec<u32>,
    /// The rate of the fastest path from each host to another machine, and to another host of its own machine, in
    /// bit/s.
    fastest_far: Vec<f64>,
    fastest_near: Vec<f64>,
}

impl<'a> Paths<'a> {
    fn new(problem: &'a Problem) -> Self {
        let count = problem.capacity.len();
        let fastest = |m: usize, near: bool| {
            if !problem.network.paired() {
                return f64::INFINITY;
            }
            let others = (0..count).filter(|&n| n != m && problem.network.colocated(m, n) == near);
            others
                .map(|n| problem.network.pair_rate(m, n).bps())
                .fold(0.0, f64::max)
        };
        Self {
            problem,
            on_pair: vec![0; problem.network.link_count() - problem.network.first_pair()],
            out_of: vec![0; count],
            up: vec![0; problem.network.groups().len()],
            down: vec![0; problem.network.groups().len()],
            fastest_far: (0..count).map(|m| fastest(m, false)).collect(),
            fastest_near: (0..count).map(|m| fastest(m, true)).collect(),
        }
    }

    /// Lines 3 to 14: the fastest path whose ends have room for those of the two tasks that have no host yet.
    fn best(&self, partial: &Partial, i: usize, j: usize) -> Option<(usize, usize)> {
        let (hosts, room) = (0..self.problem.capacity.len(), partial.room());
        match (partial.host_of(i), partial.host_of(j)) {
            (Some(m), Some(n)) => Some((m, n)),
            (Some(m), None) => self.fastest(hosts.filter(|&n| room.fits(j, n)).map(|n| (m, n))),
            (None, Some(n)) => self.fastest(hosts.filter(|&m| room.fits(i, m)).map(|m| (m, n))),
            (None, None) => self.best_of_all(room, i, j),
        }
    }

    /// The fastest path of all pairs of hosts. Rows that cannot beat the best path so far are skipped.
    fn best_of_all(&self, room: &Room, i: usize, j: usize) -> Option<(usize, usize)> {
        let ends: Vec<usize> = (0..self.problem.capacity.len()).filter(|&n| room.fits(j, n)).collect();
        let mut best: Option<(f64, (usize, usize))> = None;
        for m in (0..self.problem.capacity.len()).filter(|&m| room.fits(i, m)) {
            let both = room.fits_both(i, j, m);
            let limit = if both { f64::INFINITY } else { self.ceiling(m) };
            if best.is_some_and(|(rate, _)| limit <= rate) {
                continue;
            }
            let fit = |n: usize| {
                if n == m {
                    both
                } else {
                    room.fits_next_to((i, m), (j, n))
                }
            };
            for &n in ends.iter().filter(|&&n| fit(n)) {
                let rate = self.rate_seen(m, n);
                if best.is_none_or(|(most, _)| rate > most) {
                    best = Some((rate, (m, n)));
                }
            }
        }
        best.map(|(_, path)| path)
    }

    /// The first path of the highest rate.
    fn fastest(&self, paths: impl Iterator<Item = (usize, usize)>) -> Option<(usize, usize)> {
        let rated = paths.map(|(m, n)| (self.rate_seen(m, n), (m, n)));
        rated
            .reduce(|best, next| if next.0 > best.0 { next } else { best })
            .map(|(_, path)| path)
    }

    /// The rate in bit/s that one more transfer would see from `m` to `n` (line 13).
    ///
    /// * Pipe model: its share of the pair.
    /// * Hose model: the lower of the pair's rate and its share of the egress.
    /// * Groups: also at most its share of each group link.
    ///
    /// Hosts of one machine share the pair only.
    fn rate_seen(&self, m: usize, n: usize) -> f64 {
        let network = &self.problem.network;
        let pair = network.pair_rate(m, n).bps();
        if m == n {
            return pair;
        }
        if !network.capped(m, n) {
            let others = self.pair_at(m, n).map_or(0, |at| self.on_pair[at]);
            return share(pair, others);
        }
        let rate = pair.min(share(network.hosts()[m].egress.bps(), self.out_of[m]));
        if network.sharing() == Sharing::Hose {
            return rate;
        }
        let groups = network.groups();
        let up = network.left(m, n).map(|g| share(groups[g].up.bps(), self.up[g]));
        let down = network.left(n, m).map(|g| share(groups[g].down.bps(), self.down[g]));
        up.chain(down).fold(rate, f64::min)
    }

    /// An upper bound on the rate that one more transfer from `m` to another host would see.
    fn ceiling(&self, m: usize) -> f64 {
        let far = match self.problem.network.sharing() {
            Sharing::Pipe => self.fastest_far[m],
            Sharing::Hose | Sharing::Groups => {
                self.fastest_far[m].min(share(self.problem.network.hosts()[m].egress.bps(), self.out_of[m]))
            }
        };
        far.max(self.fastest_near[m])
    }

    /// The place of a pair in `on_pair`, if the pair is a link.
    fn pair_at(&self, m: usize, n: usize) -> Option<usize> {
        let network = &self.problem.network;
        network.pair_index(m, n).map(|index| index - network.first_pair())
    }

    /// Counts a transfer from `m` to `n`.
    fn add(&mut self, m: usize, n: usize) {
        if m == n {
            return;
        }
        if let Some(at) = self.pair_at(m, n) {
            self.on_pair[at] += 1;
        }
        if !self.problem.network.colocated(m, n) {
            self.out_of[m] += 1;
            self.problem.network.left(m, n).for_each(|g| self.up[g] += 1);
            self.problem.network.left(n, m).for_each(|g| self.down[g] += 1);
        }
    }
}

/// The share of `rate` that one more transfer would get in addition to `others`.
fn share(rate: f64, others: u32) -> f64 {
    rate / (f64::from(others) + 1.0)
}
