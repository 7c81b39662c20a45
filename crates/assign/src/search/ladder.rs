//! Replica exchange: chains at different temperatures that change places.
//!
//! Where each pair of hosts has a rate of its own, many links are nearly as slow as the slowest, and the longest time hardly
//! shows progress. The chains therefore minimize the sum of the shares by which links exceed a goal just below the best
//! time. Hot chains cross barriers, and cold ones descend. No temperature depends on the time that is left, so the search
//! may end at any time.
//!
//! Source: Hukushima and Nemoto, "Exchange Monte Carlo Method and Application to Spin Glass Simulations", 1996, section 2.

use gavotte_net::Seconds;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::packing::units_on_hosts::Packing;
use crate::problem::Problem;
use crate::search::anneal::Chain;
use crate::search::link_loads::Rates;
use crate::search::proposals::ON_LADDER;
use crate::search::{Search, first_best};

/// Number of ladders, which two threads work on.
const LADDERS: usize = 2;

/// Number of chains of a ladder, and the temperatures of the first and the last one, as a sum of shares.
const RUNGS: usize = 6;
const HOTTEST: f64 = 0.2;
const COLDEST: f64 = 0.001;

/// Steps of a chain between two exchanges, and exchanges until all ladders take over the best goal.
const STEPS: u64 = 512;
const EXCHANGES: u64 = 64;

/// Steps of all ladders between two exchanges.
const ROUND: u64 = (LADDERS * RUNGS) as u64 * STEPS;

/// Fewer rounds than this are better spent on one cooling.
const FEWEST_ROUNDS: u64 = 8;

/// The goal, as a share of the best time so far.
const GOAL: f64 = 0.99;

/// Chains from hot to cold, and the best placement of any.
struct Ladder<'a> {
    chains: Vec<Chain<'a>>,
    rng: Xoshiro256PlusPlus,
    best: (Vec<usize>, f64),
    rounds: usize,
}

impl Ladder<'_> {
    /// Lets all chains work at their temperatures and exchange them, until all rounds are made, the bound is reached or the
    /// time is over. Returns the number of steps.
    fn climb(&mut self, rounds: u64, bound_s: f64, over: &dyn Fn() -> bool) -> u64 {
        let mut made = 0;
        for _ in 0..rounds {
            if over() || self.best.1 <= bound_s {
                break;
            }
            for (rung, chain) in self.chains.iter_mut().enumerate() {
                chain.dwell(STEPS, temperature(rung), GOAL * self.best.1, self.best.1);
                made += STEPS;
            }
            self.exchange();
            for chain in &self.chains {
                if chain.best().1 < self.best.1 {
                    self.best = (chain.best().0.to_vec(), chain.best().1);
                }
            }
        }
        made
    }

    /// Exchanges every second pair of neighbours, with the probability that keeps each temperature in equilibrium.
    fn exchange(&mut self) {
        self.rounds += 1;
        for hot in (self.rounds % 2..RUNGS - 1).step_by(2) {
            let colder = temperature(hot + 1).recip() - temperature(hot).recip();
            let exponent = colder * (self.chains[hot + 1].cost() - self.chains[hot].cost());
            if exponent >= 0.0 || self.rng.random::<f64>() < exponent.exp() {
                self.chains.swap(hot, hot + 1);
            }
        }
    }
}

/// Temperatures fall by the same factor from chain to chain.
fn temperature(rung: usize) -> f64 {
    HOTTEST * (COLDEST / HOTTEST).powf(rung as f64 / (RUNGS - 1) as f64)
}

impl Search<'_> {
    /// Whether ladders can work on a problem: prices and times of several phases are no shares of one goal.
    pub(super) fn climbs(&self, problem: &Problem) -> bool {
        let priced = problem.rules.priced() || problem.rules.max_price.is_some();
        !priced && problem.phases.len() == 1 && self.steps >= FEWEST_ROUNDS * ROUND
    }

    /// Works on ladders that begin at the best starts, until the limits or the bound. Returns the best units' hosts.
    pub(super) fn climb<'a>(
        &self,
        starts: &[Chain<'a>],
        rates: &'a Rates,
        made: &mut u64,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Vec<usize> {
        let problem = starts[0].problem();
        let bound_s = problem.bound_s();
        let mut best = first_best(starts);
        let mut chain = |number: usize| {
            let packing = Packing::of(problem, &problem.units, starts[number % starts.len()].best().0)?;
            Some(Chain::new(rates, packing, rng.random()).with(ON_LADDER))
        };
        let chains: Option<Vec<Chain>> = (0..LADDERS * RUNGS).map(&mut chain).collect();
        let Some(mut chains) = chains else { return best.0 };
        let mut ladders: Vec<Ladder> = (0..LADDERS)
            .map(|_| Ladder {
                chains: chains.split_off(chains.len() - RUNGS),
                rng: Xoshiro256PlusPlus::seed_from_u64(rng.random()),
                best: best.clone(),
                rounds: 0,
            })
            .collect();
        let over = || (self.gone)() >= 1.0;
        while best.1 > bound_s && self.used(*made) < 1.0 {
            let rounds = (self.steps.saturating_sub(*made) / ROUND).clamp(1, EXCHANGES);
            *made += self.on_threads(&mut ladders, |part| {
                part.iter_mut().map(|ladder| ladder.climb(rounds, bound_s, &over)).sum()
            });
            for ladder in &ladders {
                if ladder.best.1 < best.1 {
                    best.clone_from(&ladder.best);
                }
            }
            for ladder in &mut ladders {
                ladder.best.clone_from(&best);
            }
            (self.tell)(Seconds(best.1));
        }
        best.0
    }
}
