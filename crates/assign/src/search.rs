//! Iterated local search: several chains of annealing, restarted from the best of them.
//!
//! The work is counted in steps, never in seconds, and the chains are independent within a round and merged in a fixed
//! order. So the answer depends on problem, seed and steps alone, not on the machine or the number of threads.

use std::thread;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::anneal::{Chain, Heat};
use crate::error::PlaceError;
use crate::greedy::Greedy;
use crate::loads::Rates;
use crate::packing::Packing;
use crate::policy::Policy;
use crate::problem::{Assignment, Problem};
use crate::starts::{coarsen, pack};
use crate::units::Units;

/// How many chains run side by side, whatever the number of threads.
const CHAINS: usize = 4;

/// Steps of a chain in a round: this many for each unit, within limits.
const STEPS_PER_UNIT: u64 = 2000;
const FEWEST_STEPS: u64 = 20_000;
const MOST_STEPS: u64 = 2_000_000;

/// Rounds without a better placement after which more are not worth it.
const ROUNDS_IN_VAIN: u32 = 6;

/// Up to this many placements are all looked at: where pairs differ a thousandfold, chains may stay behind a barrier.
const FEW_PLACEMENTS: usize = 4096;

/// From this many units on, placements start from coarser ones.
const MULTILEVEL_UNITS: usize = 200;

/// Most units times hosts for which a placement is polished at the end.
const POLISH_PLACES: usize = 100_000;

/// Share of the steps that go into the levels below the finest.
const COARSE_SHARE: u64 = 4;

/// Steps that a chain spends on one part of a large problem.
const FOCUS_STEPS: u64 = 40_000;

const FIRST_HEAT: Heat = Heat { start: 0.2, end: 1e-4 };
const LATER_HEAT: Heat = Heat { start: 0.05, end: 1e-4 };
const LEVEL_HEAT: Heat = Heat { start: 0.02, end: 1e-4 };

/// Steps that a search makes at most, if nobody says how many.
pub const DEFAULT_STEPS: u64 = 4_000_000;

/// A search with its limits.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// Proposals made at most, all chains together.
    pub steps: u64,
    /// Threads used at most; the answer does not depend on them.
    pub threads: usize,
    /// Asked now and then; true ends the search early with the best so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best placement.
    pub assignment: Assignment,
    /// Whether `stop` ended the search, so that another run may find another placement.
    pub stopped: bool,
    /// Proposals made.
    pub steps: u64,
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self {
            steps: DEFAULT_STEPS,
            threads: thread::available_parallelism().map_or(1, usize::from),
            stop: &|| false,
        }
    }
}

impl Search<'_> {
    /// Finds a placement that is never worse than greedy's, where greedy's keeps all rules, nor than any of `starts`
    /// (the host of each task) that does.
    ///
    /// # Errors
    /// [`PlaceError::TooDear`] if nothing affordable was found, and
    /// [`PlaceError::NoRoom`] if no start is known and none was found; a placement may still exist.
    pub fn run(&self, problem: &Problem, seed: u64, starts: &[Vec<usize>]) -> Result<Found, PlaceError> {
        if let Some(assignment) = best_of_few(problem) {
            return Ok(Found {
                assignment,
                stopped: false,
                steps: 0,
            });
        }
        let units = &problem.units;
        let rates = Rates::new(problem);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let greedy = Greedy.place(problem, seed).ok().map(Assignment::into_hosts);
        let known = greedy.iter().chain(starts).filter_map(|host_of| {
            let host_of = units.gather(host_of)?;
            Packing::of(problem, units, &host_of)
        });
        let mut packings: Vec<Packing> = known.collect();
        let levels = if units.len() >= MULTILEVEL_UNITS {
            coarsen(problem, units, &mut rng)
        } else {
            Vec::new()
        };
        let mut left = self.steps;
        let mut stopped = false;
        if !levels.is_empty() {
            let steps = left / COARSE_SHARE;
            let refined = self.refine(problem, units, &levels, &rates, steps, &mut rng);
            stopped |= refined.1;
            left -= steps;
            packings.extend(refined.0.and_then(|host_of| Packing::of(problem, units, &host_of)));
        }
        // At scale, one good start is worth more than several poor ones.
        let wanted = if levels.is_empty() || packings.is_empty() {
            CHAINS.max(packings.len() + 1)
        } else {
            1
        };
        for noise in packings.len()..wanted {
            packings.extend(pack(problem, units, noise > 1, &mut rng));
        }
        if packings.is_empty() {
            let largest = (0..units.len()).max_by_key(|&unit| units.cores[unit]).unwrap_or(0);
            return Err(Packing::new(problem, units).none_for("search", largest));
        }
        let chains = packings
            .into_iter()
            .map(|packing| Chain::new(&rates, packing, rng.random()));
        let mut chains: Vec<Chain> = chains.collect();
        let (host_of, early, steps) = if levels.is_empty() {
            self.rounds(&mut chains, left, &mut rng)
        } else {
            self.focused(&chains, &rates, left, &mut rng)
        };
        stopped |= early;
        let found = units.spread(&host_of);
        if too_dear(problem, &found) {
            return Err(PlaceError::TooDear);
        }
        let made = self.steps - left + steps;
        let assignment = polish(problem, Assignment(found));
        Ok(Found {
            assignment,
            stopped,
            steps: made,
        })
    }

    /// Places the coarsest level and improves it level by level.
    fn refine(
        &self,
        problem: &Problem,
        finest: &Units,
        levels: &[Units],
        rates: &Rates,
        steps: u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> (Option<Vec<usize>>, bool) {
        let mut host_of_task: Option<Vec<usize>> = None;
        let mut stopped = false;
        let share = steps / (levels.len() as u64).max(1);
        for units in levels.iter().rev() {
            let from_above = host_of_task.take().and_then(|host_of| units.gather(&host_of));
            let packing = match from_above {
                Some(host_of) => Packing::of(problem, units, &host_of),
                None => pack(problem, units, false, rng),
            };
            if let Some(packing) = packing {
                let mut chain = Chain::new(rates, packing, rng.random());
                stopped |= chain.run(share, LEVEL_HEAT, 0.0, self.stop);
                host_of_task = Some(units.spread(chain.best().0));
            }
        }
        (host_of_task.and_then(|host_of| finest.gather(&host_of)), stopped)
    }

    /// Runs all chains round after round. Returns the best units' hosts, whether it was stopped, and the steps made.
    fn rounds(&self, chains: &mut [Chain], steps: u64, rng: &mut Xoshiro256PlusPlus) -> (Vec<usize>, bool, u64) {
        let problem = chains[0].problem();
        let bound_s = problem.bound_s();
        let count = problem.units.len() as u64;
        let mut best = first_best(chains);
        let round = (count * STEPS_PER_UNIT)
            .clamp(FEWEST_STEPS, MOST_STEPS)
            .min(steps / chains.len() as u64 + 1);
        let (mut made, mut vain, mut heat) = (0, 0, FIRST_HEAT);
        while best.1 > bound_s && made + round <= steps.max(round) && vain < ROUNDS_IN_VAIN {
            let stopped = self.side_by_side(chains, round, heat, bound_s);
            made += round * chains.len() as u64;
            let now = first_best(chains);
            vain = if now.1 < best.1 { 0 } else { vain + 1 };
            if now.1 < best.1 {
                best = now;
            }
            if stopped {
                return (best.0, true, made);
            }
            heat = LATER_HEAT;
            // The worse half goes on from the best; of the others, each from its own.
            let mut ranks: Vec<usize> = (0..chains.len()).collect();
            ranks.sort_by(|&a, &b| chains[a].best().1.total_cmp(&chains[b].best().1).then(a.cmp(&b)));
            for &chain in &ranks[chains.len().div_ceil(2)..] {
                chains[chain].restart(&best.0);
            }
            if vain >= ROUNDS_IN_VAIN / 2 {
                heat = Heat {
                    start: FIRST_HEAT.start * rng.random_range(0.5..2.0),
                    ..FIRST_HEAT
                };
            }
        }
        (best.0, false, made)
    }

    /// At scale: from the best start, every chain works on its own surroundings of the bottleneck, round after round.
    ///
    /// The longest link is made of a few hosts' traffic. Proposals all over a large problem seldom reach them.
    fn focused(
        &self,
        starts: &[Chain],
        rates: &Rates,
        steps: u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> (Vec<usize>, bool, u64) {
        let problem = starts[0].problem();
        let bound_s = problem.bound_s();
        let mut best = first_best(starts);
        let copies = (0..CHAINS).filter_map(|_| Packing::of(problem, &problem.units, &best.0));
        let mut chains: Vec<Chain> = copies.map(|packing| Chain::new(rates, packing, rng.random())).collect();
        let mut made = 0;
        while best.1 > bound_s && made < steps && !chains.is_empty() {
            chains.iter_mut().for_each(Chain::look_closer);
            let heat = Heat {
                start: LEVEL_HEAT.start * rng.random_range(0.1..4.0),
                ..LEVEL_HEAT
            };
            let stopped = self.side_by_side(&mut chains, FOCUS_STEPS, heat, bound_s);
            made += FOCUS_STEPS * chains.len() as u64;
            let now = first_best(&chains);
            if now.1 < best.1 {
                best = now;
            }
            if stopped {
                return (best.0, true, made);
            }
            for chain in &mut chains {
                chain.restart(&best.0);
            }
        }
        (best.0, false, made)
    }

    /// Runs every chain for a round, on as many threads as there are; says whether any was stopped.
    fn side_by_side(&self, chains: &mut [Chain], steps: u64, heat: Heat, target_s: f64) -> bool {
        let each = chains.len().div_ceil(self.threads.max(1));
        let run = |part: &mut [Chain]| {
            let stopped = part.iter_mut().map(|chain| chain.run(steps, heat, target_s, self.stop));
            stopped.filter(|&stopped| stopped).count() > 0
        };
        if each >= chains.len() {
            return run(chains);
        }
        thread::scope(|scope| {
            let parts = chains.chunks_mut(each).map(|part| scope.spawn(move || run(part)));
            let parts: Vec<_> = parts.collect();
            let stopped = parts.into_iter().map(|part| part.join().unwrap_or(true));
            stopped.filter(|&stopped| stopped).count() > 0
        })
    }
}

/// The best of all placements, if there are few and one is allowed; of equals the first.
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
        let found = units.spread(&host_of);
        (!too_dear(problem, &found)).then_some(Assignment(found))
    });
    let timed = allowed.map(|assignment| (problem.evaluate(&assignment).seconds, assignment));
    timed.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, best)| best)
}

fn too_dear(problem: &Problem, host_of: &[usize]) -> bool {
    let price = problem.price(host_of);
    price.is_some_and(|(price, bound)| bound.exceeded_by(price))
}

/// The best placement of all chains, and its time; of equals the first.
fn first_best(chains: &[Chain]) -> (Vec<usize>, f64) {
    let mut at = 0;
    for (index, chain) in chains.iter().enumerate() {
        if chain.best().1 < chains[at].best().1 {
            at = index;
        }
    }
    (chains[at].best().0.to_vec(), chains[at].best().1)
}

/// Makes single moves at the bottleneck until none helps. At scale that takes too long for what it gains.
fn polish(problem: &Problem, mut assignment: Assignment) -> Assignment {
    if problem.units.len() * problem.capacity.len() > POLISH_PLACES {
        return assignment;
    }
    while let Some(other) = problem.runner_up(&assignment) {
        if other.seconds >= problem.evaluate(&assignment).seconds {
            break;
        }
        for (task, host) in other.moves {
            assignment.0[task] = host;
        }
    }
    assignment
}
