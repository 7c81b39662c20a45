//! Improves rings by simulated annealing over the order of hosts and over the hosts that hang from members.

use gavotte_net::Volume;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::costs::Costs;
use crate::error::TreeError;
use crate::ring::{Ring, RingOperation, ring_time};

/// Weight of the mean host's time relative to the busiest one's. It makes near hosts adjacent.
const MEAN_COUNTS: f64 = 0.02;

/// Weight of the eighth-power mean. With the busiest host's time alone, most moves gain nothing. At 196 hosts whose own caps limit,
/// the resulting allreduce takes 12 % less time.
const NORM_COUNTS: f64 = 0.5;

/// Number of places drawn to find a near one.
const DRAWN: usize = 8;

/// Temperature at the start and end of a chain, as a share of its initial time.
const HOT: f64 = 0.02;
const COLD: f64 = 0.000_05;

/// A ring, the best number of segments for it, and its time.
#[derive(Clone, Debug)]
pub struct FoundRing {
    /// The members in ring order, and the hosts that hang from them.
    pub ring: Ring,
    /// Number of pieces of a block, or of a member's share.
    pub segments: u32,
    /// Its duration according to [`ring_time`]; or the full time of the busiest link that messages share, if that is
    /// longer.
    pub seconds: f64,
}

/// Searches for the ring and the number of segments with the shortest time. `operation.segments` is the largest number
/// allowed; `steps` is the total number of moves tried.
///
/// # Errors
///
/// If there are no hosts, the bytes are invalid, or every ring found uses a pair that cannot be used.
pub fn search_ring(costs: &Costs, operation: RingOperation, steps: u64, seed: u64) -> Result<FoundRing, TreeError> {
    Ok(ring_candidates(costs, operation, steps, seed)?.swap_remove(0))
}

/// The results of a search and its starting points, each with its best number of segments, the best first.
pub(crate) fn ring_candidates(
    costs: &Costs,
    operation: RingOperation,
    steps: u64,
    seed: u64,
) -> Result<Vec<FoundRing>, TreeError> {
    let operation = operation.check()?;
    let by_rank = Ring::by_rank(costs.hosts())?;
    let mut rings = vec![by_rank];
    for (number, start) in [(0..costs.hosts()).collect(), nearest(costs, operation)]
        .into_iter()
        .enumerate()
    {
        let mut chain = Chain::new(costs, operation, start, seed.wrapping_add(number as u64));
        rings.push(chain.state.ring());
        chain.run(steps / 2);
        rings.push(chain.best.1.ring());
    }
    rings.dedup();
    let mut best_rings = Vec::new();
    for ring in rings {
        let full_s = full_s(costs, &ring, operation);
        let counts = std::iter::successors(Some(1_u32), |count| Some(count * 2));
        let mut best: Option<FoundRing> = None;
        for segments in counts.take_while(|&count| count <= operation.segments) {
            let seconds = ring_time(costs, &ring, RingOperation { segments, ..operation })?.max(full_s);
            if best.as_ref().is_none_or(|best| seconds < best.seconds) {
                let ring = ring.clone();
                best = Some(FoundRing {
                    ring,
                    segments,
                    seconds,
                });
            }
        }
        best_rings.extend(best.filter(|best_rings| best_rings.seconds.is_finite()));
    }
    best_rings.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if best_rings.is_empty() {
        return Err(TreeError::Unreachable(0));
    }
    Ok(best_rings)
}

/// The duration of a ring by [`ring_time`]; or the full time of the busiest link that messages share, if that is longer.
pub(crate) fn ring_bound_s(costs: &Costs, ring: &Ring, operation: RingOperation) -> Result<f64, TreeError> {
    Ok(ring_time(costs, ring, operation)?.max(full_s(costs, ring, operation)))
}

/// A lower bound on the time that the busiest link shared by messages is full.
fn full_s(costs: &Costs, ring: &Ring, operation: RingOperation) -> f64 {
    let (mut load_s, shared) = (Vec::new(), costs.shared());
    shared.clear(&mut load_s);
    let (members, hosts) = (ring.members(), ring.hosts());
    for (place, &member) in members.iter().enumerate() {
        let (next, hung) = ((place + 1) % members.len(), ring.hung(place));
        let (on, own, down) = if operation.reduce {
            (2.0 * (members.len() as f64 - 1.0) / members.len() as f64, 1.0, 1.0)
        } else {
            ((hosts - 1 - ring.hung(next).len()) as f64, 1.0, (hosts - 1) as f64)
        };
        if next != place {
            shared.count(&mut load_s, member, members[next], Volume(on * operation.bytes));
        }
        for &host in hung {
            shared.count(&mut load_s, host, member, Volume(own * operation.bytes));
            shared.count(&mut load_s, member, host, Volume(down * operation.bytes));
        }
    }
    load_s.into_iter().fold(0.0, f64::max)
}

/// A ring that starts at host 0 and always continues with the nearest host that is left.
fn nearest(costs: &Costs, operation: RingOperation) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.hosts()).collect();
    for at in 1..order.len() {
        let from = order[at - 1];
        let seconds = |&place: &usize| costs.seconds(from, order[place], Volume(operation.bytes));
        let next = (at..order.len()).min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        order.swap(at, next.unwrap_or(at));
    }
    order
}

/// Hosts in a circle; a hanging host hangs from the nearest member before it.
#[derive(Clone, Debug)]
struct State {
    order: Vec<usize>,
    hangs: Vec<bool>,
}

impl State {
    fn ring(&self) -> Ring {
        let start = self
            .order
            .iter()
            .position(|&host| !self.hangs[host])
            .unwrap_or_default();
        let (mut members, mut hung) = (Vec::new(), Vec::<Vec<usize>>::new());
        for &host in self.order[start..].iter().chain(&self.order[..start]) {
            match hung.last_mut() {
                Some(last) if self.hangs[host] => last.push(host),
                _ => {
                    members.push(host);
                    hung.push(Vec::new());
                }
            }
        }
        Ring::new(members, hung).expect("moves keep each host once")
    }
}

struct Chain<'a> {
    costs: &'a Costs,
    operation: RingOperation,
    state: State,
    /// Place of the host that is busy for longest.
    worst: usize,
    best: (f64, State),
    load_s: Vec<f64>,
    rng: Xoshiro256PlusPlus,
}

impl<'a> Chain<'a> {
    fn new(costs: &'a Costs, operation: RingOperation, order: Vec<usize>, seed: u64) -> Self {
        let hangs = vec![false; order.len()];
        let state = State { order, hangs };
        Self {
            costs,
            operation,
            best: (f64::INFINITY, state.clone()),
            state,
            worst: 0,
            load_s: Vec::new(),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn run(&mut self, steps: u64) {
        let mut value = self.value();
        self.best = (value, self.state.clone());
        if self.state.order.len() < 3 {
            return;
        }
        let mut temperature = if value.is_finite() { HOT * value } else { 0.0 };
        let cooling = (COLD / HOT).powf(1.0 / steps.max(1) as f64);
        let mut before = self.state.clone();
        for _ in 0..steps {
            temperature *= cooling;
            let worst = self.worst;
            self.propose();
            let then = self.value();
            let more = then - value;
            if more <= 0.0 || more < -temperature * self.rng.random::<f64>().ln() {
                value = then;
                before.clone_from(&self.state);
                if value < self.best.0 {
                    self.best = (value, self.state.clone());
                }
            } else {
                self.state.clone_from(&before);
                self.worst = worst;
            }
        }
    }

    /// Changes the order or the hanging hosts; at least one member remains.
    fn propose(&mut self) {
        let count = self.state.order.len();
        let one = if self.rng.random_bool(0.5) {
            self.worst
        } else {
            self.rng.random_range(0..count)
        };
        let other = self.rng.random_range(0..count);
        let (low, high) = (one.min(other), one.max(other));
        match self.rng.random_range(0..5) {
            0 => self.state.order.swap(one, other),
            1 => self.state.order[low..=high].reverse(),
            2 if one < other => self.state.order[low..=high].rotate_left(1),
            2 => self.state.order[low..=high].rotate_right(1),
            3 => {
                // A near host after this one, with the hosts that follow it: those that hang from it, or its
                // neighbours.
                let host = self.state.order[one];
                let seconds = |&place: &usize| {
                    self.costs
                        .seconds(host, self.state.order[place], Volume(self.operation.bytes))
                };
                let drawn: Vec<usize> = (0..DRAWN).map(|_| self.rng.random_range(0..count)).collect();
                let others = drawn.into_iter().filter(|&place| place != one);
                let Some(near) = others.min_by(|a, b| seconds(a).total_cmp(&seconds(b))) else {
                    return;
                };
                let length = self.rng.random_range(1..=3.min(count - 1));
                let follows = (0..length).map(|step| self.state.order[(near + step) % count]);
                let part: Vec<usize> = follows.take_while(|&other| other != host).collect();
                self.state.order.retain(|other| !part.contains(other));
                let at = self
                    .state
                    .order
                    .iter()
                    .position(|&other| other == host)
                    .unwrap_or_default()
                    + 1;
                self.state.order.splice(at..at, part);
            }
            _ => {
                let host = self.state.order[one];
                self.state.hangs[host] = !self.state.hangs[host];
                if self.state.hangs.iter().all(|&hangs| hangs) {
                    self.state.hangs[host] = false;
                }
                // Mostly move it directly to another place: after a host with rate to spare.
                if self.rng.random_bool(0.7) {
                    self.state.order.remove(one);
                    self.state.order.insert(other.min(count - 1), host);
                }
            }
        }
    }

    /// Approximately the value of [`ring_time`], computed from how long each host is busy. The shares go round only
    /// after the slowest hanging vector has arrived, so the two halves of a combination follow each other.
    fn value(&mut self) -> f64 {
        let (order, hangs) = (&self.state.order, &self.state.hangs);
        let count = order.len();
        let start = order.iter().position(|&host| !hangs[host]).unwrap_or_default();
        let members = hangs.iter().filter(|&&hangs| !hangs).count();
        let (each_bytes, pieces) = if self.operation.reduce {
            (self.operation.bytes / members as f64, members)
        } else {
            (self.operation.bytes, count)
        };
        let (mut up_s, mut down_s, mut sum_s, mut powers, mut worst_s) = (0.0_f64, 0.0_f64, 0.0, 0.0, -1.0);
        let (shared, load_s) = (self.costs.shared(), &mut self.load_s);
        shared.clear(load_s);
        let mut step = 0;
        while step < count {
            let place = (start + step) % count;
            let from = order[place];
            let mut busy_s = 0.0;
            let mut last = step + 1;
            while last < count && hangs[order[(start + last) % count]] {
                let host = order[(start + last) % count];
                let sends_s = self.costs.seconds(host, from, Volume(each_bytes));
                let own_s = if self.operation.reduce {
                    pieces as f64 * sends_s
                } else {
                    sends_s
                };
                (up_s, sum_s) = (up_s.max(own_s), sum_s + own_s);
                if own_s > worst_s && self.operation.reduce {
                    (worst_s, self.worst) = (own_s, (start + last) % count);
                }
                let blocks = if self.operation.reduce { pieces } else { count - 1 };
                let own_bytes = if self.operation.reduce {
                    self.operation.bytes
                } else {
                    each_bytes
                };
                shared.count(load_s, host, from, Volume(own_bytes));
                shared.count(load_s, from, host, Volume(blocks as f64 * each_bytes));
                busy_s += blocks as f64 * self.costs.seconds(from, host, Volume(each_bytes));
                last += 1;
            }
            if members > 1 {
                let next = order[(start + last) % count];
                let mut group = 1;
                while !self.operation.reduce && group < count && hangs[order[(start + last + group) % count]] {
                    group += 1;
                }
                let blocks = if self.operation.reduce {
                    members - 1
                } else {
                    count - group
                };
                let on_s = blocks as f64 * self.costs.seconds(from, next, Volume(each_bytes));
                let rounds = if self.operation.reduce { 2.0 } else { 1.0 };
                shared.count(load_s, from, next, Volume(rounds * blocks as f64 * each_bytes));
                busy_s += on_s;
                if self.operation.reduce {
                    (up_s, sum_s) = (up_s.max(on_s), sum_s + on_s);
                }
            }
            (down_s, sum_s, powers) = (down_s.max(busy_s), sum_s + busy_s, powers + busy_s.powi(8));
            if busy_s > worst_s {
                (worst_s, self.worst) = (busy_s, place);
            }
            step = last;
        }
        let count = count as f64;
        let full_s = load_s.iter().copied().fold(0.0, f64::max);
        // Add a small share of the load of all links, too, so that each crossing less counts.
        let crossed_s = MEAN_COUNTS * load_s.iter().sum::<f64>() / load_s.len().max(1) as f64;
        (up_s + down_s).max(full_s)
            + crossed_s
            + NORM_COUNTS * (powers / count).powf(0.125)
            + MEAN_COUNTS * sum_s / count
    }
}
