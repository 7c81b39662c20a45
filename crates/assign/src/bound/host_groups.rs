//! What hosts exchange with each other at most if each pair has its own rate, and groups of hosts for which that is too little.
//!
//! A pair of hosts carries only whole transfers: no more bytes than its rate allows, and no more than the tasks that fit on two
//! hosts exchange. Where tasks exchange bytes both ways, the slower direction of the pair decides. This limits all sets of tasks
//! on a host together ([`Groups::shares`]).
//!
//! Hosts near each other often reach each other fast, so that each host alone has enough fast pairs. All of them together still
//! have to exchange bytes with the other hosts ([`Groups::too_slow`]):
//!
//! 1. The hosts are divided in two groups. Their cores leave a range for the cores of the tasks in one group.
//! 2. Whichever these tasks are, they exchange some bytes with all other tasks. Flows through the application prove how many
//!    (see [`crate::bound::flows`]).
//! 3. If the pairs between both groups carry less within a time, no placement takes that time.
//! 4. A group grows from each host by the host that adds least to the pairs between both groups. Then hosts move, alone or in
//!    exchange for another one, while that helps.

use std::cell::RefCell;
use std::collections::HashMap;

use gavotte_net::Seconds;

use crate::bound::connected_sets::Set;
use crate::bound::flows::{Flows, Nearest};
use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::units::{Edge, exchanged};

/// Shares of a sum by which floating-point numbers may be wrong.
const SAME: f64 = 1e-9;

/// How often flows are sent through the application.
const ROUNDS: usize = 16;

/// The most sizes of parts of the application for which flows are computed.
const MOST_SIZES: usize = 16;

/// The most levels: the lightest transfers that count. Two levels differ at least by the factor.
const MOST_LEVELS: usize = 4;
const LEVEL_FACTOR: f64 = 1.5;

/// The most sizes of transfers that are distinguished on a pair of hosts.
const MOST_CLASSES: usize = 32;

/// The most hosts for which groups are tried: the work grows with the cube of their number.
const MOST_HOSTS: usize = 256;

/// The most moves after a group has grown from a host.
const MOST_MOVES: usize = 64;

/// The number of grown groups, the best first, whose hosts move.
const IMPROVED: usize = 4;

/// What the parts of an application exchange with each other, and the hosts.
pub(crate) struct Groups<'a> {
    problem: &'a Problem,
    /// Nano-cores of each host.
    offered: Vec<f64>,
    /// Nano-cores of all units together.
    needed: f64,
    exchanges: Vec<Exchange>,
}

/// The transfers of an application that are not lighter than some level.
struct Exchange {
    /// Whether the bytes of both directions count together. Otherwise only the lesser direction counts.
    mutual: bool,
    /// The fewest bytes of any transfer in its lesser direction, and in its greater one.
    least: [f64; 2],
    /// Bytes of all transfers, ascending.
    bytes: Vec<f64>,
    /// Some of these sizes, ascending, the largest included. For each, the most bytes that the units on two hosts exchange by
    /// transfers which are not larger.
    between: Vec<(f64, f64)>,
    /// For each size in nano-cores, ascending: nano-cores of units and the least bytes that these exchange with all others,
    /// both summed up from the unit that exchanges least for each core.
    cuts: Vec<(f64, Vec<(f64, f64)>)>,
    /// For each set of units, the bytes that it exchanges with all others; by few enough transfers for sets to be listed.
    crossing: Vec<f64>,
    /// Results of [`Exchange::least`], by the bits of its range.
    known: RefCell<HashMap<(u64, u64), f64>>,
}

impl<'a> Groups<'a> {
    /// `None` if groups prove nothing here, or `over` becomes true before all is known.
    ///
    /// `edges` come heaviest first, and the sets are connected by the first `kept` of them.
    pub(crate) fn new(
        problem: &'a Problem,
        (edges, kept): (&[Edge], usize),
        sets: &[Set],
        over: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let hosts = problem.capacity.len();
        let offered = problem
            .capacity
            .iter()
            .map(|host| Cores::offered(host.cpus).nanos() as f64);
        let mut groups = Self {
            problem,
            offered: offered.collect(),
            needed: problem.units.cores.iter().map(|&nanos| nanos as f64).sum(),
            exchanges: Vec::new(),
        };
        let least_nanos = problem.units.cores.iter().copied().min().unwrap_or(0);
        if !(2..=MOST_HOSTS).contains(&hosts) || least_nanos == 0 {
            return None;
        }
        let sizes = groups.sizes();
        let most = groups.offered.iter().copied().fold(0.0, f64::max);
        let most_units = ((most / least_nanos as f64) as usize).min(problem.units.len());
        let (all, few) = (links(edges), links(&edges[..kept]));
        for mutual in [false, true] {
            for level in levels(&all, mutual) {
                let heavy = |links: &[Link]| -> Vec<Link> {
                    let heavy = links.iter().filter(|link| weight(link, mutual) >= level);
                    heavy.copied().collect()
                };
                let mut exchange = Exchange::new(problem, mutual, &heavy(&all), (most_units, &sizes), over)?;
                exchange.crossing = crossing(problem.units.len(), &weighed(&heavy(&few), mutual), sets);
                groups.exchanges.push(exchange);
            }
        }
        Some(groups)
    }

    /// For each exchange, the most bytes that each two hosts can carry between each other within a time, both ways.
    pub(crate) fn carried(&self, Seconds(time_s): Seconds) -> Vec<Vec<f64>> {
        let (network, hosts) = (&self.problem.network, self.offered.len());
        let reach = |m: usize, n: usize| time_s * (1.0 + SAME) * network.pair_rate(m, n).bps() / 8.0;
        let of = |exchange: &Exchange| {
            let mut carried = vec![0.0; hosts * hosts];
            for m in 0..hosts {
                for n in (0..hosts).filter(|&n| n != m) {
                    carried[m * hosts + n] = exchange.carried(reach(m, n), reach(n, m));
                }
            }
            carried
        };
        self.exchanges.iter().map(of).collect()
    }

    /// For each set, the share that it takes of all that a host can exchange; above 1 if it cannot be on the host.
    ///
    /// The sets on a host take no more than 1 together. `carried` is the result of [`Groups::carried`].
    pub(crate) fn shares(&self, host: usize, carried: &[Vec<f64>]) -> Vec<f64> {
        let hosts = self.offered.len();
        let row = |carried: &Vec<f64>| carried[host * hosts..(host + 1) * hosts].iter().sum::<f64>();
        let most: Vec<f64> = carried.iter().map(row).collect();
        let share = |exchange: usize, set: usize| {
            let bytes = self.exchanges[exchange].crossing[set];
            if bytes > 0.0 { bytes / most[exchange] } else { 0.0 }
        };
        let sum = |exchange: &usize| self.exchanges[*exchange].bytes.iter().sum::<f64>() / most[*exchange];
        let tightest = (0..most.len()).max_by(|one, other| sum(one).total_cmp(&sum(other)));
        let Some(tightest) = tightest else {
            return Vec::new();
        };
        (0..self.exchanges[tightest].crossing.len())
            .map(|set| {
                let fits = (0..most.len()).all(|exchange| share(exchange, set) <= 1.0);
                if fits { share(tightest, set) } else { f64::INFINITY }
            })
            .collect()
    }

    /// Whether it finds a group of hosts that cannot exchange enough with the others. `carried` is the result of
    /// [`Groups::carried`].
    pub(crate) fn too_slow(&self, carried: &[Vec<f64>]) -> bool {
        let hosts = self.offered.len();
        self.exchanges.iter().zip(carried).any(|(exchange, carried)| {
            let grow = |start| {
                let mut group = Group::new(self, exchange, carried);
                (group.grow(start), group)
            };
            let mut grown: Vec<(f64, Group)> = (0..hosts).map(grow).collect();
            grown.sort_by(|one, other| one.0.total_cmp(&other.0));
            grown.truncate(IMPROVED);
            grown.iter_mut().any(|(_, group)| group.is_too_slow())
        })
    }

    /// The sizes for which flows are computed: multiples of the largest host, up to half of all that the units need.
    fn sizes(&self) -> Vec<f64> {
        let most = self.offered.iter().copied().fold(0.0, f64::max);
        let half = self.needed / 2.0;
        let count = (half / most).ceil().max(1.0);
        let step = (count / MOST_SIZES as f64).ceil();
        let sizes = (1..=(count / step).ceil() as usize).map(|number| (number as f64 * step * most).min(half));
        sizes.map(|size| size * (1.0 + SAME)).collect()
    }
}

/// Two units that exchange bytes: in the lesser direction, and in the greater one.
type Link = (usize, usize, [f64; 2]);

fn links(edges: &[Edge]) -> Vec<Link> {
    let sorted = |[sent, received]: [u64; 2]| [sent.min(received) as f64, sent.max(received) as f64];
    exchanged(edges.iter())
        .into_iter()
        .map(|(one, other, ways)| (one, other, sorted(ways)))
        .collect()
}

/// The bytes of a link that count.
fn weight((_, _, [lesser, greater]): &Link, mutual: bool) -> f64 {
    if mutual { lesser + greater } else { *lesser }
}

/// The bytes below which transfers are left out: none, and where transfers are much heavier than the next lighter ones.
///
/// A few light transfers would otherwise hide that a pair of hosts carries only whole heavy ones.
fn levels(links: &[Link], mutual: bool) -> Vec<f64> {
    let mut bytes: Vec<f64> = links.iter().map(|link| weight(link, mutual)).collect();
    bytes.retain(|&bytes| bytes > 0.0);
    bytes.sort_by(f64::total_cmp);
    let mut levels: Vec<f64> = bytes.first().copied().into_iter().collect();
    let mut steps: Vec<(f64, f64)> = bytes
        .windows(2)
        .map(|two| (two[1] / two[0], two[1]))
        .filter(|&(factor, _)| factor >= LEVEL_FACTOR)
        .collect();
    steps.sort_by(|one, other| other.0.total_cmp(&one.0));
    levels.extend(steps.into_iter().take(MOST_LEVELS - 1).map(|(_, level)| level));
    levels
}

impl Exchange {
    fn new(
        problem: &Problem,
        mutual: bool,
        all: &[Link],
        (most_units, sizes): (usize, &[f64]),
        over: &dyn Fn() -> bool,
    ) -> Option<Self> {
        let (units, links) = (&problem.units, weighed(all, mutual));
        let flows = Flows::between(&units.cores, &links, ROUNDS);
        let mut search = Nearest::new(units.len());
        let mut cuts = Vec::new();
        for &size in sizes {
            let shares = flows.shares(size, &mut search, &|_| over());
            if over() {
                return None;
            }
            let mut least: Vec<(f64, f64)> = (0..units.len())
                .map(|unit| (units.cores[unit] as f64, shares[unit]))
                .collect();
            least.sort_by(|one, other| (one.1 * other.0).total_cmp(&(other.1 * one.0)));
            let mut sum = (0.0, 0.0);
            for each in &mut least {
                sum = (sum.0 + each.0, sum.1 + each.1);
                *each = sum;
            }
            cuts.push((size, least));
        }
        let mut bytes: Vec<f64> = links.iter().map(|link| link.2).collect();
        bytes.sort_by(f64::total_cmp);
        let mut between: Vec<(f64, f64)> = Vec::new();
        let count = bytes.len().min(MOST_CLASSES);
        for size in (1..=count).map(|number| bytes[number * bytes.len() / count - 1]) {
            if between.last().is_none_or(|last| last.0 < size) {
                between.push((size, most_between(units.len(), &links, size, most_units)));
            }
        }
        let least = |way: usize| all.iter().map(|link| link.2[way]).fold(f64::INFINITY, f64::min);
        Some(Self {
            mutual,
            least: [least(0), least(1)],
            bytes,
            between,
            cuts,
            crossing: Vec::new(),
            known: RefCell::default(),
        })
    }

    /// The most bytes of whole transfers between two hosts that can carry `out` bytes one way and `back` the other way.
    fn carried(&self, out: f64, back: f64) -> f64 {
        // The lesser direction of a transfer loads both directions of the pair.
        let reach = if self.mutual { out + back } else { out.min(back) };
        let fitting = self.bytes.partition_point(|&bytes| bytes <= reach);
        if fitting == 0 {
            return 0.0;
        }
        let mut count = (reach / self.bytes[0]).floor();
        if self.mutual {
            // Each transfer's greater direction takes either of the pair's, and its lesser direction the other one.
            let [lesser, greater] = self.least;
            count = count.min((out / greater).floor() + (back / greater).floor());
            if lesser > 0.0 {
                count = count.min((out.min(back) / lesser).floor());
            }
        }
        let most = self.bytes[fitting - 1];
        let class = self.between.partition_point(|&(size, _)| size < most);
        (count * most).min(reach).min(self.between[class].1)
    }

    /// The least bytes between some units and all others, if these units need from `low` to `high` of all `needed`
    /// nano-cores.
    fn least(&self, low: f64, high: f64, needed: f64) -> f64 {
        if low <= 0.0 || high >= needed {
            return 0.0;
        }
        let mut ends: Vec<f64> = self.cuts.iter().flat_map(|&(size, _)| [size, needed - size]).collect();
        ends.retain(|&end| end > low && end < high);
        ends.extend([low, high]);
        ends.sort_by(f64::total_cmp);
        let between = |from: f64, to: f64| {
            let best = self.cuts.iter().map(|cut| {
                let part = if cut.0 >= to { below(&cut.1, from) } else { 0.0 };
                let rest = if cut.0 >= needed - from {
                    below(&cut.1, needed - to)
                } else {
                    0.0
                };
                part.max(rest)
            });
            best.fold(0.0, f64::max)
        };
        if ends.len() == 2 {
            return between(low, high);
        }
        let pieces = ends.windows(2).map(|ends| between(ends[0], ends[1]));
        pieces.fold(f64::INFINITY, f64::min)
    }
}

fn weighed(links: &[Link], mutual: bool) -> Vec<(usize, usize, f64)> {
    links
        .iter()
        .map(|link| (link.0, link.1, weight(link, mutual)))
        .filter(|link| link.2 > 0.0)
        .collect()
}

/// The bytes between each set and all other units.
fn crossing(units: usize, links: &[(usize, usize, f64)], sets: &[Set]) -> Vec<f64> {
    let mut partners: Vec<Vec<(u32, f64)>> = vec![Vec::new(); units];
    for &(one, other, bytes) in links {
        partners[one].push((other as u32, bytes));
        partners[other].push((one as u32, bytes));
    }
    let of = |set: &Set| {
        let ends = set.units.iter().flat_map(|&unit| &partners[unit as usize]);
        ends.filter(|(other, _)| !set.units.contains(other))
            .map(|&(_, bytes)| bytes)
            .sum()
    };
    sets.iter().map(of).collect()
}

/// The least bytes of units with `nanos` nano-cores together, by linear interpolation between the sums of whole units.
fn below(sums: &[(f64, f64)], nanos: f64) -> f64 {
    let at = sums.partition_point(|sum| sum.0 < nanos * (1.0 - SAME));
    let before = if at == 0 { (0.0, 0.0) } else { sums[at - 1] };
    match sums.get(at) {
        Some(next) => before.1 + (next.1 - before.1) * ((nanos - before.0) / (next.0 - before.0)).clamp(0.0, 1.0),
        None => before.1,
    }
}

/// The most bytes that two hosts with `most_units` units each exchange by transfers of at most `size` bytes.
///
/// A unit has at most as many partners on the other host as fit there.
fn most_between(units: usize, links: &[(usize, usize, f64)], size: f64, most_units: usize) -> f64 {
    let mut of_unit: Vec<Vec<f64>> = vec![Vec::new(); units];
    for &(one, other, bytes) in links.iter().filter(|link| link.2 <= size) {
        of_unit[one].push(bytes);
        of_unit[other].push(bytes);
    }
    largest(
        of_unit.into_iter().map(|bytes| largest(bytes, most_units)).collect(),
        most_units,
    )
}

/// The sum of the `count` largest numbers.
fn largest(mut numbers: Vec<f64>, count: usize) -> f64 {
    numbers.sort_by(|one, other| other.total_cmp(one));
    numbers.into_iter().take(count).sum()
}

/// A group of hosts, and what the pairs between it and all other hosts carry.
struct Group<'a> {
    groups: &'a Groups<'a>,
    exchange: &'a Exchange,
    /// Bytes between host `m` and host `n`, at `m * hosts + n`.
    carried: &'a [f64],
    inside: Vec<bool>,
    /// For each host, what its pairs with hosts outside of the group carry, and what those with hosts inside do.
    out: Vec<f64>,
    into: Vec<f64>,
    nanos: f64,
    between: f64,
}

impl<'a> Group<'a> {
    fn new(groups: &'a Groups<'a>, exchange: &'a Exchange, carried: &'a [f64]) -> Self {
        let hosts = groups.offered.len();
        Self {
            groups,
            exchange,
            carried,
            inside: vec![false; hosts],
            out: carried.chunks(hosts).map(|row| row.iter().sum()).collect(),
            into: vec![0.0; hosts],
            nanos: 0.0,
            between: 0.0,
        }
    }

    /// Adds one host after the other, and keeps the group with the smallest share. Returns that share.
    fn grow(&mut self, start: usize) -> f64 {
        let hosts = self.inside.len();
        self.toggle(start);
        let mut best = (self.share(), self.inside.clone());
        for _ in 2..hosts {
            let more = |host: usize| self.out[host] - self.into[host];
            let outside = (0..hosts).filter(|&host| !self.inside[host]);
            let Some(next) = outside.min_by(|&a, &b| more(a).total_cmp(&more(b))) else {
                break;
            };
            self.toggle(next);
            let share = self.share();
            if share < best.0 {
                best = (share, self.inside.clone());
            }
        }
        for host in 0..hosts {
            if self.inside[host] != best.1[host] {
                self.toggle(host);
            }
        }
        best.0
    }

    /// Whether the group, or one that moves of hosts lead to, is too slow.
    fn is_too_slow(&mut self) -> bool {
        for _ in 0..MOST_MOVES {
            let share = self.share();
            if share < 1.0 {
                return true;
            }
            let Some((one, other)) = self.best_move(share) else {
                return false;
            };
            self.toggle(one);
            if let Some(other) = other {
                self.toggle(other);
            }
        }
        self.share() < 1.0
    }

    /// The host to move to the other group, or the two to exchange, for the smallest share below `share`.
    fn best_move(&self, share: f64) -> Option<(usize, Option<usize>)> {
        let hosts = self.inside.len();
        let mut best = (share * (1.0 - SAME), None);
        for one in 0..hosts {
            let (between, nanos) = self.after(one);
            let alone = self.share_of(between, nanos);
            if alone < best.0 {
                best = (alone, Some((one, None)));
            }
            if !self.inside[one] {
                continue;
            }
            for other in (0..hosts).filter(|&other| !self.inside[other]) {
                let pairs = self.carried[one * hosts + other] + self.carried[other * hosts + one];
                let more = self.out[other] - self.into[other] + pairs;
                let share = self.share_of(between + more, nanos + self.groups.offered[other]);
                if share < best.0 {
                    best = (share, Some((one, Some(other))));
                }
            }
        }
        best.1
    }

    /// What the pairs carry between both groups, and the group's nano-cores, once a host has moved.
    fn after(&self, host: usize) -> (f64, f64) {
        let (more, nanos) = (self.out[host] - self.into[host], self.groups.offered[host]);
        if self.inside[host] {
            (self.between - more, self.nanos - nanos)
        } else {
            (self.between + more, self.nanos + nanos)
        }
    }

    fn toggle(&mut self, host: usize) {
        (self.between, self.nanos) = self.after(host);
        let hosts = self.inside.len();
        let sign = if self.inside[host] { -1.0 } else { 1.0 };
        self.inside[host] = !self.inside[host];
        for other in 0..hosts {
            self.out[other] -= sign * self.carried[other * hosts + host];
            self.into[other] += sign * self.carried[host * hosts + other];
        }
    }

    fn share(&self) -> f64 {
        self.share_of(self.between, self.nanos)
    }

    /// What the pairs between both groups carry, as a share of what the units must exchange; infinite if these may
    /// exchange nothing.
    fn share_of(&self, between: f64, nanos: f64) -> f64 {
        let all: f64 = self.groups.offered.iter().sum();
        let needed = self.groups.needed;
        let (low, high) = ((needed - (all - nanos)).max(0.0), nanos.min(needed));
        let mut known = self.exchange.known.borrow_mut();
        let least = *known
            .entry((low.to_bits(), high.to_bits()))
            .or_insert_with(|| self.exchange.least(low, high, needed) * (1.0 - SAME));
        if least > 0.0 {
            // Sums of floating-point numbers may be slightly too small.
            (between + SAME * least) / least
        } else {
            f64::INFINITY
        }
    }
}
