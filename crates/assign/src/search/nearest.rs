//! Placements whose tasks are near each other: the longest latency between two tasks that exchange bytes is least.
//!
//! This is a bottleneck assignment problem, so single moves rarely shorten the longest latency. Each chain therefore
//! minimizes the sum of a high power of all latencies, relative to the longest one of the best placement so far. Chains
//! start at the given placements and at clusters of near hosts.

use std::cmp::Reverse;
use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::packing::units_on_hosts::{NOWHERE, Packing};
use crate::problem::Problem;
use crate::search::Search;
use crate::search::anneal::Chain;
use crate::search::link_loads::Rates;

/// The largest number of hosts whose latencies are kept as a table.
const MOST_HOSTS: usize = 4096;

/// Number of independent chains.
const CHAINS: u64 = 2;

/// The power of latencies whose sum a chain minimizes.
const POWER: i32 = 16;

/// Latencies above this multiple of the longest one so far count as this multiple.
const FAR: f64 = 1.5;

/// Temperatures at the start and the end of a round; a pair at the longest latency so far costs 1.
const HOT: f64 = 1.0;
const COLD: f64 = 0.02;

/// Tenths of the time and of the steps for one slow cooling.
const SLOW_TENTHS: u64 = 7;

/// Steps of a round, for each unit, and the fewest.
const STEPS_PER_UNIT: u64 = 4000;
const FEWEST_STEPS: u64 = 40_000;

/// Cost of exceeding the time limit of placements by its whole, and of a placement that just keeps it.
const LATE: f64 = 200.0;
const IN_TIME: f64 = 0.1;

/// Rounds without a better placement after which a chain ends.
const ROUNDS_IN_VAIN: u32 = 12;

/// The most clusters of near hosts, and of attempts to put a unit on a host while they are made.
const CLUSTERS: usize = 64;
const CLUSTER_WORK: usize = 20_000_000;

/// Clusters that a chain starts from.
const BEST_CLUSTERS: usize = 6;

/// Number of attempts to find a unit with a partner that is far away.
const LOOKS: usize = 12;

/// Share of proposals that send a unit to a host near a partner.
const NEAR: f64 = 0.8;

/// Steps between two looks at the clock.
const PATIENCE: u64 = 512;

impl Search<'_> {
    /// Finds a placement that takes at most `most_s` seconds, broken rules' prices included, and whose tasks are as near
    /// each other as possible. The result has the host of each task.
    ///
    /// `None` if no placement was found whose longest latency is less than that of every start that keeps the time.
    pub fn nearest(&self, problem: &Problem, seed: u64, starts: &[Vec<usize>], most_s: f64) -> Option<Vec<usize>> {
        if problem.capacity.len() > MOST_HOSTS || problem.units.edges.is_empty() {
            return None;
        }
        let table = Table::new(problem);
        let rates = Rates::new(problem);
        let units = &problem.units;
        let given = starts.iter().filter_map(|host_of| units.gather(host_of));
        let mut packings: Vec<Packing> = given
            .filter_map(|host_of| Packing::of(problem, units, &host_of))
            .collect();
        let known = packings.len();
        packings.extend(table.clusters(problem, seed));
        let work = |number: u64, used: &dyn Fn() -> f64| {
            let starts = (&packings[..known], &packings[known..]);
            let mut walk = Walk::new(problem, &table, &rates, seed.wrapping_add(number), most_s)?;
            walk.first = number as usize;
            walk.walk(starts, self.steps / CHAINS, used)
        };
        let candidates: Vec<Option<(f64, f64, Vec<usize>)>> = if self.threads > 1 {
            let work = &work;
            thread::scope(|scope| {
                let walks = (0..CHAINS).map(|number| scope.spawn(move || work(number, &|| (self.gone)())));
                let walks: Vec<_> = walks.collect();
                walks.into_iter().map(|walk| walk.join().unwrap_or(None)).collect()
            })
        } else {
            // The chains share the time.
            (0..CHAINS)
                .map(|number| work(number, &|| (self.gone)() * CHAINS as f64 - number as f64))
                .collect()
        };
        let best = candidates
            .into_iter()
            .flatten()
            .min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)))?;
        Some(units.spread(&best.2))
    }
}

/// Latencies between hosts, and the partners of units.
struct Table {
    hosts: usize,
    /// Latency from host `m` to host `n` in seconds at `m * hosts + n`; infinite if it is unknown.
    seconds: Vec<f64>,
    /// For each host, all others by the larger latency of both directions.
    near: Vec<Vec<u32>>,
    /// For each unit, its partners, and whether the unit sends.
    partners: Vec<Vec<(usize, bool)>>,
}

impl Table {
    fn new(problem: &Problem) -> Self {
        let hosts = problem.capacity.len();
        let latency = |pair: usize| {
            let known = problem.network.latency_s(pair / hosts, pair % hosts);
            known.unwrap_or(f64::INFINITY)
        };
        let seconds: Vec<f64> = (0..hosts * hosts).map(latency).collect();
        let both = |m: usize, n: usize| seconds[m * hosts + n].max(seconds[n * hosts + m]);
        let order = |m: usize| {
            let mut others: Vec<u32> = (0..hosts as u32).filter(|&n| n as usize != m).collect();
            others.sort_by(|&a, &b| both(m, a as usize).total_cmp(&both(m, b as usize)).then(a.cmp(&b)));
            others
        };
        let near = (0..hosts).map(order).collect();
        let partners = problem.units.halves.iter().map(|halves| {
            let mut partners: Vec<(usize, bool)> = halves.iter().map(|half| (half.other, half.sends)).collect();
            partners.sort_unstable();
            partners.dedup();
            partners
        });
        Self {
            hosts,
            near,
            partners: partners.collect(),
            seconds,
        }
    }

    fn between(&self, sends: bool, host: usize, other: usize) -> f64 {
        let (m, n) = if sends { (host, other) } else { (other, host) };
        self.seconds[m * self.hosts + n]
    }

    /// The longest latency of a placement.
    fn longest(&self, packing: &Packing) -> f64 {
        let of_unit = |(unit, partners): (usize, &Vec<(usize, bool)>)| {
            let seconds = partners
                .iter()
                .filter(|(_, sends)| *sends)
                .map(|&(other, sends)| self.between(sends, packing.host_of(unit), packing.host_of(other)));
            seconds.fold(0.0, f64::max)
        };
        self.partners.iter().enumerate().map(of_unit).fold(0.0, f64::max)
    }

    /// Placements that fill the hosts around a centre, the best first.
    fn clusters<'a>(&self, problem: &'a Problem, seed: u64) -> Vec<Packing<'a>> {
        let units = problem.units.len();
        let edges = problem.units.edges.len();
        let most = (CLUSTER_WORK / ((units + edges) * self.hosts).max(1)).min(CLUSTERS);
        let mut centres: Vec<usize> = (0..self.hosts).collect();
        centres.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        let order = self.order(problem);
        let made = centres
            .into_iter()
            .take(most)
            .filter_map(|centre| self.cluster(problem, &order, centre));
        let mut timed: Vec<(f64, Packing)> = made.map(|packing| (self.longest(&packing), packing)).collect();
        timed.sort_by(|one, other| one.0.total_cmp(&other.0));
        timed
            .into_iter()
            .take(BEST_CLUSTERS)
            .map(|(_, packing)| packing)
            .collect()
    }

    /// Units in the order of a breadth-first walk from those with most partners.
    fn order(&self, problem: &Problem) -> Vec<usize> {
        let count = self.partners.len();
        let mut roots: Vec<usize> = (0..count).collect();
        let bound = |unit: usize| problem.units.allowed[unit].is_none();
        roots.sort_by_key(|&unit| (bound(unit), Reverse(self.partners[unit].len()), unit));
        let (mut order, mut seen) = (Vec::with_capacity(count), vec![false; count]);
        for root in roots {
            let mut next = order.len();
            if !seen[root] {
                seen[root] = true;
                order.push(root);
            }
            while next < order.len() {
                for &(other, _) in &self.partners[order[next]] {
                    if !seen[other] {
                        seen[other] = true;
                        order.push(other);
                    }
                }
                next += 1;
            }
        }
        order
    }

    /// Puts each unit where its longest latency to partners is least; of equal hosts, on the one nearest to `centre`.
    fn cluster<'a>(&self, problem: &'a Problem, order: &[usize], centre: usize) -> Option<Packing<'a>> {
        let mut packing = Packing::new(problem, &problem.units);
        packing.put_pinned().ok()?;
        for &unit in order {
            if packing.host_of(unit) != NOWHERE {
                continue;
            }
            let longest = |host: usize| {
                let placed = self.partners[unit]
                    .iter()
                    .filter(|(other, _)| packing.host_of(*other) != NOWHERE);
                let seconds = placed.map(|&(other, sends)| self.between(sends, host, packing.host_of(other)));
                seconds.fold(0.0, f64::max)
            };
            let around = std::iter::once(centre).chain(self.near[centre].iter().map(|&host| host as usize));
            let fitting = around
                .filter(|&host| packing.fits(unit, host))
                .map(|host| (longest(host), host));
            match fitting.reduce(|best, next| if next.0 < best.0 { next } else { best }) {
                Some((_, host)) => packing.put(unit, host),
                None if packing.make_room(unit) => {}
                None => return None,
            }
        }
        Some(packing)
    }
}

/// The length of a cooling in steps, and in shares of the time if its end is after its begin; and its first temperature.
#[derive(Clone, Copy)]
struct Pace {
    steps: u64,
    begin: f64,
    end: f64,
    heat: f64,
}

/// What a chain has found so far, and how it measures latencies.
struct Walk<'a> {
    problem: &'a Problem,
    table: &'a Table,
    rates: &'a Rates,
    rng: Xoshiro256PlusPlus,
    most_s: f64,
    /// The longest latency of the best placement.
    longest: f64,
    best: Option<(f64, Vec<usize>)>,
    /// The start of the slow cooling.
    first: usize,
}

impl<'a> Walk<'a> {
    fn new(problem: &'a Problem, table: &'a Table, rates: &'a Rates, seed: u64, most_s: f64) -> Option<Self> {
        (!problem.units.is_empty()).then(|| Self {
            problem,
            table,
            rates,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            most_s,
            longest: f64::INFINITY,
            best: None,
            first: 0,
        })
    }

    /// The longest latency, the time and the units' hosts of the best placement; `None` if none is better than all known
    /// starts that keep the time.
    fn walk(
        mut self,
        (known, clusters): (&[Packing<'a>], &[Packing<'a>]),
        most_steps: u64,
        used: &dyn Fn() -> f64,
    ) -> Option<(f64, f64, Vec<usize>)> {
        let mut chains: Vec<Chain<'a>> = Vec::new();
        for (number, packing) in known.iter().chain(clusters).enumerate() {
            let chain = Chain::new(self.rates, packing.clone(), self.rng.random());
            self.record(&chain);
            if number < known.len() {
                self.best = None;
            }
            chains.push(chain);
        }
        if chains.is_empty() {
            return None;
        }
        // First one slow cooling over most of the time: from the given placement, or from the best cluster.
        let first = self.first.min(chains.len() - 1);
        let slow = Pace {
            steps: most_steps.saturating_mul(SLOW_TENTHS) / 10,
            begin: used(),
            end: SLOW_TENTHS as f64 / 10.0,
            heat: HOT,
        };
        let mut made = self.round(&mut chains[first], slow, used);
        let round = (self.problem.units.len() as u64 * STEPS_PER_UNIT).max(FEWEST_STEPS);
        let (mut vain, mut turn) = (0, 0);
        while used() < 1.0 && self.longest > 0.0 && vain < ROUNDS_IN_VAIN && made < most_steps {
            // Each second round continues at the best placement, the others at each start in turn.
            let count = chains.len();
            let chain = &mut chains[turn % count];
            if turn % 2 == 0
                && let Some((_, best)) = &self.best
            {
                chain.restart(best);
            }
            let before = self.longest;
            let pace = Pace {
                steps: round.min(most_steps - made),
                begin: 1.0,
                end: 1.0,
                heat: HOT * self.rng.random_range(0.2..1.5),
            };
            made += self.round(chain, pace, used);
            vain = if self.longest < before || turn < count {
                0
            } else {
                vain + 1
            };
            turn += 1;
        }
        let (seconds, host_of) = self.best?;
        Some((self.longest, seconds, host_of))
    }

    /// Keeps the chain's placement if it is better than the best so far.
    fn record(&mut self, chain: &Chain) -> bool {
        let seconds = chain.total_s();
        let longest = self.table.longest(&chain.packing);
        let better = seconds <= self.most_s && !chain.loads.too_dear() && longest < self.longest;
        if better {
            self.longest = longest;
            self.best = Some((seconds, chain.packing.hosts().to_vec()));
        }
        better
    }

    /// One cooling. Returns its steps.
    fn round(&mut self, chain: &mut Chain<'a>, pace: Pace, used: &dyn Fn() -> f64) -> u64 {
        let mut temperature = pace.heat;
        let mut far = self.far(chain);
        for step in 0..pace.steps {
            if step % PATIENCE == PATIENCE - 1 {
                let now = used();
                let by_clock = if pace.end > pace.begin {
                    (now - pace.begin) / (pace.end - pace.begin)
                } else {
                    0.0
                };
                let share = by_clock.max(step as f64 / pace.steps as f64);
                if now >= 1.0 || share >= 1.0 || self.longest <= 0.0 {
                    return step;
                }
                temperature = pace.heat * (COLD / pace.heat).powf(share);
            }
            chain.moves.clear();
            if !self.propose(chain) {
                continue;
            }
            let (cost, count) = self.around(chain);
            let before = cost + self.lateness(chain);
            if !chain.pack() {
                continue;
            }
            chain.follow();
            let (cost, count_now) = self.around(chain);
            let worse = cost + self.lateness(chain) - before;
            if worse > 0.0 && worse >= -temperature * self.rng.random::<f64>().ln() {
                chain.undo();
                continue;
            }
            far = far + count_now - count;
            if far == 0 && self.record(chain) {
                far = self.far(chain);
            }
        }
        pace.steps
    }

    /// The number of pairs of partners whose latency is not less than the longest one so far.
    fn far(&self, chain: &Chain) -> usize {
        let of_unit = |(unit, partners): (usize, &Vec<(usize, bool)>)| {
            let sent = partners.iter().filter(|(_, sends)| *sends);
            let here = chain.packing.host_of(unit);
            let far = |&&(other, sends): &&(usize, bool)| {
                self.table.between(sends, here, chain.packing.host_of(other)) >= self.longest
            };
            sent.filter(far).count()
        };
        self.table.partners.iter().enumerate().map(of_unit).sum()
    }

    /// The cost of the latencies between the units that move and their partners, and the number of those that are not
    /// less than the longest one so far.
    fn around(&self, chain: &Chain) -> (f64, usize) {
        let scale = if self.longest.is_finite() { self.longest } else { 1.0 };
        let (mut cost, mut far) = (0.0, 0);
        for (number, &(unit, _)) in chain.moves.iter().enumerate() {
            let here = chain.packing.host_of(unit);
            for &(other, sends) in &self.table.partners[unit] {
                // A pair of units that both move counts once.
                if chain.moves[..number].iter().any(|&(moved, _)| moved == other) {
                    continue;
                }
                let seconds = self.table.between(sends, here, chain.packing.host_of(other));
                cost += (seconds / scale).min(FAR).powi(POWER);
                far += usize::from(seconds >= self.longest);
            }
        }
        (cost, far)
    }

    /// The cost of the time that the placement takes.
    fn lateness(&self, chain: &Chain) -> f64 {
        let share = if self.most_s > 0.0 {
            chain.total_s() / self.most_s
        } else {
            chain.total_s()
        };
        let dear = if chain.loads.too_dear() { LATE } else { 0.0 };
        IN_TIME * share + LATE * (share - 1.0).max(0.0) + dear
    }

    /// Proposes to move a unit with a far partner to a host near a partner, alone or in exchange for a unit there.
    fn propose(&mut self, chain: &mut Chain) -> bool {
        let units = self.problem.units.len();
        let mut unit = self.rng.random_range(0..units);
        for _ in 0..LOOKS {
            let here = chain.packing.host_of(unit);
            let far = self.table.partners[unit]
                .iter()
                .any(|&(other, sends)| self.table.between(sends, here, chain.packing.host_of(other)) >= self.longest);
            if far {
                break;
            }
            unit = self.rng.random_range(0..units);
        }
        let from = chain.packing.host_of(unit);
        let partners = &self.table.partners[unit];
        let to = if !partners.is_empty() && self.rng.random_bool(NEAR) {
            let (other, _) = partners[self.rng.random_range(0..partners.len())];
            self.near_host(chain.packing.host_of(other))
        } else {
            self.rng.random_range(0..self.table.hosts)
        };
        if to == from {
            return false;
        }
        chain.moves.push((unit, to));
        let residents = chain.packing.on(to);
        if !residents.is_empty() && (!chain.packing.fits(unit, to) || self.rng.random_bool(0.3)) {
            let other = residents[self.rng.random_range(0..residents.len())];
            let aside = if self.rng.random_bool(0.7) {
                from
            } else {
                self.rng.random_range(0..self.table.hosts)
            };
            chain.moves.push((other, aside));
            return aside != to;
        }
        true
    }

    /// A host, or one of those that are nearer to it than the longest latency so far.
    fn near_host(&mut self, host: usize) -> usize {
        let others = &self.table.near[host];
        let latency = |other: u32| {
            let other = other as usize;
            self.table
                .between(true, host, other)
                .max(self.table.between(false, host, other))
        };
        let count = others.partition_point(|&other| latency(other) < self.longest);
        match self.rng.random_range(0..=count) {
            0 => host,
            at => others[at - 1] as usize,
        }
    }
}
