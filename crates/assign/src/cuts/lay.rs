//! Lays parts on hosts of the same kind, so that no cap is slower than it must be: a bottleneck matching.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::rules::NO_ZONE;
use crate::problem::units::Units;

/// Up to this many hosts of a kind, the matching is exact. Beyond, parts are laid by their larger sum of bytes, which is
/// exact where the two caps of a host are equal.
const FEW: usize = 256;

/// The hosts of units after the parts have changed places; unchanged where rules could break.
///
/// Hosts are of the same kind if they offer the same room, share no machine, and are in the same groups. A part stays
/// where it is if a unit in it may not use all hosts.
pub(crate) fn lay(problem: &Problem, units: &Units, mut host_of: Vec<usize>) -> Vec<usize> {
    let (network, rules) = (&problem.network, &problem.rules);
    if rules.max_price.is_some() || !rules.max_latency.is_empty() {
        return host_of;
    }
    let count = problem.capacity.len();
    let mut bytes = vec![[0.0_f64; 2]; count];
    for edge in &units.edges {
        let (m, n) = (host_of[edge.source], host_of[edge.target]);
        if m != n {
            bytes[m][0] += edge.bytes as f64;
            bytes[n][1] += edge.bytes as f64;
        }
    }
    let mut bound = vec![false; count];
    for (unit, &host) in host_of.iter().enumerate() {
        bound[host] |= units.allowed[unit].is_some();
    }
    let rates: Vec<[f64; 2]> = (0..count).map(|host| rates(problem, host)).collect();
    let alone: Vec<bool> = problem.rules.zonings.iter().map(|zones| all_alone(zones)).collect();
    let mut kinds: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for host in (0..count).filter(|&host| !bound[host] && network.colocated_count(host) == 1) {
        let groups: Vec<usize> = (0..network.groups().len())
            .filter(|&group| network.holds(group, host))
            .collect();
        let capacity = problem.capacity[host];
        let stores = (capacity.stores.memory_bytes, capacity.stores.storage_bytes);
        let kind = (
            Cores::offered(capacity.cpus).nanos(),
            stores,
            groups,
            zones(problem, &alone, host),
        );
        kinds.entry(kind).or_default().push(host);
    }
    let mut new_host: Vec<usize> = (0..count).collect();
    for hosts in kinds.into_values() {
        let parts = hosts.iter().map(|&host| bytes[host]).collect();
        let matching = Matching {
            parts,
            rates: hosts.iter().map(|&host| rates[host]).collect(),
        };
        for (part, place) in matching.of_all().into_iter().enumerate() {
            new_host[hosts[part]] = hosts[place];
        }
    }
    for host in &mut host_of {
        *host = new_host[*host];
    }
    host_of
}

/// The zones that a host is in, and what it offers of each resource that only hosts offer.
///
/// Two hosts with the same zones may exchange what they hold without breaking a rule.
fn zones(problem: &Problem, alone: &[bool], host: usize) -> Vec<(usize, u64)> {
    let rules = &problem.rules;
    let shared = (0..alone.len()).filter(|&zoning| !alone[zoning]);
    let shared = shared.map(|zoning| (zoning, u64::from(rules.zonings[zoning][host])));
    let offers = rules.quotas.iter().enumerate().filter(|(_, quota)| alone[quota.zoning]);
    let offers = offers.map(|(number, quota)| {
        let zone = rules.zonings[quota.zoning][host] as usize;
        (alone.len() + number, quota.most[zone])
    });
    shared.chain(offers).collect()
}

/// Whether every host is a zone of its own.
fn all_alone(zones: &[u32]) -> bool {
    let mut sorted = zones.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() == zones.len() && !zones.contains(&NO_ZONE)
}

/// The rates at which a host sends and receives: its caps, or the mean of its pairs' rates if it has none.
fn rates(problem: &Problem, host: usize) -> [f64; 2] {
    let network = &problem.network;
    let own = &network.hosts()[host];
    let capped = network.sharing() != gavotte_net::Sharing::Pipe;
    let mean = |sends: bool| {
        let others = (0..network.hosts().len()).filter(|&other| other != host);
        let pairs = others.map(|other| if sends { (host, other) } else { (other, host) });
        let rates: Vec<f64> = pairs
            .map(|(m, n)| network.pair_rate(m, n).bps())
            .filter(|bps| bps.is_finite())
            .collect();
        if rates.is_empty() {
            f64::INFINITY
        } else {
            rates.iter().sum::<f64>() / rates.len() as f64
        }
    };
    [(own.egress, true), (own.ingress, false)].map(|(cap, sends)| {
        if capped && cap.is_limited() {
            cap.bps()
        } else if network.paired() {
            mean(sends)
        } else {
            f64::INFINITY
        }
    })
}

/// Parts with the bytes that they send and receive, and hosts with their rates of sending and receiving.
struct Matching {
    parts: Vec<[f64; 2]>,
    rates: Vec<[f64; 2]>,
}

impl Matching {
    /// The place of each part's host: the longest time of any is as short as possible.
    fn of_all(&self) -> Vec<usize> {
        let count = self.parts.len();
        let most = |pair: &[f64; 2]| pair[0].max(pair[1]);
        let least = |pair: &[f64; 2]| pair[0].min(pair[1]);
        let mut parts: Vec<usize> = (0..count).collect();
        parts.sort_by(|&a, &b| most(&self.parts[b]).total_cmp(&most(&self.parts[a])).then(a.cmp(&b)));
        let mut hosts: Vec<usize> = (0..count).collect();
        hosts.sort_by(|&a, &b| least(&self.rates[b]).total_cmp(&least(&self.rates[a])).then(a.cmp(&b)));
        let mut place = vec![0; count];
        for (&part, &host) in parts.iter().zip(&hosts) {
            place[part] = host;
        }
        while count <= FEW && self.improve(&mut place) {}
        place
    }

    fn seconds(&self, part: usize, host: usize) -> f64 {
        let (bytes, rates) = (self.parts[part], self.rates[host]);
        (bytes[0] / rates[0]).max(bytes[1] / rates[1])
    }

    /// Finds a matching in which every part takes less than the slowest now, by augmenting paths.
    fn improve(&self, place: &mut [usize]) -> bool {
        let count = place.len();
        let slowest = (0..count)
            .map(|part| self.seconds(part, place[part]))
            .fold(0.0, f64::max);
        let mut part_on: Vec<Option<usize>> = vec![None; count];
        let mut left: Vec<usize> = Vec::new();
        for part in 0..count {
            if self.seconds(part, place[part]) < slowest {
                part_on[place[part]] = Some(part);
            } else {
                left.push(part);
            }
        }
        for part in left {
            let mut seen = vec![false; count];
            if !self.augment(part, slowest, &mut part_on, &mut seen) {
                return false;
            }
        }
        for (host, part) in part_on.iter().enumerate() {
            if let Some(part) = *part {
                place[part] = host;
            }
        }
        slowest > 0.0
    }

    fn augment(&self, part: usize, below: f64, part_on: &mut [Option<usize>], seen: &mut [bool]) -> bool {
        for host in 0..seen.len() {
            if seen[host] || self.seconds(part, host) >= below {
                continue;
            }
            seen[host] = true;
            if part_on[host].is_none_or(|other| self.augment(other, below, part_on, seen)) {
                part_on[host] = Some(part);
                return true;
            }
        }
        false
    }
}
