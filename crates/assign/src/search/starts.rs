//! Placements to start a search from: feasible, and different from each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::packing::units_on_hosts::Packing;
use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::joined::Joined;
use crate::problem::stores::Stores;
use crate::problem::units::Units;

/// Attempts at packing in random orders before giving up.
const TRIES: usize = 200;

/// A cluster may fill this share of the largest host. Above it, the last clusters find no host: 0.9 failed, one half
/// works.
const FILL: f64 = 0.5;

/// A level is worth its work if it has at most this share of the units of the one below.
const SHRINK: f64 = 0.9;

/// Packs all units, largest first, each on the host with room and most bytes of its partners; `None` if that fails
/// `TRIES` times.
pub(crate) fn pack<'a>(
    problem: &'a Problem,
    units: &'a Units,
    noise: bool,
    rng: &mut Xoshiro256PlusPlus,
) -> Option<Packing<'a>> {
    let mut start = Packing::new(problem, units);
    start.put_pinned().ok()?;
    let tries = if units.len() > 1000 { TRIES / 50 } else { TRIES };
    let mut urgent: Vec<bool> = vec![false; units.len()];
    for attempt in 0..tries {
        let mut packing = start.clone();
        let mut order = packing.waiting();
        order.shuffle(rng);
        let loose = noise || attempt > 0;
        order.sort_by_key(|&unit| {
            let bound = units.allowed[unit].is_none() && units.near[unit].is_empty() && units.apart[unit].is_empty();
            let size = units.cores[unit].max(units.stores[unit].memory_bytes >> 32);
            // With noise, sizes count only by powers of two, so that ties are broken at random.
            (
                !urgent[unit],
                bound,
                Reverse(if loose { size.max(1).ilog2().into() } else { size }),
            )
        });
        let stuck = order
            .iter()
            .copied()
            .find(|&unit| !put_one(&mut packing, unit, loose, rng));
        match stuck {
            None => return Some(packing),
            Some(unit) => urgent[unit] = true,
        }
    }
    None
}

/// Puts a unit on the host with most of its traffic, or, if it has no partners, on the host with most room.
fn put_one(packing: &mut Packing, unit: usize, noise: bool, rng: &mut Xoshiro256PlusPlus) -> bool {
    let mut wish: BTreeMap<usize, u64> = BTreeMap::new();
    for half in &packing.units.halves[unit] {
        let host = packing.host_of(half.other);
        if host != crate::packing::units_on_hosts::NOWHERE {
            *wish.entry(host).or_default() += half.bytes;
        }
    }
    let fitting_hosts = wish.iter().filter(|&(&host, _)| packing.fits(unit, host));
    let most = fitting_hosts
        .max_by_key(|&(&host, &bytes)| (bytes, Reverse(host)))
        .map(|(&host, _)| host);
    let host = match most {
        Some(host) if !(noise && rng.random_bool(0.3)) => Some(host),
        _ => packing
            .open_to(unit)
            .max_by_key(|&host| (packing.free_cores(host), Reverse(host))),
    };
    if let Some(host) = host {
        packing.put(unit, host);
        return true;
    }
    packing.make_room(unit)
}

/// Ever coarser units. Each level is made from the one before by joining pairs that exchange much relative to their
/// size.
pub(crate) fn coarsen(problem: &Problem, finest: &Units, rng: &mut Xoshiro256PlusPlus) -> Vec<Units> {
    let largest = problem
        .capacity
        .iter()
        .map(|host| Cores::offered(host.cpus).nanos())
        .max()
        .unwrap_or(0);
    let stores = problem.capacity.iter().map(|host| host.stores);
    let stores = stores.fold(Stores::default(), Stores::most);
    let most = ((largest as f64 * FILL) as u64, stores.share(FILL));
    let mut levels: Vec<Units> = Vec::new();
    loop {
        let fine = levels.last().unwrap_or(finest);
        let members = join_pairs(fine, most, rng);
        if members.len() as f64 > SHRINK * fine.len() as f64 {
            return levels;
        }
        let coarse = problem.units_of(members);
        levels.push(coarse);
    }
}

/// The tasks of each unit of the next level.
fn join_pairs(fine: &Units, most: (u64, Stores), rng: &mut Xoshiro256PlusPlus) -> Vec<Vec<usize>> {
    let free = |unit: usize| {
        fine.allowed[unit].is_none()
            && fine.apart[unit].is_empty()
            && fine.near[unit].is_empty()
            && fine.limits_of[unit].is_empty()
    };
    let mut order: Vec<usize> = (0..fine.len()).filter(|&unit| free(unit)).collect();
    order.shuffle(rng);
    let mut taken: Vec<bool> = (0..fine.len()).map(|unit| !free(unit)).collect();
    let mut joined = Joined::new(fine.len());
    for unit in order {
        if taken[unit] {
            continue;
        }
        let mut bytes_to: BTreeMap<usize, u64> = BTreeMap::new();
        for half in &fine.halves[unit] {
            *bytes_to.entry(half.other).or_default() += half.bytes;
        }
        let fits = |other: usize| {
            fine.cores[unit] + fine.cores[other] <= most.0 && fine.stores[unit].plus(fine.stores[other]).within(most.1)
        };
        let rated = bytes_to.iter().filter(|&(&other, _)| !taken[other] && fits(other));
        let best = rated.map(|(&other, &bytes)| (bytes as f64 / (fine.cores[other] as f64 + 1e8), other));
        if let Some((_, other)) = best.reduce(|best, next| if next.0 > best.0 { next } else { best }) {
            taken[unit] = true;
            taken[other] = true;
            joined.join(unit, other);
        }
    }
    let tasks_of = |group: Vec<usize>| {
        let mut tasks: Vec<usize> = group
            .iter()
            .flat_map(|&unit| fine.members[unit].iter().copied())
            .collect();
        tasks.sort_unstable();
        tasks
    };
    joined.groups().into_iter().map(tasks_of).collect()
}
