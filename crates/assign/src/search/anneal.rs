//! One chain of simulated annealing. Every state is feasible.

use gavotte_net::Seconds;
use rand::RngExt;

use crate::packing::units_on_hosts::Packing;
use crate::problem::Problem;
use crate::search::link_loads::{Loads, Rates};
use crate::search::proposals::{IN_TURN, Moves, Proposals, State, Ways};

/// Steps between two checks of the stop condition, if no unit exchanges bytes with more than this many others.
const PATIENCE: u64 = 1024;
const MANY_PARTNERS: u64 = 64;

/// Number of such checks after which the times that normalize a steep cost are measured again.
const ANEW: u64 = 64;

/// Temperatures at the start and end of a run, as a share of the best known time. With a power above 0 the unit is the cost:
/// the sum of this power of all links' times, in which one of the slowest links counts about 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heat {
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) power: i32,
}

/// The length and the goal of a run.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    /// Proposals made at most.
    pub(crate) steps: u64,
    /// The share of the run's time that has passed; the run ends at 1 or earlier. Always 0 if only steps count.
    pub(crate) over: &'a (dyn Fn() -> f64 + Sync),
    /// Called from time to time with the best time so far.
    pub(crate) tell: &'a (dyn Fn(Seconds) + Sync),
    /// The run ends as soon as its best placement takes no longer than this.
    pub(crate) target_s: f64,
}

/// A feasible placement that changes move by move, and the best placement so far.
pub(crate) struct Chain<'a> {
    pub(super) packing: Packing<'a>,
    pub(super) loads: Loads<'a>,
    rates: &'a Rates,
    pub(super) proposals: Proposals,
    best: Vec<usize>,
    best_s: f64,
    pub(super) moves: Moves,
    before: Vec<usize>,
    /// The cost of a second of penalty.
    penalty_weight: f64,
}

impl<'a> Chain<'a> {
    /// Starts at `packing`, in which every unit has a host.
    pub(crate) fn new(rates: &'a Rates, packing: Packing<'a>, seed: u64) -> Self {
        let loads = Loads::new(rates, &packing);
        Self {
            best: packing.hosts().to_vec(),
            best_s: if loads.too_dear() {
                f64::INFINITY
            } else {
                loads.seconds() + packing.penalty_s()
            },
            penalty_weight: 1.0,
            rates,
            packing,
            loads,
            proposals: Proposals::new(seed),
            moves: Vec::new(),
            before: Vec::new(),
        }
    }

    /// Uses the proposal settings of the chain with this number.
    pub(crate) fn numbered(self, number: usize) -> Self {
        self.with(IN_TURN[number % IN_TURN.len()])
    }

    pub(super) fn with(mut self, ways: Ways) -> Self {
        self.take_on(ways);
        self
    }

    pub(super) fn take_on(&mut self, ways: Ways) {
        self.proposals.ways = ways;
    }

    /// The host of each unit in the best placement so far, and its time and penalty in seconds; infinite if it costs too
    /// much.
    pub(crate) fn best(&self) -> (&[usize], f64) {
        (&self.best, self.best_s)
    }

    /// Returns to a placement that keeps all rules, by moving the units that are elsewhere.
    pub(crate) fn restart(&mut self, host_of: &[usize]) {
        self.moves.clear();
        let hosts = self.packing.hosts().iter().zip(host_of).enumerate();
        let elsewhere = hosts.filter(|(_, (here, there))| here != there);
        self.moves.extend(elsewhere.map(|(unit, (_, &there))| (unit, there)));
        if self.moves.len() > self.packing.units.len() / 8 {
            if let Some(packing) = Packing::of(self.packing.problem, self.packing.units, host_of) {
                self.packing = packing;
                self.loads = Loads::new(self.rates, &self.packing);
            }
        } else if self.pack() {
            self.follow();
        }
        self.remember();
    }

    /// Makes proposals while cooling, and returns their number.
    pub(crate) fn run(&mut self, run: Run, heat: Heat) -> u64 {
        self.loads.steepen(heat.power);
        // If all links take a little longer, a steep cost grows by its power as much.
        if heat.power > 0 && self.best_s.is_finite() && self.best_s > 0.0 {
            self.penalty_weight = f64::from(heat.power) / self.best_s;
        }
        let steps = self.cool(run, heat);
        self.loads.steepen(0);
        self.penalty_weight = 1.0;
        self.remember();
        steps
    }

    /// From now on, works on a part of a large problem.
    pub(super) fn look_closer(&mut self) {
        self.proposals.look_closer(&mut self.packing, &self.loads);
    }

    /// Fills `moves` with a proposal; returns whether there is one.
    fn propose(&mut self) -> bool {
        let now = State {
            packing: &self.packing,
            loads: &self.loads,
        };
        self.proposals.propose(now, &mut self.moves)
    }

    /// Time and price of broken rules now, in seconds.
    pub(super) fn total_s(&self) -> f64 {
        self.loads.seconds() + self.packing.penalty_s()
    }

    /// What the chain minimizes: the cost of the loads, and the price of broken rules.
    pub(super) fn cost(&self) -> f64 {
        self.loads.cost() + self.penalty_weight * self.packing.penalty_s()
    }

    /// Steps between two checks of the stop condition. A step looks at all partners of a unit, which may be hundreds.
    fn patience(&self) -> u64 {
        let units = self.packing.units;
        let partners = units.halves.iter().map(Vec::len).sum::<usize>() / units.len().max(1);
        (PATIENCE * MANY_PARTNERS / MANY_PARTNERS.max(partners as u64)).max(1)
    }

    fn cool(&mut self, run: Run, heat: Heat) -> u64 {
        let mut cost = self.cost();
        let scale = match heat.power {
            0 if self.best_s.is_finite() => self.best_s,
            0 => cost,
            _ => 1.0,
        };
        let mut temperature = heat.start * scale;
        let patience = self.patience();
        for step in 0..run.steps {
            if step % patience == patience - 1 {
                let over = (run.over)().max(step as f64 / run.steps as f64);
                temperature = heat.start * scale * (heat.end / heat.start).powf(over);
                if heat.power > 0 {
                    self.loads.mend();
                    self.remember();
                }
                (run.tell)(Seconds(self.best_s));
                if self.best_s <= run.target_s || over >= 1.0 {
                    return step;
                }
                if heat.power > 0 && step % (ANEW * patience) == patience - 1 {
                    self.loads.steepen(heat.power);
                    cost = self.cost();
                }
            }
            if !self.propose() || !self.pack() {
                continue;
            }
            if let Some(new) = self.settle(cost, temperature) {
                cost = new;
                if heat.power == 0 {
                    self.remember();
                }
            }
        }
        run.steps
    }

    /// Makes this many proposals at one temperature, which minimize the share by which links exceed `goal_s`, and
    /// remembers the placements in which no link takes longer than `best_s`.
    pub(super) fn dwell(&mut self, steps: u64, temperature: f64, goal_s: f64, best_s: f64) {
        self.loads.aim(goal_s);
        let mut cost = self.loads.cost();
        let low = best_s / goal_s - 1.0;
        for _ in 0..steps {
            if !self.propose() || !self.pack() {
                continue;
            }
            if let Some(new) = self.settle(cost, temperature) {
                cost = new;
                if cost <= low {
                    self.remember();
                }
            }
        }
    }

    /// Updates the loads after `pack`, and accepts the move with the probability that its cost has at this temperature.
    /// Returns the new cost; if the move is refused, undoes it.
    fn settle(&mut self, cost: f64, temperature: f64) -> Option<f64> {
        let most = cost - temperature * self.proposals.rng.random::<f64>().ln();
        let penalty = self.penalty_weight * self.packing.penalty_s();
        self.loads.mark();
        if self.loads.follow_below(&self.moves, most - penalty) {
            let new = self.cost();
            if new <= most {
                return Some(new);
            }
        }
        self.undo();
        None
    }

    /// Updates the loads after `pack`.
    pub(super) fn follow(&mut self) {
        self.loads.mark();
        for k in 0..self.moves.len() {
            let (unit, host) = self.moves[k];
            self.loads.follow(unit, host);
        }
    }

    pub(super) fn remember(&mut self) {
        let seconds = self.total_s();
        if seconds < self.best_s && !self.loads.too_dear() {
            self.best_s = seconds;
            self.best.copy_from_slice(self.packing.hosts());
        }
    }

    /// Carries out `moves` in the packing, all or none.
    pub(super) fn pack(&mut self) -> bool {
        self.before.clear();
        for &(unit, _) in &self.moves {
            let from = self.packing.take(unit);
            self.before.push(from);
        }
        for k in 0..self.moves.len() {
            let (unit, host) = self.moves[k];
            if !self.packing.fits(unit, host) {
                (0..k).for_each(|done| {
                    self.packing.take(self.moves[done].0);
                });
                self.put_back();
                return false;
            }
            self.packing.put(unit, host);
        }
        true
    }

    /// Undoes the changes of `pack` and of the loads.
    pub(super) fn undo(&mut self) {
        for k in 0..self.moves.len() {
            self.packing.take(self.moves[k].0);
        }
        self.loads.take_back(&self.moves, &self.before);
        self.put_back();
    }

    fn put_back(&mut self) {
        for k in 0..self.moves.len() {
            self.packing.put(self.moves[k].0, self.before[k]);
        }
    }

    /// The problem that the chain works on.
    pub(crate) fn problem(&self) -> &'a Problem {
        self.packing.problem
    }
}
