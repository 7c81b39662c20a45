//! The moves that a chain of annealing proposes, which start at the bottleneck.
//!
//! Only a move that touches a link of the longest time can shorten that time. Most proposals therefore take a unit from
//! a host at such a link, and most send it to a partner's host. There are five moves:
//!
//! 1. a relocation;
//! 2. a swap;
//! 3. an ejection: the unit takes the place of another, which goes to a third host;
//! 4. a unit together with the partners on its host that it exchanges most with;
//! 5. all units of two hosts at once, so that pairs stay together during the move.

use gavotte_net::Link;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::packing::units_on_hosts::Packing;
use crate::search::link_loads::Loads;

/// How a chain makes proposals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
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
pub(super) const IN_TURN: [Ways; 2] = [
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
pub(super) const SLOWLY: [Ways; 2] = [
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

/// Settings for chains at different temperatures.
pub(super) const ON_LADDER: Ways = Ways {
    at_bottleneck: 0.1,
    to_partner: 0.5,
    several: true,
    neighbours: false,
    drawn: 1,
};

/// Settings for large problems, in which a randomly chosen host is nearly always far from all partners, and few of the
/// hosts are nearly as slow as the slowest.
pub(super) const AT_SCALE: Ways = Ways {
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

/// Share of exchanges in which the other unit goes to a third host, if it fits there.
const EJECTION: f64 = 0.3;

/// Share of proposals that move partners on the same host along. The second constant: share that exchange all units of
/// two hosts.
const ALONG: f64 = 0.15;
const WHOLE_HOSTS: f64 = 0.03;

/// The largest number of units that one move may take.
const MOST_MOVED: usize = 64;

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

/// Units and their new hosts.
pub(super) type Moves = Vec<(usize, usize)>;

/// A placement and the loads of its links.
#[derive(Clone, Copy)]
pub(super) struct State<'s, 'a> {
    pub(super) packing: &'s Packing<'a>,
    pub(super) loads: &'s Loads<'a>,
}

/// Makes the proposals of one chain.
pub(super) struct Proposals {
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) ways: Ways,
    focus: Option<Focus>,
}

impl Proposals {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            ways: IN_TURN[0],
            focus: None,
        }
    }

    /// From now on, works on a host at the bottleneck, on some hosts of its units' partners, and on some others.
    ///
    /// If the price of broken rules is part of the time, the centre is as often a host of a unit that breaks one.
    pub(super) fn look_closer<'a>(&mut self, packing: &mut Packing<'a>, loads: &Loads<'a>) {
        let mut breaking = Vec::new();
        let penalty_s = packing.penalty_s();
        let dear = penalty_s / (loads.seconds() + penalty_s).max(f64::MIN_POSITIVE);
        let centre = if dear > 0.0 && self.rng.random_bool(dear.clamp(LEAST_DEAR, 1.0)) {
            breaking = packing.breaking();
            breaking.shuffle(&mut self.rng);
            breaking.truncate(FOCUS_BREAKING);
            breaking.first().map(|&unit| packing.host_of(unit))
        } else {
            None
        };
        let now = State { packing, loads };
        let centre = centre.unwrap_or_else(|| self.pick_host(now));
        let mut near: Vec<usize> = breaking.iter().map(|&unit| now.packing.host_of(unit)).collect();
        for &unit in now.packing.on(centre) {
            let partners = now.packing.units.halves[unit].iter();
            near.extend(partners.map(|half| now.packing.host_of(half.other)));
        }
        near.sort_unstable();
        near.dedup();
        near.shuffle(&mut self.rng);
        near.truncate(self.rng.random_range(1..=FOCUS_HOSTS));
        let count = now.packing.problem.capacity.len();
        let others = self.rng.random_range(1..=FOCUS_HOSTS);
        near.extend((0..others).map(|_| self.rng.random_range(0..count)));
        near.push(centre);
        near.sort_unstable();
        near.dedup();
        let units = near.iter().flat_map(|&host| now.packing.on(host).iter().copied());
        self.focus = Some(Focus {
            units: units.collect(),
            hosts: near,
            breaking,
        });
    }

    /// Any host that proposals may send units to.
    fn any_host(&mut self, now: State) -> usize {
        match &self.focus {
            Some(focus) => focus.hosts[self.rng.random_range(0..focus.hosts.len())],
            None => self.rng.random_range(0..now.packing.problem.capacity.len()),
        }
    }

    /// Fills `moves` with a proposal; returns whether there is one.
    pub(super) fn propose(&mut self, now: State, moves: &mut Moves) -> bool {
        moves.clear();
        let Some(unit) = self.pick_unit(now) else { return false };
        let from = now.packing.host_of(unit);
        let partners = &now.packing.units.halves[unit];
        let to = if !partners.is_empty() && self.rng.random_bool(self.ways.to_partner) {
            now.packing
                .host_of(partners[self.rng.random_range(0..partners.len())].other)
        } else {
            self.any_host(now)
        };
        if to == from {
            return false;
        }
        let kind = if self.ways.several { self.rng.random() } else { 1.0 };
        if kind < WHOLE_HOSTS {
            let to = if self.rng.random_bool(0.5) {
                to
            } else {
                self.any_host(now)
            };
            return to != from && exchange(now, moves, from, to);
        }
        moves.push((unit, to));
        if kind < WHOLE_HOSTS + ALONG {
            return self.take_along(now, moves, (unit, from, to));
        }
        let residents = now.packing.on(to);
        if residents.is_empty() || (now.packing.fits(unit, to) && !self.rng.random_bool(SWAP_ANYWAY)) {
            return true;
        }
        let any = residents[self.rng.random_range(0..residents.len())];
        let other = self.neighbour(now, (unit, from, to)).unwrap_or(any);
        let third = self.any_host(now);
        let to_third = self.rng.random_bool(EJECTION) && third != to && now.packing.fits(other, third);
        moves.push((other, if to_third { third } else { from }));
        true
    }

    /// A unit on `to` with a partner on `from` other than `unit`, if one is found soon.
    fn neighbour(&mut self, now: State, (unit, from, to): (usize, usize, usize)) -> Option<usize> {
        if !self.ways.neighbours {
            return None;
        }
        for _ in 0..LOOKS {
            let here = now.packing.on(from);
            let one = here[self.rng.random_range(0..here.len())];
            let partners = &now.packing.units.halves[one];
            if one != unit && !partners.is_empty() {
                let two = partners[self.rng.random_range(0..partners.len())].other;
                if now.packing.host_of(two) == to {
                    return Some(two);
                }
            }
        }
        None
    }

    /// Moves a random number of `unit`'s partners on its host along with it. A unit on the target that must make room
    /// goes back.
    fn take_along(&mut self, now: State, moves: &mut Moves, (unit, from, to): (usize, usize, usize)) -> bool {
        let units = now.packing.units;
        let partners = &units.halves[unit];
        if partners.is_empty() {
            return true;
        }
        let start = self.rng.random_range(0..partners.len());
        let wanted = 1 + self.rng.random_range(0..3);
        for half in partners[start..].iter().chain(&partners[..start]) {
            let known = moves.iter().any(|&(moved, _)| moved == half.other);
            if now.packing.host_of(half.other) == from && !known {
                moves.push((half.other, to));
                if moves.len() > wanted {
                    break;
                }
            }
        }
        let residents = now.packing.on(to);
        if !residents.is_empty() && self.rng.random_bool(0.5) {
            let other = residents[self.rng.random_range(0..residents.len())];
            moves.push((other, from));
        }
        true
    }

    /// A unit on a host at the bottleneck, or any unit.
    fn pick_unit(&mut self, now: State) -> Option<usize> {
        let units = now.packing.units.len();
        if self.rng.random_bool(self.ways.at_bottleneck) {
            if let Some(focus) = self.focus.as_ref().filter(|focus| !focus.breaking.is_empty()) {
                return Some(focus.breaking[self.rng.random_range(0..focus.breaking.len())]);
            }
            let host = self.pick_host(now);
            let residents = now.packing.on(host);
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
            let [now_s, other_s] = [chosen, other].map(|unit| now.loads.host_s(now.packing.host_of(unit)));
            if other_s > now_s {
                chosen = other;
            }
        }
        Some(chosen)
    }

    /// A host at an end of the bottleneck of some phase.
    fn pick_host(&mut self, now: State) -> usize {
        let problem = now.packing.problem;
        let phases = problem.phases.len();
        if phases == 0 {
            return 0;
        }
        let mut left = self.rng.random::<f64>() * now.loads.seconds();
        let mut phase = 0;
        while phase + 1 < phases && left > now.loads.worst(phase).0 {
            left -= now.loads.worst(phase).0;
            phase += 1;
        }
        match now.loads.worst(phase).1 {
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
}

/// Exchanges all units of one host with all units of the other.
fn exchange(now: State, moves: &mut Moves, from: usize, to: usize) -> bool {
    let (here, there) = (now.packing.on(from), now.packing.on(to));
    if here.len() + there.len() > MOST_MOVED {
        return false;
    }
    moves.extend(here.iter().map(|&unit| (unit, to)));
    moves.extend(there.iter().map(|&unit| (unit, from)));
    true
}
