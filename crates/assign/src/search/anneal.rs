//! One chain of simulated annealing whose moves start at the bottleneck.
//!
//! Only a move that touches a link of the longest time can shorten that time. Most proposals therefore take a unit from
//! a host at such a link, and most send it to a partner's host. There are five moves:
//!
//! 1. a relocation;
//! 2. a swap;
//! 3. an ejection: the unit takes the place of another, which goes to a third host;
//! 4. a unit together with the partners on its host that it exchanges most with;
//! 5. all units of two hosts at once, so that pairs stay together during the move.
//!
//! Every state is feasible.

use gavotte_net::{Link, Seconds};
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::packing::units_on_hosts::Packing;
use crate::problem::Problem;
use crate::search::link_loads::{Loads, Rates};

/// How a chain makes proposals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ways {
    /// Share of proposals that take a unit from the bottleneck rather than any unit.
    at_bottleneck: f64,
    /// Share of proposals that send a unit to a partner's host rather than to any host.
    to_partner: f64,
    /// Whether some proposals move partners on the same host along, or exchange all units of two hosts.
    several: bool,
    /// Whether a unit changes places with a unit that has a partner on the first unit's host, if one is found soon.
    neighbours: bool,
    /// Number of units drawn at random of which the one on the slowest host moves, unless the chain has a focus.
    drawn: usize,
}

/// The proposal settings of a search's chains, in turn. If many links are nearly as slow, chains that look at all of
/// them find better placements.
const IN_TURN: [Ways; 2] = [
    Ways {
        at_bottleneck: 0.5,
        to_partner: 0.5,
        several: true,
        neighbours: false,
        drawn: 1,
    },
    Ways {
        at_bottleneck: 0.05,
        to_partner: 0.5,
        several: true,
        neighbours: false,
        drawn: 1,
    },
];

/// Settings for one long cooling, in turn: first any unit to any host, then a little of every kind.
pub(crate) const SLOWLY: [Ways; 2] = [
    Ways {
        at_bottleneck: 0.0,
        to_partner: 0.0,
        several: false,
        neighbours: false,
        drawn: 1,
    },
    Ways {
        at_bottleneck: 0.05,
        to_partner: 0.3,
        several: true,
        neighbours: false,
        drawn: 1,
    },
];

/// Settings for large problems, in which a randomly chosen host is nearly always far from all partners, and few of the
/// hosts are nearly as slow as the slowest.
pub(crate) const AT_SCALE: Ways = Ways {
    at_bottleneck: 0.2,
    to_partner: 0.97,
    several: true,
    neighbours: true,
    drawn: 8,
};

/// Number of attempts to find a neighbour to change places with.
const LOOKS: usize = 6;

/// Share of proposals that try a swap although there is room.
const SWAP_ANYWAY: f64 = 0.3;

/// Share of proposals that move partners on the same host along. The second constant: share that exchange all units of
/// two hosts.
const ALONG: f64 = 0.15;
const WHOLE_HOSTS: f64 = 0.03;

/// The largest number of units that one move may take.
const MOST_MOVED: usize = 64;

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
    pub(super) rng: Xoshiro256PlusPlus,
    best: Vec<usize>,
    best_s: f64,
    pub(super) moves: Vec<(usize, usize)>,
    before: Vec<usize>,
    focus: Option<Focus>,
    ways: Ways,
    /// The cost of a second of penalty.
    penalty_weight: f64,
}

/// The part of a large problem that a chain works on for a while.
struct Focus {
    units: Vec<usize>,
    hosts: Vec<usize>,
    /// Units at the centre that break rules; empty if the centre is the bottleneck.
    breaking: Vec<usize>,
}

/// The least share of focuses on units that break rules, while any does.
const LEAST_DEAR: f64 = 0.1;

/// The largest number of hosts in a focus in addition to the one at the bottleneck: this many of its partners, and this many
/// others.
const FOCUS_HOSTS: usize = 6;

/// The largest number of units in a focus that break rules.
const FOCUS_BREAKING: usize = 12;

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
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            moves: Vec::new(),
            before: Vec::new(),
            focus: None,
            ways: IN_TURN[0],
        }
    }

    /// Uses the proposal settings of the chain with this number.
    pub(crate) fn numbered(self, number: usize) -> Self {
        self.with(IN_TURN[number % IN_TURN.len()])
    }

    pub(crate) fn with(mut self, ways: Ways) -> Self {
        self.take_on(ways);
        self
    }

    pub(crate) fn take_on(&mut self, ways: Ways) {
        self.ways = ways;
    }

    /// From now on, works on a host at the bottleneck, on some hosts of its units' partners, and on some others.
    ///
    /// If the price of broken rules is part of the time, the centre is as often a host of a unit that breaks one.
    pub(crate) fn look_closer(&mut self) {
        let mut breaking = Vec::new();
        let dear = self.packing.penalty_s() / self.total_s().max(f64::MIN_POSITIVE);
        let centre = if dear > 0.0 && self.rng.random_bool(dear.clamp(LEAST_DEAR, 1.0)) {
            breaking = self.packing.breaking();
            breaking.shuffle(&mut self.rng);
            breaking.truncate(FOCUS_BREAKING);
            breaking.first().map(|&unit| self.packing.host_of(unit))
        } else {
            None
        };
        let centre = centre.unwrap_or_else(|| self.pick_host());
        let mut near: Vec<usize> = breaking.iter().map(|&unit| self.packing.host_of(unit)).collect();
        for &unit in self.packing.on(centre) {
            let partners = self.packing.units.halves[unit].iter();
            near.extend(partners.map(|half| self.packing.host_of(half.other)));
        }
        near.sort_unstable();
        near.dedup();
        near.shuffle(&mut self.rng);
        near.truncate(self.rng.random_range(1..=FOCUS_HOSTS));
        let count = self.packing.problem.capacity.len();
        let others = self.rng.random_range(1..=FOCUS_HOSTS);
        near.extend((0..others).map(|_| self.rng.random_range(0..count)));
        near.push(centre);
        near.sort_unstable();
        near.dedup();
        let units = near.iter().flat_map(|&host| self.packing.on(host).iter().copied());
        self.focus = Some(Focus {
            units: units.collect(),
            hosts: near,
            breaking,
        });
    }

    /// Any host that proposals may send units to.
    fn any_host(&mut self) -> usize {
        match &self.focus {
            Some(focus) => focus.hosts[self.rng.random_range(0..focus.hosts.len())],
            None => self.rng.random_range(0..self.packing.problem.capacity.len()),
        }
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
            self.follow();
            let new = self.cost();
            let worse = new - cost;
            if worse <= 0.0 || worse < -temperature * self.rng.random::<f64>().ln() {
                cost = new;
                if heat.power == 0 {
                    self.remember();
                }
            } else {
                self.undo();
            }
        }
        run.steps
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

    /// Fills `moves` with units and their new hosts; returns whether there are any.
    fn propose(&mut self) -> bool {
        self.moves.clear();
        let Some(unit) = self.pick_unit() else { return false };
        let from = self.packing.host_of(unit);
        let partners = &self.packing.units.halves[unit];
        let to = if !partners.is_empty() && self.rng.random_bool(self.ways.to_partner) {
            self.packing
                .host_of(partners[self.rng.random_range(0..partners.len())].other)
        } else {
            self.any_host()
        };
        if to == from {
            return false;
        }
        let kind = if self.ways.several { self.rng.random() } else { 1.0 };
        if kind < WHOLE_HOSTS {
            let to = if self.rng.random_bool(0.5) { to } else { self.any_host() };
            return to != from && self.exchange(from, to);
        }
        self.moves.push((unit, to));
        if kind < WHOLE_HOSTS + ALONG {
            return self.take_along(unit, from, to);
        }
        let residents = self.packing.on(to);
        if residents.is_empty() || (self.packing.fits(unit, to) && !self.rng.random_bool(SWAP_ANYWAY)) {
            return true;
        }
        let any = residents[self.rng.random_range(0..residents.len())];
        let other = self.neighbour(unit, from, to).unwrap_or(any);
        let aside = if self.rng.random_bool(0.7) {
            from
        } else {
            self.any_host()
        };
        self.moves.push((other, aside));
        aside != to
    }

    /// A unit on `to` with a partner on `from` other than `unit`, if one is found soon.
    fn neighbour(&mut self, unit: usize, from: usize, to: usize) -> Option<usize> {
        if !self.ways.neighbours {
            return None;
        }
        for _ in 0..LOOKS {
            let here = self.packing.on(from);
            let one = here[self.rng.random_range(0..here.len())];
            let partners = &self.packing.units.halves[one];
            if one != unit && !partners.is_empty() {
                let two = partners[self.rng.random_range(0..partners.len())].other;
                if self.packing.host_of(two) == to {
                    return Some(two);
                }
            }
        }
        None
    }

    /// Exchanges all units of one host with all units of the other.
    fn exchange(&mut self, from: usize, to: usize) -> bool {
        let (here, there) = (self.packing.on(from), self.packing.on(to));
        if here.len() + there.len() > MOST_MOVED {
            return false;
        }
        self.moves.extend(here.iter().map(|&unit| (unit, to)));
        self.moves.extend(there.iter().map(|&unit| (unit, from)));
        true
    }

    /// Moves a random number of `unit`'s partners on its host along with it. A unit on the target that must make room
    /// goes back.
    fn take_along(&mut self, unit: usize, from: usize, to: usize) -> bool {
        let units = self.packing.units;
        let partners = &units.halves[unit];
        if partners.is_empty() {
            return true;
        }
        let start = self.rng.random_range(0..partners.len());
        let wanted = 1 + self.rng.random_range(0..3);
        for half in partners[start..].iter().chain(&partners[..start]) {
            let known = self.moves.iter().any(|&(moved, _)| moved == half.other);
            if self.packing.host_of(half.other) == from && !known {
                self.moves.push((half.other, to));
                if self.moves.len() > wanted {
                    break;
                }
            }
        }
        let residents = self.packing.on(to);
        if !residents.is_empty() && self.rng.random_bool(0.5) {
            let other = residents[self.rng.random_range(0..residents.len())];
            self.moves.push((other, from));
        }
        true
    }

    /// A unit on a host at the bottleneck, or any unit.
    fn pick_unit(&mut self) -> Option<usize> {
        let units = self.packing.units.len();
        if self.rng.random_bool(self.ways.at_bottleneck) {
            if let Some(focus) = self.focus.as_ref().filter(|focus| !focus.breaking.is_empty()) {
                return Some(focus.breaking[self.rng.random_range(0..focus.breaking.len())]);
            }
            let host = self.pick_host();
            let residents = self.packing.on(host);
            if !residents.is_empty() {
                return Some(residents[self.rng.random_range(0..residents.len())]);
            }
        }
        if let Some(focus) = self.focus.as_ref().filter(|focus| !focus.units.is_empty()) {
            return Some(focus.units[self.rng.random_range(0..focus.units.len())]);
        }
        let mut chosen = (units > 0).then(|| self.rng.random_range(0..units))?;
        for _ in 1..self.ways.drawn {
            let other = self.rng.random_range(0..units);
            let [now_s, other_s] = [chosen, other].map(|unit| self.loads.host_s(self.packing.host_of(unit)));
            if other_s > now_s {
                chosen = other;
            }
        }
        Some(chosen)
    }

    /// A host at an end of the bottleneck of some phase.
    fn pick_host(&mut self) -> usize {
        let problem = self.packing.problem;
        let phases = problem.phases.len();
        if phases == 0 {
            return 0;
        }
        let mut left = self.rng.random::<f64>() * self.loads.seconds();
        let mut phase = 0;
        while phase + 1 < phases && left > self.loads.worst(phase).0 {
            left -= self.loads.worst(phase).0;
            phase += 1;
        }
        match self.loads.worst(phase).1 {
            Some(Link::Pair { source, target }) => {
                if self.rng.random_bool(0.5) {
                    source
                } else {
                    target
                }
            }
            Some(Link::Egress(host) | Link::Ingress(host)) => host,
            Some(Link::Up(group) | Link::Down(group)) => {
                let members = problem.network.members(group);
                let at = self.rng.random_range(0..members.len().max(1));
                members.get(at).copied().unwrap_or(0)
            }
            None => 0,
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
