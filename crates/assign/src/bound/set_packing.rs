//! A proven lower bound on the completion time from the sets of tasks that a host can hold.
//!
//! The bytes between the tasks on a host and all other tasks must cross the host's links. The bound follows in these
//! steps:
//!
//! 1. Within a time `T`, a host can hold only sets of tasks whose cut is small enough.
//! 2. Every task must be in one of the sets: a set partition. Its linear relaxation is strong where the relaxation over
//!    single tasks says nothing.
//! 3. The dual gives the proof. Assign any value to each task. If all hosts together cannot hold as much value as the
//!    tasks have, no placement takes `T` or less.
//! 4. Subgradient steps (Held and Karp) find good values. Bisection finds the largest such `T`.
//!
//! Tasks that exchange nothing gain nothing by sharing a host: the cut of a set is the sum of the cuts of its connected
//! parts. So only connected sets are listed (Wernicke's ESU, 2006), and a knapsack over rounded-down cores and times
//! joins them. If there are too many sets, the lightest edges are left out, which only makes cuts smaller.
//!
//! The hosts of a machine do not use their caps to reach each other. They are therefore also treated as one place: the
//! bytes that leave the machine pass the caps.

use std::collections::BTreeMap;

use gavotte_net::{Seconds, Sharing};

use crate::bound::connected_sets::{Graph, Set};
use crate::bound::host_groups::Groups;
use crate::bound::sets_by_pair_rates::Pairs;
use crate::bound::star_knapsack::Direction;
use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::units::Edge;

/// A time shorter than a known one by this share is tried first. If it is proven too short, the known time is the
/// minimum.
const LESS: f64 = 5e-7;

/// Number of parts of a host's time. The cores have this many parts too, unless they are a few multiples of the tasks'
/// needs.
const TIME_PARTS: usize = 32;
const CORE_PARTS: usize = 16;

/// Times that differ by at most this share count as equal, because rates are sums of floating-point numbers.
const SAME: f64 = 1e-9;

impl Problem {
    /// A proven lower bound on the completion time of every assignment, in seconds; at least [`Problem::bound_s`] and
    /// at most `cap_s`.
    ///
    /// `cap_s` is the time of a known assignment. The first of `rounds` tries to prove that it is the minimum. Each
    /// further round halves the gap between the bound and the best bound that this method can prove. `work` counts sets
    /// times hosts examined, a few nanoseconds each. `over` is called from time to time, and ends the work early when
    /// it returns true. The bound depends on nothing else outside the problem.
    pub fn sets_bound_s(&self, Seconds(cap_s): Seconds, rounds: u32, work: u64, over: &dyn Fn() -> bool) -> f64 {
        let stars_s = self.phase_bounds_s();
        let all_s: f64 = stars_s.iter().sum();
        if !cap_s.is_finite() || all_s >= cap_s {
            return all_s.min(cap_s);
        }
        let hosts: Vec<Vec<usize>> = (0..self.capacity.len()).map(|host| vec![host]).collect();
        // Under the pipe model, the hosts of a machine share no link.
        let pipe = self.network.sharing() == Sharing::Pipe;
        let machines = if pipe { hosts.clone() } else { machines(self) };
        // A host does not use its caps to reach its neighbours on a machine. The machine as a whole has no such
        // neighbours.
        let views = if machines.len() < hosts.len() {
            vec![machines, hosts]
        } else {
            vec![hosts]
        };
        let share = work / (u64::from(rounds) * (stars_s.len() * views.len()) as u64).max(1);
        let bounds_s = stars_s.iter().enumerate().map(|(phase, &star_s)| {
            let phase_cap_s = cap_s - (all_s - star_s);
            views.iter().fold(star_s, |least_s, view| {
                Partition::new(self, phase, phase_cap_s, view, (work, over))
                    .filter(|_| least_s < phase_cap_s)
                    .map_or(least_s, |sets| {
                        sets.bound_s(least_s, phase_cap_s, (rounds, share), over)
                    })
            })
        });
        bounds_s.sum::<f64>().min(cap_s)
    }
}

/// The capacity of one host, or of the hosts of one machine together.
struct Place {
    hosts: Vec<usize>,
    nano_cores: u64,
    /// Seconds to send a byte, and to receive one, at the highest rate of all links together.
    out_s: f64,
    in_s: f64,
    /// Nano-cores of one part, and the number of parts.
    core_part: u64,
    core_parts: usize,
}

/// The time to move some bytes, in seconds. Zero bytes take zero seconds, even if no byte can pass.
fn time_s(bytes: f64, each_s: f64) -> f64 {
    if bytes == 0.0 { 0.0 } else { bytes * each_s }
}

impl Set {
    fn times_s(&self, place: &Place) -> (f64, f64) {
        (time_s(self.out_bytes, place.out_s), time_s(self.in_bytes, place.in_s))
    }
}

/// The set partition of one phase.
struct Partition<'a> {
    problem: &'a Problem,
    places: Vec<Place>,
    sets: Vec<Set>,
    /// The rates of single pairs of hosts; under the pipe model only.
    pairs: Option<Pairs<'a>>,
    groups: Option<Groups<'a>>,
}

impl<'a> Partition<'a> {
    /// Lists the sets that some place can hold within `cap_s`. `None` if no bytes are sent, or if `over` becomes true
    /// before the list is complete.
    fn new(
        problem: &'a Problem,
        phase: usize,
        cap_s: f64,
        view: &[Vec<usize>],
        (work, over): (u64, &dyn Fn() -> bool),
    ) -> Option<Self> {
        let mut edges: Vec<Edge> = problem
            .units
            .edges
            .iter()
            .filter(|edge| edge.phase == phase)
            .copied()
            .collect();
        let places: Vec<Place> = view.iter().map(|hosts| Place::new(problem, hosts)).collect();
        let mixed = view.iter().any(|hosts| hosts.len() > 1);
        let most = places.iter().map(|place| place.nano_cores).max()?;
        edges.sort_by_key(|edge| std::cmp::Reverse(edge.bytes));
        let holds = |set: &Set| {
            places.iter().any(|place| {
                let (out_s, in_s) = set.times_s(place);
                let fits = set.nano_cores <= place.nano_cores && out_s.max(in_s) <= cap_s * (1.0 + SAME);
                fits && allows(problem, set, place)
            })
        };
        // Keep as many of the heaviest edges as possible while there are few enough sets.
        let (mut kept, mut tried, mut too_many) = (None, edges.len(), edges.len() + 1);
        let mut enough = 0;
        while tried > enough && !over() {
            if let Some(sets) = Graph::new(problem, &edges[..tried], most, mixed).sets(&holds, work, over) {
                (kept, enough) = (Some((sets, tried)), tried);
            } else {
                too_many = tried;
            }
            tried = usize::midpoint(enough, too_many);
        }
        let (sets, edges_kept) = kept?;
        let pipe = problem.network.sharing() == Sharing::Pipe;
        let (pairs, groups) = if pipe {
            let pairs = Pairs::new(problem, &edges[..edges_kept], &sets, over)?;
            (Some(pairs), Groups::new(problem, (&edges, edges_kept), &sets, over))
        } else {
            (None, None)
        };
        Some(Self {
            problem,
            places,
            sets,
            pairs,
            groups,
        })
    }

    /// The largest time proven too short, between `least_s` and `cap_s`; `work` is that of one round.
    fn bound_s(&self, least_s: f64, cap_s: f64, (rounds, work): (u32, u64), over: &dyn Fn() -> bool) -> f64 {
        let cost = (self.sets.len() * self.places.len()).max(1) as u64;
        let steps = (work / cost).clamp(10, 1000);
        let mut values = vec![1.0; self.problem.units.members.len()];
        let (mut low_s, mut high_s) = (least_s, cap_s);
        let mut tried_s = cap_s * (1.0 - LESS);
        for _ in 0..rounds {
            // Values that proved one time too short are a good start for the next time.
            let mut tried = values.clone();
            if self.too_short(tried_s, &mut tried, steps, over) {
                (low_s, values) = (tried_s, tried);
            } else {
                high_s = tried_s;
            }
            if low_s >= cap_s * (1.0 - LESS) || over() {
                break;
            }
            tried_s = f64::midpoint(low_s, high_s);
        }
        low_s
    }

    /// For each place and set, whether the place has room for the set and the rules allow it.
    fn open(&self) -> Vec<bool> {
        let on = |place: &'_ Place| {
            let fits = |set: &Set| set.nano_cores <= place.nano_cores && allows(self.problem, set, place);
            self.sets.iter().map(fits).collect::<Vec<bool>>()
        };
        self.places.iter().flat_map(on).collect()
    }

    /// Whether it finds values of which all hosts together cannot hold the sum within `time_s`.
    fn too_short(&self, time_s: f64, values: &mut [f64], steps: u64, over: &dyn Fn() -> bool) -> bool {
        let whole = values.len() as f64;
        let carried = self.groups.as_ref().map(|groups| groups.carried(Seconds(time_s)));
        if let (Some(groups), Some(carried)) = (&self.groups, &carried)
            && groups.too_slow(carried)
        {
            return true;
        }
        let open = match &self.pairs {
            Some(pairs) => {
                let allowed = |set: &Set, host: usize| allows(self.problem, set, &self.places[host]);
                match pairs.fits(&self.sets, &allowed, Seconds(time_s), over) {
                    Some(open) => open,
                    None => return true,
                }
            }
            None => self.open(),
        };
        let shares = self.shares(time_s, carried.as_deref());
        for _ in 0..steps {
            if over() {
                return false;
            }
            let worth: Vec<f64> = self
                .sets
                .iter()
                .map(|set| set.units.iter().map(|&unit| values[unit as usize]).sum())
                .collect();
            let mut held = vec![0.0; values.len()];
            let most: f64 = (0..self.places.len())
                .map(|host| {
                    let mine = host * self.sets.len()..(host + 1) * self.sets.len();
                    self.hold(host, (&open[mine.clone()], &shares[mine]), &worth, values, &mut held)
                })
                .sum();
            let missing = values.iter().sum::<f64>() - most;
            if missing > SAME * values.iter().map(|value| value.abs()).sum::<f64>() {
                return true;
            }
            let square: f64 = held.iter().map(|held| (1.0 - held) * (1.0 - held)).sum();
            if square == 0.0 {
                return false;
            }
            // Polyak's step towards a little more value than the hosts can hold.
            let step = (0.01 * whole - missing) / square;
            for (value, held) in values.iter_mut().zip(&held) {
                *value += step * (1.0 - held);
            }
        }
        false
    }

    /// For each place and set, the share that the set takes of all that the place can exchange within a time; above 1 if
    /// the place cannot hold it. `carried` is what each two hosts carry between each other, if pairs limit them.
    fn shares(&self, time_s: f64, carried: Option<&[Vec<f64>]>) -> Vec<f64> {
        let limit_s = time_s * (1.0 + SAME);
        let mut shares = Vec::with_capacity(self.places.len() * self.sets.len());
        for (host, place) in self.places.iter().enumerate() {
            let by_pairs = match (&self.groups, carried) {
                (Some(groups), Some(carried)) => groups.shares(host, carried),
                _ => Vec::new(),
            };
            for (at, set) in self.sets.iter().enumerate() {
                let (out_s, in_s) = set.times_s(place);
                let share = f64::midpoint(out_s, in_s) / limit_s;
                shares.push(if out_s > limit_s || in_s > limit_s {
                    f64::INFINITY
                } else {
                    by_pairs.get(at).copied().unwrap_or(share)
                });
            }
        }
        shares
    }

    /// A lower bound on the most value that a host can hold within a time. Adds 1 to `held` for each unit in the sets
    /// chosen.
    fn hold(
        &self,
        host: usize,
        (open, shares): (&[bool], &[f64]),
        worth: &[f64],
        values: &[f64],
        held: &mut [f64],
    ) -> f64 {
        let place = &self.places[host];
        let columns = TIME_PARTS + 1;
        let mut best: Vec<Option<usize>> = vec![None; (place.core_parts + 1) * columns];
        let mut free = Vec::new();
        for (at, set) in self.sets.iter().enumerate() {
            if worth[at] <= 0.0 || !open[at] || shares[at] > 1.0 {
                continue;
            }
            let cores = (set.nano_cores / place.core_part) as usize;
            let part = (shares[at] * TIME_PARTS as f64) as usize;
            if cores == 0 && part == 0 {
                free.push(at);
            } else {
                let cell = &mut best[cores * columns + part.min(TIME_PARTS)];
                if cell.is_none_or(|other| worth[at] > worth[other]) {
                    *cell = Some(at);
                }
            }
        }
        let mut most = 0.0;
        // All sets that need no cores and no time can be chosen together, each unit once.
        let mut inside = vec![false; values.len()];
        for unit in free
            .iter()
            .flat_map(|&at| &self.sets[at].units)
            .map(|&unit| unit as usize)
        {
            if !std::mem::replace(&mut inside[unit], true) && values[unit] > 0.0 {
                most += values[unit];
                held[unit] += 1.0;
            }
        }
        let (packed, chosen) = pack(&best, worth, place.core_parts);
        for unit in chosen.into_iter().flat_map(|at| &self.sets[at].units) {
            held[*unit as usize] += 1.0;
        }
        most + packed
    }
}

/// The greatest worth of sets, each used any number of times, within all parts of cores and time; and those sets.
///
/// `best` has the best set for each number of parts of cores and of time.
fn pack(best: &[Option<usize>], worth: &[f64], core_parts: usize) -> (f64, Vec<usize>) {
    let columns = TIME_PARTS + 1;
    let mut items: Vec<(usize, usize, usize)> = Vec::new();
    for (cell, set) in best.iter().enumerate() {
        let (cores, part) = (cell / columns, cell % columns);
        if let Some(set) = *set {
            // In this order, every set that needs no more cores and no more time came before.
            let beaten = |&(c, p, other): &(usize, usize, usize)| c <= cores && p <= part && worth[other] >= worth[set];
            if !items.iter().any(beaten) {
                items.push((cores, part, set));
            }
        }
    }
    let mut table = vec![(0.0_f64, None); (core_parts + 1) * columns];
    for cell in 0..table.len() {
        let (cores, part) = (cell / columns, cell % columns);
        for &(c, p, set) in &items {
            if c <= cores && p <= part {
                let total = worth[set] + table[(cores - c) * columns + part - p].0;
                if total > table[cell].0 {
                    table[cell] = (total, Some((c, p, set)));
                }
            }
        }
    }
    let mut chosen = Vec::new();
    let mut cell = table.len() - 1;
    while let Some((c, p, set)) = table[cell].1 {
        chosen.push(set);
        cell -= c * columns + p;
    }
    (table[table.len() - 1].0, chosen)
}

/// The hosts of each machine.
fn machines(problem: &Problem) -> Vec<Vec<usize>> {
    let mut of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (host, known) in problem.network.hosts().iter().enumerate() {
        of.entry(known.machine).or_default().push(host);
    }
    of.into_values().collect()
}

impl Place {
    fn new(problem: &Problem, hosts: &[usize]) -> Self {
        let common = problem.units.cores.iter().copied().fold(0, gcd);
        let offered = |&host: &usize| Cores::offered(problem.capacity[host].cpus).nanos();
        let nano_cores = hosts.iter().map(offered).sum::<u64>();
        let few = common > 0 && nano_cores / common <= CORE_PARTS as u64;
        let core_part = if few { common } else { nano_cores / CORE_PARTS as u64 }.max(1);
        Self {
            hosts: hosts.to_vec(),
            nano_cores,
            out_s: 8.0 / problem.most_of(hosts, Direction::Out),
            in_s: 8.0 / problem.most_of(hosts, Direction::In),
            core_part,
            core_parts: (nano_cores / core_part) as usize,
        }
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

fn allows(problem: &Problem, set: &Set, place: &Place) -> bool {
    let allowed = &problem.units.allowed;
    set.units.iter().all(|&unit| {
        let mask = allowed[unit as usize].as_ref();
        mask.is_none_or(|mask| place.hosts.iter().any(|&host| mask[host]))
    })
}
