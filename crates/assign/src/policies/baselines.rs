//! Placements that ignore the network (Choreo, section 6), for comparison.
//!
//! The paper's baselines respect room only. These respect every rule:
//!
//! 1. Tasks that must share a host are placed as one, at the turn of the first of them.
//! 2. Tasks that may use one host only are placed before all others.
//! 3. If the plain method is stuck, one earlier task moves to another host. If that does not help, it fails as the plain method does.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::error::PlaceError;
use crate::packing::units_on_hosts::Packing;
use crate::policies::policy::Policy;
use crate::problem::{Assignment, Problem};

/// Number of whole draws that [`Random`] makes before it gives up. Hosts filled to 90 % rarely need more than a few
/// dozen.
const DRAWS: u32 = 1000;

/// From this many hosts on, hosts are drawn this often before all with room are listed.
const MANY_HOSTS: usize = 200;
const DRAWN_HOSTS: usize = 16;

/// Puts each task, in the order given, on a host drawn uniformly from those with room.
///
/// A draw in which a task finds no room is thrown away as a whole and repeated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn place(&self, problem: &Problem, seed: u64) -> Result<Assignment, PlaceError> {
        let start = pinned(problem)?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut draws = 0;
        loop {
            draws += 1;
            let patient = draws < DRAWS;
            match (draw(start.clone(), &mut rng, !patient), draws) {
                (Err(PlaceError::NoRoom { .. }), ..DRAWS) => {}
                (Err(PlaceError::NoRoom { policy, task, needs }), _) => {
                    return Err(PlaceError::NoDraw {
                        policy,
                        draws,
                        task,
                        needs,
                    });
                }
                (done, _) => return done,
            }
        }
    }
}

/// One draw; in the last one tasks may be moved aside.
fn draw(mut packing: Packing, rng: &mut Xoshiro256PlusPlus, last: bool) -> Result<Assignment, PlaceError> {
    let count = packing.problem.capacity.len();
    for unit in packing.waiting() {
        // Of many hosts, most have room: drawing until one fits is as uniform, and faster than a list of all.
        let mut tries = if count < MANY_HOSTS { 0..0 } else { 0..DRAWN_HOSTS };
        if let Some(host) =
            tries.find_map(|_| Some(rng.random_range(0..count)).filter(|&host| packing.fits(unit, host)))
        {
            packing.put(unit, host);
            continue;
        }
        let open: Vec<usize> = packing.open_to(unit).collect();
        if !open.is_empty() {
            packing.put(unit, open[rng.random_range(0..open.len())]);
        } else if !(last && packing.make_room(unit)) {
            return Err(packing.none_for(Random.name(), unit));
        }
    }
    Ok(packing.finish())
}

/// Puts each task, in the order given, on the next host in the list with room, starting after the host used last.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn place(&self, problem: &Problem, _seed: u64) -> Result<Assignment, PlaceError> {
        let count = problem.capacity.len();
        let mut next = 0;
        one_by_one(self.name(), pinned(problem)?, |unit, packing| {
            let host = (next..count).chain(0..next).find(|&host| packing.fits(unit, host))?;
            next = (host + 1) % count;
            Some(host)
        })
    }
}

/// Puts each task, in the order given, on the first opened host that has room. Opens a new host only if none has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct MinMachines;

impl Policy for MinMachines {
    fn name(&self) -> &'static str {
        "min-machines"
    }

    fn place(&self, problem: &Problem, _seed: u64) -> Result<Assignment, PlaceError> {
        let start = pinned(problem)?;
        let placed = start.hosts().iter().copied();
        let mut opened: Vec<usize> = placed
            .filter(|&host| host != crate::packing::units_on_hosts::NOWHERE)
            .collect();
        let least = problem.units.cores.iter().copied().min().unwrap_or_default();
        one_by_one(self.name(), start, |unit, packing| {
            if let Some(at) = opened.iter().position(|&host| packing.fits(unit, host)) {
                let host = opened[at];
                // Full hosts are not looked at again: with 100,000 tasks on 10,000 hosts, that took three seconds.
                if packing.free_cores(host) - problem.units.cores[unit] < least {
                    opened.remove(at);
                }
                return Some(host);
            }
            let host = packing.open_to(unit).next()?;
            opened.push(host);
            Some(host)
        })
    }
}

fn pinned(problem: &Problem) -> Result<Packing<'_>, PlaceError> {
    let mut packing = Packing::new(problem, &problem.units);
    packing.put_pinned()?;
    Ok(packing)
}

/// Places the waiting units in order, each on the host that `choose` returns.
fn one_by_one(
    policy: &'static str,
    mut packing: Packing,
    mut choose: impl FnMut(usize, &Packing) -> Option<usize>,
) -> Result<Assignment, PlaceError> {
    for unit in packing.waiting() {
        if let Some(host) = choose(unit, &packing) {
            packing.put(unit, host);
        } else if !packing.make_room(unit) {
            return Err(packing.none_for(policy, unit));
        }
    }
    Ok(packing.finish())
}
