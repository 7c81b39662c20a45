//! Placements to start a search from: feasible, and different from each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::packing::units_on_hosts::Packing;
use crate::problem::Problem;
use crate::problem::units::Units;

/// Attempts at packing in random orders before giving up.
const TRIES: usize = 200;

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
