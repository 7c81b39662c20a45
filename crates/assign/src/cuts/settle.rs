//! Moves units that a cut has put where they do not fit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::packing::units_on_hosts::{NOWHERE, Packing};
use crate::problem::Problem;
use crate::problem::units::Units;

/// The host of each unit, in `wished` if it fits there. `None` if a unit fits nowhere, even if another makes room.
pub(crate) fn settle(problem: &Problem, units: &Units, wished: &[usize]) -> Option<Vec<usize>> {
    let mut packing = Packing::new(problem, units);
    packing.put_pinned().ok()?;
    let mut order = packing.waiting();
    order.sort_by_key(|&unit| {
        (
            units.needs[unit].is_empty(),
            Reverse(units.cores[unit].max(units.stores[unit].memory_bytes >> 32)),
            unit,
        )
    });
    order.retain(|&unit| {
        let fits = packing.fits(unit, wished[unit]);
        if fits {
            packing.put(unit, wished[unit]);
        }
        !fits
    });
    for unit in order {
        let mut bytes_to: BTreeMap<usize, u64> = BTreeMap::new();
        for half in &units.halves[unit] {
            let host = packing.host_of(half.other);
            if host != NOWHERE {
                *bytes_to.entry(host).or_default() += half.bytes;
            }
        }
        let fitting = bytes_to.iter().filter(|&(&host, _)| packing.fits(unit, host));
        let nearest = fitting
            .max_by_key(|&(&host, &bytes)| (bytes, Reverse(host)))
            .map(|(&host, _)| host);
        let emptiest = || {
            packing
                .open_to(unit)
                .max_by_key(|&host| (packing.free_cores(host), Reverse(host)))
        };
        match nearest.or_else(emptiest) {
            Some(host) => packing.put(unit, host),
            None if packing.make_room(unit) => {}
            None => return None,
        }
    }
    Some(packing.hosts().to_vec())
}
