//! Local search: by chains of annealing at different temperatures. Large problems are searched at the bottleneck instead.
//! Where prices or several phases count, chains are restarted from the best of them in ever longer rounds.
//!
//! Work is counted in steps, and limited by steps or by a clock that the caller reads. If only steps limit it, the
//! answer depends on problem, seed, steps and starts, but not on the machine or the number of threads. The chains are
//! independent within a round, and are merged in a fixed order.

pub(crate) mod anneal;
mod descent;
mod ladder;
pub(crate) mod link_loads;
mod link_sum;
pub(crate) mod max_tree;
mod nearest;
pub(crate) mod polish;
mod proposals;
pub(crate) mod starts;

use std::thread;

use gavotte_net::Seconds;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::cuts::by_cuts;
use crate::error::PlaceError;
use crate::packing::units_on_hosts::Packing;
use crate::policies::policies;
use crate::problem::{Assignment, Problem};
use crate::search::anneal::{Chain, Heat, Run};
use crate::search::link_loads::{Loads, Rates};
use crate::search::proposals::{AT_SCALE, SLOWLY};
use crate::search::starts::pack;

/// Number of chains that run in parallel, whatever the number of threads.
const CHAINS: usize = 4;

/// Steps of a chain in the first round: this many for each unit, within limits. Each round without improvement makes
/// the next longer.
const STEPS_PER_UNIT: u64 = 2000;
const FEWEST_STEPS: u64 = 20_000;
const MOST_STEPS: u64 = 2_000_000;
const LONGER: u64 = 2;

/// Steps without a better placement after which the search stops, for each unit and host.
const STEPS_IN_VAIN: u64 = 15_000;

/// A round is the last one, and uses all that is left, if less than this many rounds of its size would be left.
const LAST_ROUNDS: f64 = 2.5;

/// Up to this many placements, all are evaluated. If pairs differ a thousandfold, chains may fail to cross a barrier.
const FEW_PLACEMENTS: usize = 4096;

/// From this many units on, the search works on one start, first everywhere and then at its bottleneck.
const MULTILEVEL_UNITS: usize = 200;

/// Chains of a large problem that cool side by side: two processors are common, and the better of two ends varies less.
const SIDE_CHAINS: usize = 2;

/// Number of minimum cuts to start from; large problems have one, and only if they have no other start. Of several,
/// only this many of the best are starts.
const CUTS: u64 = 8;
const BEST_CUTS: usize = 2;

/// The largest number of units times hosts for which the simple policies are starts, if others exist.
const POLICY_PLACES: usize = 1_000_000;

/// A large problem with so few steps gets the best start after a descent, without a search.
const START_ONLY: u64 = 1;

/// Moves that a descent may try for each step of the search, and its fewest.
const LOOKS_PER_STEP: u64 = 1;
const FEWEST_LOOKS: u64 = 500_000;

/// Steps that a chain spends on one part of a large problem. Many short attempts, each in other surroundings, get past a
/// bottleneck at which few long ones fail.
const FOCUS_STEPS: u64 = 4_000;

/// Until this share of time and steps, a large problem is improved everywhere; after it, only at its bottleneck.
const EVEN_SHARE: f64 = 0.5;

/// Share of the time, and of the steps, for one long cooling. The second constant is the fewest steps that make it
/// worthwhile.
const SLOW_SHARE: f64 = 0.5;
const SLOW_STEPS: u64 = 1_000_000;

const FIRST_HEAT: Heat = heat(0.1, 2e-4, 0);
const LATER_HEAT: Heat = heat(0.04, 2e-4, 0);
const SLOW_HEAT: Heat = heat(0.3, 3e-5, 0);
const EVEN_HEAT: Heat = heat(0.2, 0.03, 16);
const FOCUS_HEAT: Heat = heat(0.02, 1e-4, 0);

const fn heat(start: f64, end: f64, power: i32) -> Heat {
    Heat { start, end, power }
}

/// Default limit of a search's steps.
pub const DEFAULT_STEPS: u64 = 4_000_000;

/// A search with its limits.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// The largest number of proposals, all chains together.
    pub steps: u64,
    /// The largest number of threads; the answer does not depend on it.
    pub threads: usize,
    /// The share of the time that has passed; the search ends at 1. Always 0 if only steps count.
    pub gone: &'a (dyn Fn() -> f64 + Sync),
    /// Whether the polish after the search must end, too. Always false if only steps count.
    pub late: &'a (dyn Fn() -> bool + Sync),
    /// Called from time to time with the best completion time so far.
    pub tell: &'a (dyn Fn(Seconds) + Sync),
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best placement.
    pub assignment: Assignment,
    /// Whether time ran out, so that another run may find another placement.
    pub stopped: bool,
    /// Proposals made.
    pub steps: u64,
    /// Whether every placement was tried, so that none is faster.
    pub tried_all: bool,
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self {
            steps: DEFAULT_STEPS,
            threads: thread::available_parallelism().map_or(1, usize::from),
            gone: &|| 0.0,
            late: &|| false,
            tell: &|_| {},
        }
    }
}

impl Search<'_> {
    /// Finds a placement no worse than greedy's, any baseline's and any of `starts` (the host of each task). Only
    /// placements that keep all rules count.
    ///
    /// # Errors
    /// [`PlaceError::TooDear`] if no placement within the maximum price was found, and [`PlaceError::NoRoom`] if no
    /// start is known and none was found; a placement may still exist.
    pub fn run(&self, problem: &Problem, seed: u64, starts: &[Vec<usize>]) -> Result<Found, PlaceError> {
        if let Some(assignment) = best_of_few(problem) {
            return Ok(Found {
                assignment,
                stopped: false,
                steps: 0,
                tried_all: true,
            });
        }
        let units = &problem.units;
        let rates = Rates::new(problem);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let large = units.len() >= MULTILEVEL_UNITS;
        let mut packings = self.starts(problem, &rates, starts, seed);
        // For large problems, one good start is worth more than several poor ones.
        let wanted = if !large || packings.is_empty() { 2 } else { 0 };
        for noise in 0..wanted {
            packings.extend(pack(problem, units, noise > 0, &mut rng));
        }
        if packings.is_empty() {
            let largest = (0..units.len()).max_by_key(|&unit| units.cores[unit]).unwrap_or(0);
            return Err(Packing::new(problem, units).none_for("search", largest));
        }
        let chains = packings
            .into_iter()
            .map(|packing| Chain::new(&rates, packing, rng.random()));
        let mut chains: Vec<Chain> = chains.collect();
        chains.sort_by(|one, other| one.best().1.total_cmp(&other.best().1));
        let mut made = 0;
        let host_of = if large {
            self.side_chains(&mut chains, &rates, &mut rng);
            for chain in &mut chains {
                self.descend(chain);
            }
            made += self.even_out(&mut chains);
            if self.steps > START_ONLY || problem.rules.priced() {
                for chain in &mut chains {
                    chain.keep_rules(self.steps.max(FEWEST_LOOKS), &|| (self.gone)() >= 1.0);
                    self.descend(chain);
                }
            }
            self.focused(&chains, &rates, &mut made, &mut rng)
        } else if self.climbs(problem) {
            self.climb(&chains, &rates, &mut made, &mut rng)
        } else {
            self.rounds(chains, &rates, &mut made, &mut rng)
        };
        let placed = units.spread(&host_of);
        if too_dear(problem, &placed) {
            return Err(PlaceError::TooDear);
        }
        Ok(Found {
            assignment: self.polish(problem, &rates, Assignment(placed)),
            stopped: (self.gone)() >= 1.0,
            steps: made,
            tried_all: false,
        })
    }

    /// The share of the time or of the steps that is used.
    fn used(&self, made: u64) -> f64 {
        (self.gone)().max(made as f64 / self.steps as f64)
    }

    /// The position of the clock between two shares of the time, from 0 to 1. It is 1 once all time has passed, which a
    /// signal makes infinite.
    fn over(&self, begin: f64, end: f64) -> f64 {
        let now = (self.gone)();
        if now >= 1.0 {
            1.0
        } else {
            (now - begin) / (end - begin).max(1e-3)
        }
    }

    /// Feasible starts: the given ones, minimum cuts, and without given ones the simple policies unless they take too long.
    fn starts<'a>(&self, problem: &'a Problem, rates: &'a Rates, given: &[Vec<usize>], seed: u64) -> Vec<Packing<'a>> {
        let units = &problem.units;
        let large = units.len() >= MULTILEVEL_UNITS;
        let gathered = given
            .iter()
            .filter_map(|host_of| Packing::of(problem, units, &units.gather(host_of)?));
        let mut packings: Vec<Packing> = gathered.collect();
        let count = match (large, given.is_empty()) {
            (false, _) => CUTS,
            (true, starts_missing) => u64::from(starts_missing),
        };
        let cuts = (0..count)
            .flat_map(|number| by_cuts(problem, units, seed.wrapping_add(number << 32), self.threads))
            .filter_map(|host_of| Packing::of(problem, units, &host_of));
        let timed = cuts.map(|packing| (Loads::new(rates, &packing).seconds() + packing.penalty_s(), packing));
        let mut cuts: Vec<(f64, Packing)> = timed.collect();
        cuts.sort_by(|one, other| one.0.total_cmp(&other.0));
        packings.extend(cuts.into_iter().take(BEST_CUTS).map(|(_, packing)| packing));
        if given.is_empty() && (packings.is_empty() || units.len() * problem.capacity.len() <= POLICY_PLACES) {
            let simple = policies()
                .into_iter()
                .filter_map(|policy| policy.place(problem, seed).ok());
            let gathered = simple.filter_map(|placed| Packing::of(problem, units, &units.gather(placed.hosts())?));
            packings.extend(gathered);
        }
        packings
    }

    /// For large problems: the steepest descent at the slowest link.
    fn descend(&self, chain: &mut Chain) {
        chain.descend(self.steps.saturating_mul(LOOKS_PER_STEP).max(FEWEST_LOOKS), &|| {
            (self.gone)() >= 1.0
        });
        (self.tell)(Seconds(chain.best().1));
    }

    /// For large problems: keeps the best starts, as many as there are side chains, and copies the best until there are.
    fn side_chains<'a>(&self, chains: &mut Vec<Chain<'a>>, rates: &'a Rates, rng: &mut Xoshiro256PlusPlus) {
        let wanted = if self.steps < FEWEST_STEPS { 1 } else { SIDE_CHAINS };
        chains.truncate(wanted);
        let problem = chains[0].problem();
        while chains.len() < wanted {
            let Some(packing) = Packing::of(problem, &problem.units, chains[0].best().0) else {
                break;
            };
            chains.push(Chain::new(rates, packing, rng.random()));
        }
    }

    /// For large problems: shortens all links that take long, not only the longest. Returns the steps made.
    fn even_out(&self, chains: &mut [Chain]) -> u64 {
        if self.steps <= START_ONLY {
            return 0;
        }
        let begin = (self.gone)();
        let steps = (self.steps as f64 * EVEN_SHARE) as u64 / chains.len() as u64;
        let over = || self.over(begin, EVEN_SHARE);
        let bound_s = chains[0].problem().bound_s();
        for chain in chains.iter_mut() {
            chain.take_on(AT_SCALE);
        }
        self.side_by_side(chains, steps, &over, EVEN_HEAT, bound_s)
    }

    /// One long cooling with each of the slow settings, from the best start. The results join the starts.
    fn slowly<'a>(
        &self,
        starts: &mut Vec<Chain<'a>>,
        rates: &'a Rates,
        most: u64,
        made: &mut u64,
        rng: &mut Xoshiro256PlusPlus,
    ) {
        let problem = starts[0].problem();
        let (best, bound_s) = (first_best(starts), problem.bound_s());
        if best.1 <= bound_s || self.steps < SLOW_STEPS {
            return;
        }
        let one = |ways| {
            let packing = Packing::of(problem, &problem.units, &best.0)?;
            Some(Chain::new(rates, packing, rng.random()).with(ways))
        };
        let mut slow: Vec<Chain> = SLOWLY.into_iter().filter_map(one).collect();
        let begin = (self.gone)();
        let over = || self.over(begin, begin + (1.0 - begin) * SLOW_SHARE);
        let steps = ((self.steps as f64 * SLOW_SHARE) as u64).min(most) / SLOWLY.len() as u64;
        *made += self.side_by_side(&mut slow, steps, &over, SLOW_HEAT, bound_s);
        starts.extend(slow);
        starts.sort_by(|one, other| one.best().1.total_cmp(&other.best().1));
    }

    /// Runs chains from the best starts round after round, and returns the best units' hosts.
    fn rounds<'a>(
        &self,
        mut starts: Vec<Chain<'a>>,
        rates: &'a Rates,
        made: &mut u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<usize> {
        let problem = starts[0].problem();
        let bound_s = problem.bound_s();
        let patience = (problem.units.len() * problem.capacity.len()) as u64 * STEPS_IN_VAIN;
        self.slowly(&mut starts, rates, patience, made, rng);
        let mut best = first_best(&starts);
        starts.truncate(CHAINS);
        while starts.len() < CHAINS {
            let Some(packing) = Packing::of(problem, &problem.units, &best.0) else {
                break;
            };
            starts.push(Chain::new(rates, packing, rng.random()));
        }
        let chains = starts.into_iter().enumerate();
        let mut chains: Vec<Chain> = chains.map(|(number, chain)| chain.numbered(number)).collect();
        let mut round = (problem.units.len() as u64 * STEPS_PER_UNIT).clamp(FEWEST_STEPS, MOST_STEPS);
        let (mut vain, mut heat, mut found_at) = (0_u32, FIRST_HEAT, *made);
        while best.1 > bound_s && *made - found_at < patience {
            let used = self.used(*made);
            if used >= 1.0 {
                break;
            }
            let begin = (self.gone)();
            let left = *made as f64 / used.max(1e-9) * (1.0 - used) / chains.len() as f64;
            // If a clock limits the search, the last round cools until the time is up.
            let last = begin > 0.0 && *made > 0 && left < LAST_ROUNDS * round as f64;
            let over = || {
                if last {
                    self.over(begin, 1.0)
                } else {
                    f64::from(u8::from((self.gone)() >= 1.0))
                }
            };
            let most = (self.steps.saturating_sub(*made) / chains.len() as u64).max(1);
            let steps = if last { most } else { round.min(most) };
            *made += self.side_by_side(&mut chains, steps, &over, heat, bound_s);
            let now = first_best(&chains);
            let better = now.1 < best.1;
            (vain, round) = if better { (0, round) } else { (vain + 1, round * LONGER) };
            if better {
                (best, found_at) = (now, *made);
            }
            // The worse half of the chains continues from the best placement, each of the others from its own.
            let mut ranks: Vec<usize> = (0..chains.len()).collect();
            ranks.sort_by(|&a, &b| chains[a].best().1.total_cmp(&chains[b].best().1).then(a.cmp(&b)));
            for &chain in &ranks[chains.len().div_ceil(2)..] {
                chains[chain].restart(&best.0);
            }
            let warm = if vain % 2 == 1 { FIRST_HEAT } else { LATER_HEAT };
            heat = Heat {
                start: warm.start * rng.random_range(0.5..1.5),
                ..warm
            };
        }
        best.0
    }

    /// For large problems: from the best start, every chain works on its own surroundings of the bottleneck, round
    /// after round.
    ///
    /// The longest link carries the traffic of a few hosts. Proposals all over a large problem seldom reach them.
    fn focused<'a>(
        &self,
        starts: &[Chain<'a>],
        rates: &'a Rates,
        made: &mut u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<usize> {
        let problem = starts[0].problem();
        let bound_s = problem.bound_s();
        let mut best = first_best(starts);
        if self.steps <= START_ONLY {
            return best.0;
        }
        let copies = (0..CHAINS).filter_map(|_| Packing::of(problem, &problem.units, &best.0));
        let mut chains: Vec<Chain> = copies.map(|packing| Chain::new(rates, packing, rng.random())).collect();
        let over = || if (self.gone)() >= 1.0 { 1.0 } else { 0.0 };
        while best.1 > bound_s && self.used(*made) < 1.0 && !chains.is_empty() {
            chains.iter_mut().for_each(Chain::look_closer);
            let heat = Heat {
                start: FOCUS_HEAT.start * rng.random_range(0.1..4.0),
                ..FOCUS_HEAT
            };
            let most = (self.steps.saturating_sub(*made) / chains.len() as u64).max(1);
            *made += self.side_by_side(&mut chains, FOCUS_STEPS.min(most), &over, heat, bound_s);
            let now = first_best(&chains);
            if now.1 < best.1 {
                best = now;
            }
            for chain in &mut chains {
                chain.restart(&best.0);
            }
        }
        best.0
    }

    /// Runs every chain for a round on the available threads; returns the steps of all chains together.
    fn side_by_side(
        &self,
        chains: &mut [Chain],
        steps: u64,
        over: &(dyn Fn() -> f64 + Sync),
        heat: Heat,
        target_s: f64,
    ) -> u64 {
        let run = Run {
            steps,
            over,
            tell: self.tell,
            target_s,
        };
        self.on_threads(chains, |part| {
            // The chains of one thread share its time.
            let count = part.len() as f64;
            let turns = part.iter_mut().enumerate().map(|(turn, chain)| {
                let over = || over() * count - turn as f64;
                chain.run(Run { over: &over, ..run }, heat)
            });
            turns.sum()
        })
    }

    /// Gives each thread a part of some items, and returns the sum of what the parts return.
    fn on_threads<T: Send>(&self, items: &mut [T], work: impl Fn(&mut [T]) -> u64 + Sync) -> u64 {
        let each = items.len().div_ceil(self.threads.max(1));
        if each >= items.len() {
            return work(items);
        }
        let work = &work;
        thread::scope(|scope| {
            let parts = items.chunks_mut(each).map(|part| scope.spawn(move || work(part)));
            let parts: Vec<_> = parts.collect();
            parts.into_iter().map(|part| part.join().unwrap_or(0)).sum()
        })
    }
}

/// The best of all placements, if there are few and one is allowed; of equal ones, the first.
fn best_of_few(problem: &Problem) -> Option<Assignment> {
    let (units, hosts) = (&problem.units, problem.capacity.len());
    let multiplied = |count: usize, _| count.checked_mul(hosts).filter(|&count| count <= FEW_PLACEMENTS);
    let count = (0..units.len()).try_fold(1, multiplied)?;
    let allowed = (0..count).filter_map(|number| {
        let digits = (0..units.len()).scan(number, |rest, _| {
            let host = *rest % hosts;
            *rest /= hosts;
            Some(host)
        });
        let host_of: Vec<usize> = digits.collect();
        Packing::of(problem, units, &host_of)?;
        let placed = units.spread(&host_of);
        (!too_dear(problem, &placed)).then_some(Assignment(placed))
    });
    let timed = allowed.map(|assignment| (problem.evaluate(&assignment).total_s(), assignment));
    timed.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, best)| best)
}

fn too_dear(problem: &Problem, host_of: &[usize]) -> bool {
    let price = problem.price(host_of);
    price.is_some_and(|(price, bound)| bound.exceeded_by(price))
}

/// The best placement of all chains, and its time; of equal ones, the first.
fn first_best(chains: &[Chain]) -> (Vec<usize>, f64) {
    let mut at = 0;
    for (index, chain) in chains.iter().enumerate() {
        if chain.best().1 < chains[at].best().1 {
            at = index;
        }
    }
    (chains[at].best().0.to_vec(), chains[at].best().1)
}
