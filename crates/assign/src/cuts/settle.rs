//! Moves units that a cut has put where they do not fit.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::packing::units_on_hosts::{NOWHERE, Packing};
use crate::problem::Problem;
use crate::problem::units::Units;

/// The host of each unit, in `wished` if it fits there. `None` if a unit fits nowhere, even if another makes room.
///
/// With `free`, a unit also moves if it breaks a rule that has a price, as long as another host is free of that.
pub(crate) fn settle(problem: &Problem, units: &Units, wished: &[usize], free: bool) -> Option<Vec<usize>> {
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
        let fits = packing.fits(unit, wished[unit]) && !(free && packing.breaks(unit, wished[unit]));
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
        let host = if free {
            place_for(&mut packing, unit, &bytes_to, true)
        } else {
            None
        };
        match host.or_else(|| place_for(&mut packing, unit, &bytes_to, false)) {
            Some(host) => packing.put(unit, host),
            None if packing.make_room(unit) => {}
            None => return None,
        }
    }
    Some(packing.hosts().to_vec())
}

/// The host with room that has most bytes of the unit's partners, or else the one with most room. With `free`, only
/// hosts count where the unit breaks no rule.
fn place_for(packing: &mut Packing, unit: usize, bytes_to: &BTreeMap<usize, u64>, free: bool) -> Option<usize> {
    let mut near: Vec<(u64, Reverse<usize>)> = bytes_to.iter().map(|(&host, &bytes)| (bytes, Reverse(host))).collect();
    near.sort_unstable_by(|one, other| other.cmp(one));
    let mut suits = |host: &usize| packing.fits(unit, *host) && !(free && packing.breaks(unit, *host));
    if let Some(host) = near.into_iter().map(|(_, Reverse(host))| host).find(&mut suits) {
        return Some(host);
    }
    let mut others: Vec<usize> = packing.open_to(unit).collect();
    others.sort_by_key(|&host| (Reverse(packing.free_cores(host)), host));
    others.into_iter().find(|&host| !(free && packing.breaks(unit, host)))
}
