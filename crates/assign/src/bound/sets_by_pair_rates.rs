//! The sets of tasks that a host can hold within a time if each pair of hosts has its own rate.
//!
//! A set exchanges bytes with one other task over one pair of hosts, because that task is on one host. So there is a
//! limit for each size: the set cannot reach more tasks with that many bytes than the fast enough pairs have room for
//! at their far ends. This counting argument resembles Hall's theorem. Hosts that can hold nothing, or less than their
//! cores allow, are worse far ends; the consequences are followed until nothing changes.

use gavotte_net::Seconds;

use crate::bound::connected_sets::Set;
use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::units::Edge;

/// Maximum number of distinct sizes. Above it, some sizes are rounded down, which only lets more sets fit.
const MOST_SIZES: usize = 512;

/// Bytes that exceed the limit by at most this share count as fitting, because rates are floating-point numbers.
const SAME: f64 = 1e-9;

/// Number of sets between two checks of the stop condition.
const PATIENCE: usize = 256;

/// Rounds of checking which sets the hosts can hold. Each round is a necessary condition, so any number of rounds is
/// correct.
const ROUNDS: usize = 12;

/// The ranks of a set's sizes towards each other task, largest first: bytes sent, bytes received, and the smaller of
/// both.
struct Sizes([Vec<u16>; 3]);

/// The bytes that sets exchange with single other tasks.
pub(crate) struct Pairs<'a> {
    problem: &'a Problem,
    sizes: Vec<Sizes>,
    /// The sizes that occur, in bytes, ascending.
    levels: Vec<f64>,
    /// The fewest cores that a unit needs to count as one unit at a far end.
    least_nanos: u64,
    /// For the largest of the application's parts that exchange bytes: its cores, in nano-cores.
    whole_nanos: u64,
    /// The fewest bytes on any edge of the largest part.
    least_bytes: f64,
}

impl<'a> Pairs<'a> {
    /// `None` if `over` becomes true before all is known.
    pub(crate) fn new(problem: &'a Problem, edges: &[Edge], sets: &[Set], over: &dyn Fn() -> bool) -> Option<Self> {
        let units = &problem.units;
        let count = units.members.len();
        let mut ends: [Vec<Vec<(usize, u64)>>; 2] = [vec![Vec::new(); count], vec![Vec::new(); count]];
        for edge in edges.iter().filter(|edge| edge.bytes > 0) {
            ends[0][edge.source].push((edge.target, edge.bytes));
            ends[1][edge.target].push((edge.source, edge.bytes));
        }
        let mut sums = vec![[0_u64; 2]; count];
        let mut touched = Vec::new();
        let mut raw: Vec<[Vec<f64>; 3]> = Vec::with_capacity(sets.len());
        for (at, set) in sets.iter().enumerate() {
            if at % PATIENCE == 0 && over() {
                return None;
            }
            for &unit in &set.units {
                for (way, ends) in ends.iter().enumerate() {
                    for &(other, bytes) in &ends[unit as usize] {
                        if sums[other] == [0, 0] {
                            touched.push(other);
                        }
                        sums[other][way] += bytes;
                    }
                }
            }
            let mut exchanged: [Vec<f64>; 3] = Default::default();
            for other in touched.drain(..) {
                let [sent, heard] = std::mem::take(&mut sums[other]);
                if !set.units.contains(&(other as u32)) {
                    for (kind, bytes) in [sent, heard, sent.min(heard)].into_iter().enumerate() {
                        if bytes > 0 {
                            exchanged[kind].push(bytes as f64);
                        }
                    }
                }
            }
            for list in &mut exchanged {
                list.sort_by(|a, b| b.total_cmp(a));
            }
            raw.push(exchanged);
        }
        let mut levels: Vec<f64> = raw.iter().flatten().flatten().copied().collect();
        levels.sort_by(f64::total_cmp);
        levels.dedup();
        let step = levels.len().div_ceil(MOST_SIZES).max(1);
        let levels: Vec<f64> = levels.into_iter().step_by(step).collect();
        let rank = |bytes: f64| (levels.partition_point(|&level| level <= bytes) - 1) as u16;
        let ranked = |list: &Vec<f64>| list.iter().map(|&bytes| rank(bytes)).collect();
        let sizes = raw.iter().map(|[a, b, c]| Sizes([ranked(a), ranked(b), ranked(c)]));
        let (whole_nanos, least_bytes) = largest_part(problem, edges);
        Some(Self {
            sizes: sizes.collect(),
            problem,
            least_nanos: units.cores.iter().copied().min().unwrap_or(0),
            levels,
            whole_nanos,
            least_bytes,
        })
    }

    /// For each host and set, whether the host may hold it in `time_s`. `None` if that leaves no placement.
    ///
    /// `allowed` says which sets may be on which host, host by host. If `over` ends the work early, more sets seem to
    /// fit.
    pub(crate) fn fits(
        &self,
        sets: &[Set],
        allowed: &dyn Fn(&Set, usize) -> bool,
        Seconds(time_s): Seconds,
        over: &dyn Fn() -> bool,
    ) -> Option<Vec<bool>> {
        let (network, hosts) = (&self.problem.network, self.problem.capacity.len());
        let offered: Vec<u64> = self
            .problem
            .capacity
            .iter()
            .map(|host| Cores::offered(host.cpus).nanos())
            .collect();
        let reach = |m: usize, n: usize| time_s * (1.0 + SAME) * network.pair_rate(m, n).bps() / 8.0;
        if self.torn(&offered, &reach) {
            return None;
        }
        // How many units each host holds at most, and its nano-cores.
        let most = |nanos: u64| {
            nanos
                .checked_div(self.least_nanos)
                .unwrap_or(u64::MAX)
                .min(self.problem.units.len() as u64)
        };
        let mut room: Vec<u64> = offered.iter().map(|&nanos| most(nanos)).collect();
        let mut open: Vec<bool> = vec![true; hosts * sets.len()];
        for host in 0..hosts {
            for (at, set) in sets.iter().enumerate() {
                open[host * sets.len() + at] = set.nano_cores <= offered[host] && allowed(set, host);
            }
        }
        let alone = |set: &Set| set.out_bytes == 0.0 && set.in_bytes == 0.0;
        for _ in 0..ROUNDS {
            let before = room.clone();
            for host in 0..hosts {
                if over() {
                    return Some(open);
                }
                let far = self.far_ends(host, &before, &reach);
                let open = &mut open[host * sets.len()..(host + 1) * sets.len()];
                let (mut largest, mut joins) = (0, 0);
                for (at, set) in sets.iter().enumerate() {
                    open[at] = open[at] && self.passes(at, &far);
                    if open[at] {
                        largest = largest.max(set.units.len() as u64);
                        joins += u64::from(!alone(set));
                    }
                }
                // Sets that exchange nothing with each other may share a host, up to its cores.
                room[host] = if joins == 0 && largest == 0 { 0 } else { before[host] };
            }
            let total: u128 = (0..hosts)
                .filter(|&host| room[host] > 0)
                .map(|host| u128::from(offered[host]))
                .sum();
            if total < self.problem.units.cores.iter().map(|&nanos| u128::from(nanos)).sum() {
                return None;
            }
            if room == before {
                break;
            }
        }
        Some(open)
    }

    /// For each size, the number of units that `host` can exchange that many bytes with: sent, received, and both.
    fn far_ends(&self, host: usize, room: &[u64], reach: &dyn Fn(usize, usize) -> f64) -> [Vec<u32>; 3] {
        let mut fitting = [(); 3].map(|()| vec![0_u32; self.levels.len()]);
        for other in (0..room.len()).filter(|&other| other != host && room[other] > 0) {
            let (out, into) = (reach(host, other), reach(other, host));
            for (kind, bytes) in [out, into, out.min(into)].into_iter().enumerate() {
                for (count, &level) in fitting[kind].iter_mut().zip(&self.levels) {
                    if bytes < level {
                        break;
                    }
                    *count += (bytes / level).min(room[other] as f64) as u32;
                }
            }
        }
        fitting
    }

    fn passes(&self, set: usize, far: &[Vec<u32>; 3]) -> bool {
        self.sizes[set].0.iter().zip(far).all(|(ranks, far)| {
            let mut counted = ranks.iter().zip(1_u32..);
            counted.all(|(&rank, count)| count <= far[rank as usize])
        })
    }

    /// Whether no group of hosts that reach each other fast enough has room for a connected part of the tasks.
    fn torn(&self, offered: &[u64], reach: &dyn Fn(usize, usize) -> f64) -> bool {
        let hosts = offered.len();
        let mut seen = vec![false; hosts];
        for start in 0..hosts {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            let (mut open, mut nanos) = (vec![start], 0_u64);
            while let Some(m) = open.pop() {
                nanos = nanos.saturating_add(offered[m]);
                for (n, seen) in seen.iter_mut().enumerate() {
                    if !*seen && reach(m, n).max(reach(n, m)) >= self.least_bytes {
                        *seen = true;
                        open.push(n);
                    }
                }
            }
            if nanos >= self.whole_nanos {
                return false;
            }
        }
        true
    }
}

/// Nano-cores of the largest connected part of the units, and the fewest bytes of an edge in it.
fn largest_part(problem: &Problem, edges: &[Edge]) -> (u64, f64) {
    let count = problem.units.members.len();
    let mut joined = crate::problem::joined::Joined::new(count);
    for edge in edges.iter().filter(|edge| edge.bytes > 0) {
        joined.join(edge.source, edge.target);
    }
    let mut nanos = vec![0_u64; count];
    for unit in 0..count {
        nanos[joined.root(unit)] += problem.units.cores[unit];
    }
    let largest = (0..count).max_by_key(|&root| nanos[root]).unwrap_or(0);
    let mine = edges.iter().filter(|edge| edge.bytes > 0);
    let mut least = f64::INFINITY;
    for edge in mine {
        if joined.root(edge.source) == largest {
            least = least.min(edge.bytes as f64);
        }
    }
    (
        nanos.get(largest).copied().unwrap_or(0),
        if least.is_finite() { least } else { 0.0 },
    )
}
