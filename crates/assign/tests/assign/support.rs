//! Problems for the tests, and the optimum by exhaustive search.

use std::mem;

use gavotte_assign::{
    Assignment, Capacity, MaxHosts, MaxLatency, Partial, Parts, Problem, ProblemError, Quota, Rules, Stores, Task,
    Transfer,
};
use gavotte_net::{BitsPerSec, Exception, Group, Host, Link, Network, NetworkParts, Sharing, SparseParts};

pub(crate) const MBIT: f64 = 1e6;
pub(crate) const MB: u64 = 1_000_000;

/// A task without memory or constraints.
pub(crate) fn task(name: &str, cpus: f64) -> Task {
    Task {
        name: name.to_owned(),
        cpus,
        stores: Stores::default(),
        hosts: None,
    }
}

/// A host without caps on its own machine.
fn host(index: usize) -> Host {
    Host {
        name: format!("vm{index}"),
        machine: index,
        egress: BitsPerSec::UNLIMITED,
        ingress: BitsPerSec::UNLIMITED,
    }
}

pub(crate) fn bps(value: f64) -> BitsPerSec {
    BitsPerSec::new(value).expect("above zero")
}

/// A problem before it is checked.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) network: NetworkParts,
    /// Whether its pairs are exceptions instead of entries of matrices.
    pub(crate) sparse: bool,
    pub(crate) parts: Parts,
}

impl Draft {
    pub(crate) fn checked(self) -> Result<Problem, ProblemError> {
        let network = if self.sparse {
            without_matrices(self.network)
        } else {
            Network::new(self.network).expect("a sound network")
        };
        Problem::new(network.into(), self.parts)
    }

    pub(crate) fn problem(self) -> Problem {
        self.checked().expect("a sound problem")
    }
}

/// The network with an exception for each entry of its matrices.
fn without_matrices(mut parts: NetworkParts) -> Network {
    let count = parts.hosts.len();
    let (rate_bps, latency_s) = (mem::take(&mut parts.rate_bps), mem::take(&mut parts.latency_s));
    let pairs = (0..count * count)
        .map(|at| (at / count, at % count))
        .filter(|(m, n)| m != n);
    let value = |matrix: &[f64], m: usize, n: usize| matrix.get(m * count + n).copied().unwrap_or(f64::NAN);
    let exceptions = pairs.map(|(m, n)| Exception {
        source: m,
        target: n,
        rate_bps: value(&rate_bps, m, n),
        latency_s: value(&latency_s, m, n),
    });
    let sparse = SparseParts {
        exceptions: exceptions.collect(),
        ..SparseParts::default()
    };
    let network = Network::new(parts).expect("a sound network");
    network.with_sparse(sparse).expect("sound exceptions")
}

pub(crate) fn transfer(source: usize, target: usize, bytes: u64) -> Transfer {
    Transfer {
        source,
        target,
        bytes,
        phase: 0,
    }
}

pub(crate) fn group(name: &str, members: &[usize], rate_bps: f64, parent: Option<usize>) -> Group {
    let members = members.to_vec();
    Group {
        name: name.to_owned(),
        members,
        up: bps(rate_bps),
        down: bps(rate_bps),
        parent,
    }
}

/// `hosts` hosts of `cpus` cores with paths of `rate_bps` between all of them.
pub(crate) fn uniform(tasks: Vec<Task>, transfers: Vec<Transfer>, hosts: usize, cpus: f64, rate_bps: f64) -> Draft {
    let room = Capacity {
        cpus,
        stores: Stores::UNLIMITED,
    };
    Draft {
        network: NetworkParts {
            hosts: (0..hosts).map(host).collect(),
            rate_bps: vec![rate_bps; hosts * hosts],
            latency_s: Vec::new(),
            groups: Vec::new(),
            sharing: Sharing::Pipe,
        },
        sparse: false,
        parts: Parts {
            tasks,
            transfers,
            capacity: vec![room; hosts],
            rules: Rules::default(),
            load: Vec::new(),
        },
    }
}

/// Whether an assignment keeps the rules, by their definition.
pub(crate) fn keeps_rules(problem: &Problem, host_of: &[usize]) -> bool {
    let rules = problem.rules();
    let used = |tasks: &[usize]| {
        let mut used: Vec<usize> = tasks.iter().map(|&task| host_of[task]).collect();
        used.sort_unstable();
        used.dedup();
        used.len()
    };
    let apart = |group: &Vec<usize>| used(group) == group.len();
    let near = |bound: &MaxLatency| {
        let (m, n) = (host_of[bound.source], host_of[bound.target]);
        let known_s = problem.network().latency_s(m, n);
        m == n || bound.price_s.is_some() || known_s.is_some_and(|seconds| seconds <= bound.seconds)
    };
    let limited = |limit: &MaxHosts| {
        let zone = |&task: &usize| {
            limit
                .zoning
                .map_or(host_of[task], |zoning| rules.zonings[zoning][host_of[task]] as usize)
        };
        let mut zones: Vec<usize> = limit.tasks.iter().map(zone).collect();
        zones.sort_unstable();
        zones.dedup();
        limit.price_s.is_some() || zones.len() <= limit.most
    };
    let within = |quota: &Quota| {
        let needed = |zone: usize| -> u64 {
            let inside = |task: usize| rules.zonings[quota.zoning][host_of[task]] == zone as u32;
            quota
                .needs
                .iter()
                .filter(|&&(task, _)| inside(task))
                .map(|&(_, need)| need)
                .sum()
        };
        let fits = |(zone, &most): (usize, &u64)| (quota.least..=most).contains(&needed(zone));
        quota.price_s.is_some() || quota.most.iter().enumerate().all(fits)
    };
    rules.apart.iter().all(apart)
        && rules.together.iter().all(|group| used(group) <= 1)
        && rules.max_latency.iter().all(near)
        && rules.max_hosts.iter().all(limited)
        && rules.quotas.iter().all(within)
}

/// The shortest completion time of all assignments in seconds; `None` if none is feasible.
pub(crate) fn optimum(problem: &Problem) -> Option<f64> {
    let (hosts, tasks) = (problem.capacity().len(), problem.tasks().len());
    (0..hosts.pow(u32::try_from(tasks).expect("few tasks")))
        .filter_map(|code| problem.assignment(digits(code, hosts, tasks)).ok())
        .filter(|assignment| keeps_rules(problem, assignment.hosts()))
        .map(|assignment: Assignment| problem.evaluate(&assignment).total_s())
        .reduce(f64::min)
}

fn digits(mut code: usize, base: usize, count: usize) -> Vec<usize> {
    (0..count)
        .map(|_| {
            let digit = code % base;
            code /= base;
            digit
        })
        .collect()
}

/// Algorithm 1 without any shortcut: it considers all paths and computes all counts again for each.
pub(crate) fn greedy_by_the_book(problem: &Problem) -> Option<Vec<usize>> {
    let count = problem.capacity().len();
    let mut order: Vec<Transfer> = problem.transfers().to_vec();
    order.sort_by_key(|transfer| std::cmp::Reverse(transfer.bytes));
    let mut partial = Partial::new(problem).ok()?;
    let mut used: Vec<(usize, usize)> = problem.load().iter().map(|load| (load.source, load.target)).collect();
    for Transfer {
        source: i, target: j, ..
    } in order
    {
        let (at_i, at_j) = (partial.host_of(i), partial.host_of(j));
        let mut best: Option<(f64, (usize, usize))> = None;
        for (m, n) in (0..count * count).map(|path| (path / count, path % count)) {
            if at_i.is_some_and(|host| host != m) || at_j.is_some_and(|host| host != n) {
                continue;
            }
            let mut then = partial.room().clone();
            let placed = [(i, m, at_i), (j, n, at_j)].into_iter().all(|(task, host, at)| {
                let fits = at.is_some() || then.fits(task, host);
                if fits && at.is_none() {
                    then.take(task, host);
                }
                fits
            });
            let rate = rate_by_the_book(problem, &used, m, n);
            if placed && best.is_none_or(|(most, _)| rate > most) {
                best = Some((rate, (m, n)));
            }
        }
        let (_, (m, n)) = best?;
        for (task, host, at) in [(i, m, at_i), (j, n, at_j)] {
            if at.is_none() {
                partial.put(task, host);
            }
        }
        used.push((m, n));
    }
    for task in partial.waiting() {
        partial.put(task, partial.room().first(task)?);
    }
    Some(partial.finish("by the book").ok()?.into_hosts())
}

fn rate_by_the_book(problem: &Problem, used: &[(usize, usize)], m: usize, n: usize) -> f64 {
    let (network, mut rate) = (problem.network(), f64::INFINITY);
    network.for_each_link(m, n, |link| {
        let others = used.iter().filter(|&&(a, b)| {
            let mut shares = false;
            network.for_each_link(a, b, |used| shares |= used == link);
            shares
        });
        let capped = network.capped(m, n);
        let others = match link {
            Link::Ingress(_) => return,
            Link::Pair { .. } if capped => 0,
            _ => others.count(),
        };
        rate = rate.min(network.rate(link).bps() / (others as f64 + 1.0));
    });
    rate
}
