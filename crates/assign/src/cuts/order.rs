//! The order of hosts in which they are halved, and the sizes of units and hosts as one number each.

use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::rules::NO_ZONE;
use crate::problem::stores::UNLIMITED_BYTES;
use crate::problem::units::Units;

/// Hosts in the order in which they are halved.
pub(crate) struct Order {
    /// All hosts.
    pub(crate) hosts: Vec<usize>,
    /// For each place but the last, the number of groups and machines that its host shares with the next.
    pub(crate) ties: Vec<u32>,
}

/// Orders hosts by groups, from the outermost to the innermost, and then by machine.
pub(crate) fn of_hosts(problem: &Problem) -> Order {
    let network = &problem.network;
    let count = problem.capacity.len();
    let groups = network.groups().len();
    let around = |host: usize| -> Vec<usize> {
        let mut around: Vec<usize> = (0..groups).filter(|&group| network.holds(group, host)).collect();
        around.sort_by_key(|&group| (usize::MAX - network.members(group).len(), group));
        around
    };
    let rows: Vec<Vec<usize>> = (0..count).map(around).collect();
    let machine = |host: usize| network.hosts()[host].machine;
    let mut hosts: Vec<usize> = (0..count).collect();
    hosts.sort_by_key(|&host| (rows[host].clone(), machine(host), host));
    let tie = |pair: &[usize]| {
        let shared = rows[pair[0]]
            .iter()
            .zip(&rows[pair[1]])
            .take_while(|(one, other)| one == other)
            .count();
        shared as u32 + u32::from(machine(pair[0]) == machine(pair[1]))
    };
    let ties = hosts.windows(2).map(tie).collect();
    Order { hosts, ties }
}

/// The size of each unit and the room of each host: cores, memory, storage or a resource of hosts, whichever is scarcest.
pub(crate) fn sizes(problem: &Problem, units: &Units) -> (Vec<f64>, Vec<f64>) {
    let mut offered: Vec<Vec<u64>> = problem
        .capacity
        .iter()
        .map(|host| {
            vec![
                Cores::offered(host.cpus).nanos(),
                host.stores.memory_bytes,
                host.stores.storage_bytes,
            ]
        })
        .collect();
    let mut needed: Vec<Vec<u64>> = (0..units.len())
        .map(|unit| {
            vec![
                units.cores[unit],
                units.stores[unit].memory_bytes,
                units.stores[unit].storage_bytes,
            ]
        })
        .collect();
    for (quota, needs) in problem.rules.quotas.iter().zip(&units.quotas) {
        let zones = &problem.rules.zonings[quota.zoning];
        // Only where each host is a zone of its own is the limit a host's room. Few tasks never fill hosts.
        let apart = quota.most.len() == zones.len() && !zones.contains(&NO_ZONE);
        let many = quota.room.is_some() || 2 * needs.len() >= units.len();
        if quota.price_s.is_some() || !apart || !many {
            continue;
        }
        for (host, row) in offered.iter_mut().enumerate() {
            row.push(quota.most[zones[host] as usize]);
        }
        for row in &mut needed {
            row.push(0);
        }
        for &(unit, need) in needs {
            if let Some(last) = needed[unit].last_mut() {
                *last = need;
            }
        }
    }
    let kinds = 3.max(offered.first().map_or(0, Vec::len));
    let filled = |kind: usize| {
        if offered.iter().any(|host| host[kind] == UNLIMITED_BYTES) {
            return 0.0;
        }
        let need: f64 = needed.iter().map(|unit| unit[kind] as f64).sum();
        need / offered.iter().map(|host| host[kind] as f64).sum::<f64>().max(1.0)
    };
    let filled: Vec<f64> = (0..kinds).map(filled).collect();
    let scarcest = (0..kinds).reduce(|best, next| if filled[next] > filled[best] { next } else { best });
    let kind = scarcest.unwrap_or(0);
    let column = |rows: &[Vec<u64>]| rows.iter().map(|row| row[kind] as f64).collect();
    (column(&needed), column(&offered))
}

/// For each unit that may not use all hosts, the first and last place of one that it may use.
pub(crate) fn only_hosts(units: &Units, order: &[usize]) -> Vec<Option<(u32, u32)>> {
    let range = |mask: &Vec<bool>| {
        let first = order.iter().position(|&host| mask[host])?;
        let last = order.iter().rposition(|&host| mask[host])?;
        Some((first as u32, last as u32))
    };
    units.allowed.iter().map(|mask| mask.as_ref().and_then(range)).collect()
}
