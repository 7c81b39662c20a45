//! Explains why a placement takes as long as it does: the transfers on its bottleneck, and the effect of one more move.

use crate::packing::units_on_hosts::Packing;
use crate::problem::completion::Bottleneck;
use crate::problem::{Assignment, Problem};
use crate::search::link_loads::{Loads, Rates};

/// The best single move from a placement. Its result may be better or worse than the placement itself.
#[derive(Clone, Debug, PartialEq)]
pub struct RunnerUp {
    /// Tasks that change their host, with their new hosts: one task or those that go with it, and the tasks it swaps
    /// with.
    pub moves: Vec<(usize, usize)>,
    /// The completion time after the move and the price of broken rules, in seconds.
    pub seconds: f64,
}

/// Seconds and cost after some moves.
type Tried = (f64, f64, Vec<(usize, usize)>);

impl Problem {
    /// The transfers that cross a bottleneck, by their index, most bytes first.
    pub fn crossing(&self, assignment: &Assignment, bottleneck: &Bottleneck) -> Vec<usize> {
        let host_of = assignment.hosts();
        let crosses = |t: &usize| {
            let transfer = self.transfers[*t];
            let mut crosses = false;
            self.network
                .for_each_link(host_of[transfer.source], host_of[transfer.target], |link| {
                    crosses |= link == bottleneck.link;
                });
            crosses && transfer.phase == bottleneck.phase && transfer.bytes > 0
        };
        let mut crossing: Vec<usize> = (0..self.transfers.len()).filter(crosses).collect();
        crossing.sort_by_key(|&t| std::cmp::Reverse(self.transfers[t].bytes));
        crossing
    }

    /// The best relocation or swap that takes a task off the bottleneck of some phase; no other single move can help.
    ///
    /// `None` if nothing crosses a limited link, if no such move keeps all rules, or if `assignment` breaks one. Takes
    /// time in proportion to (tasks at the bottleneck) x (hosts + tasks).
    pub fn runner_up(&self, assignment: &Assignment) -> Option<RunnerUp> {
        self.best_move(assignment, &Rates::new(self), &mut |_| true)
    }

    /// The same, over as many moves as `more` allows. `more` is called before each move with the number of exchanges
    /// that the move examines.
    ///
    /// A move examines the bytes that each of its units exchanges with each other unit.
    pub(crate) fn best_move(
        &self,
        assignment: &Assignment,
        rates: &Rates,
        more: &mut dyn FnMut(u64) -> bool,
    ) -> Option<RunnerUp> {
        let units = &self.units;
        let host_of = units.gather(assignment.hosts())?;
        let mut packing = Packing::of(self, units, &host_of)?;
        let mut loads = Loads::new(rates, &packing);
        let looks = |moves: &[(usize, usize)]| moves.iter().map(|&(unit, _)| 1 + units.halves[unit].len() as u64).sum();
        let mut best: Option<Tried> = None;
        'units: for unit in self.at_bottlenecks(assignment) {
            let from = host_of[unit];
            let relocations = (0..self.capacity.len()).map(|to| (None, to));
            let swaps = (0..units.len()).map(|other| (Some(other), host_of[other]));
            for (other, to) in relocations.chain(swaps).filter(|&(_, to)| to != from) {
                let moves: Vec<(usize, usize)> = [(unit, to)]
                    .into_iter()
                    .chain(other.map(|other| (other, from)))
                    .collect();
                if !more(looks(&moves)) {
                    break 'units;
                }
                if let Some((seconds, cost)) = try_moves(&mut packing, &mut loads, &moves, &host_of) {
                    let better = |best: &Tried| (seconds, cost) < (best.0, best.1);
                    if best.as_ref().is_none_or(better) {
                        best = Some((seconds, cost, moves));
                    }
                }
            }
        }
        let (seconds, _, moves) = best?;
        let of_unit = |(unit, to): (usize, usize)| units.members[unit].iter().map(move |&task| (task, to));
        Some(RunnerUp {
            moves: moves.into_iter().flat_map(of_unit).collect(),
            seconds,
        })
    }

    /// The units that send or receive over the bottleneck of any phase, ascending.
    fn at_bottlenecks(&self, assignment: &Assignment) -> Vec<usize> {
        let ends = |worst: Bottleneck| {
            let crossing = self.crossing(assignment, &worst);
            crossing
                .into_iter()
                .flat_map(|t| [self.transfers[t].source, self.transfers[t].target])
        };
        let tasks = self.evaluate(assignment).phases.into_iter().flat_map(ends);
        let mut units: Vec<usize> = tasks.map(|task| self.units.unit_of[task]).collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}

/// Time and cost after `moves`, which are then undone; `None` if they break a rule.
fn try_moves(
    packing: &mut Packing,
    loads: &mut Loads,
    moves: &[(usize, usize)],
    host_of: &[usize],
) -> Option<(f64, f64)> {
    for &(unit, _) in moves {
        packing.take(unit);
    }
    let done = moves.iter().take_while(|&&(unit, to)| {
        let fits = packing.fits(unit, to);
        if fits {
            packing.put(unit, to);
        }
        fits
    });
    let done = done.count();
    let mut gain = None;
    if done == moves.len() {
        let penalty_s = packing.penalty_s();
        loads.mark();
        for &(unit, to) in moves {
            loads.follow(unit, to);
        }
        gain = (!loads.too_dear()).then(|| (loads.seconds() + penalty_s, loads.cost() + penalty_s));
        for &(unit, _) in moves {
            loads.follow(unit, host_of[unit]);
        }
    }
    for &(unit, _) in &moves[..done] {
        packing.take(unit);
    }
    for &(unit, _) in moves {
        packing.put(unit, host_of[unit]);
    }
    gain
}
