//! A proven lower bound on the completion time from flows that no host can keep inside: cheap where tasks are many.
//!
//! 1. Every task sends a flow to more nearby tasks than fit on its host. No edge carries more flow than it has bytes.
//! 2. In any placement, the flow between a host's tasks and all others crosses the host's links. It is at most the bytes that
//!    cross them.
//! 3. How much of a task's flow can stay is a knapsack problem. Each task thus makes its host send and receive a known share of
//!    bytes.
//! 4. Each host offers its cores and, within a time `T`, its links' bytes. If their sum is less than all tasks need, no placement
//!    takes `T` or less.
//!
//! Such flows are the dual of the spreading metrics of Even, Naor, Rao and Schieber (1999), from which the best cuts into
//! small parts are known within a logarithm. Few tasks on a host exchange more with others, each, than many. The flows are
//! therefore computed for sets of several sizes, and a host may choose which size to hold. The flows go along shortest paths,
//! whose lengths grow with what an edge carries (as of Garg and Koenemann, 1998), and are then scaled down to fit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::bound::joint_demand::{Needs, Offered, SAME};
use crate::bound::star_knapsack::Direction;
use crate::problem::Problem;
use crate::problem::cores::Cores;
use crate::problem::units::exchanged;

/// The largest number of set sizes that are distinguished. The second constant is the smallest ratio between two of
/// them.
const SIZES: usize = 6;
const LEAST_RATIO: f64 = 1.4;

/// A flow goes to tasks of this many times the cores of the largest set, and of a few more tasks of the mean size.
const REACH: f64 = 2.5;
const MORE: f64 = 2.0;

/// How often flows are sent, each time over links that carry little so far. The first half of the rounds only shows
/// which links those are.
const ROUNDS: usize = 4;

/// A link's length is this power of its load, as a share of its bytes. The second constant is the load of all links before the
/// first flow, in flows to a set of the largest size.
const AVOID: i32 = 4;
const CARRIED: f64 = 2.0;

/// Number of flows between two checks of the stop condition.
const PATIENCE: usize = 64;

/// How often all flows are enlarged until an edge on their path is full.
const FILLS: usize = 4;

impl Problem {
    /// A proven lower bound on the completion time of every assignment, in seconds; 0 if the method proves nothing. At
    /// least [`Problem::bound_s`].
    ///
    /// `work` counts examined transfers, about a tenth of a microsecond each. `over` is called from time to time, and
    /// ends the work early when it returns true. The bound depends on nothing else outside the problem.
    pub fn flows_bound_s(&self, work: u64, over: &dyn Fn() -> bool) -> f64 {
        let stars_s = self.phase_bounds_s();
        let share = work / (stars_s.len() as u64).max(1);
        let bounds_s = stars_s.iter().enumerate();
        bounds_s
            .map(|(phase, &star_s)| Flows::new(self, phase).bound_s(share, over).max(star_s))
            .sum()
    }
}

impl Problem {
    /// Lower bound on the completion time in seconds, by volume.
    ///
    /// The bytes of a task that cannot stay on its host make the host send and receive. The bound is cheap. It helps where each
    /// task has more partners than fit on its host, as in an all-to-all exchange.
    pub fn volume_bound_s(&self) -> f64 {
        (0..self.phases.len())
            .map(|phase| Flows::new(self, phase).volume_s())
            .sum()
    }
}

/// The graph of one phase, and the capacities of the hosts.
pub(crate) struct Flows {
    /// Nano-cores of each unit.
    cores: Vec<f64>,
    /// Bytes that two units exchange, both ways.
    links: Vec<f64>,
    /// The same bytes by direction: from the lower unit to the higher, and from the higher to the lower.
    ways: Vec<[f64; 2]>,
    /// For each unit its partners, with the number of the link between them.
    partners: Vec<Vec<(u32, u32)>>,
    /// For each host its cores, and the bytes that it can send and receive in a second.
    hosts: Vec<Offered>,
    /// The same, with the smaller of the two rates for both directions.
    slower: Vec<Offered>,
    /// How often flows are sent.
    rounds: usize,
}

/// One unit's flow: a tree of shortest paths. Each other unit in it receives its cores times the flow's size.
struct Tree {
    source: usize,
    /// Unit, position of its parent in this list, and link to the parent. The source is not in the list; its position
    /// is `u32::MAX`.
    nodes: Vec<(u32, u32, u32)>,
    size: f64,
}

/// For each unit, other units and the flow between it and each of them.
type Streams = Vec<Vec<(u32, f64)>>;

impl Flows {
    fn new(problem: &Problem, phase: usize) -> Self {
        let units = &problem.units;
        let pairs = exchanged(units.edges.iter().filter(|edge| edge.phase == phase));
        let offer = |host: usize| {
            let of = |direction| problem.most_of(&[host], direction) / 8.0;
            let cores = Cores::offered(problem.capacity[host].cpus).nanos() as f64;
            (cores, [of(Direction::Out), of(Direction::In)])
        };
        let hosts: Vec<(f64, [f64; 2])> = (0..problem.capacity.len()).map(offer).collect();
        let total = |&(one, other, ways): &(usize, usize, [u64; 2])| (one, other, (ways[0] + ways[1]) as f64);
        let links: Vec<(usize, usize, f64)> = pairs.iter().map(total).collect();
        Self {
            ways: pairs
                .iter()
                .map(|&(_, _, ways)| ways.map(|bytes| bytes as f64))
                .collect(),
            hosts: hosts.iter().map(|&(cores, [out, into])| (cores, out + into)).collect(),
            slower: hosts
                .iter()
                .map(|&(cores, [out, into])| (cores, out.min(into)))
                .collect(),
            ..Self::between(&units.cores, &links, ROUNDS)
        }
    }

    /// The graph of units with these nano-cores and links, without hosts: two units, and the bytes between them.
    pub(crate) fn between(nano_cores: &[u64], links: &[(usize, usize, f64)], rounds: usize) -> Self {
        let mut partners = vec![Vec::new(); nano_cores.len()];
        for (link, &(one, other, _)) in links.iter().enumerate() {
            partners[one].push((other as u32, link as u32));
            partners[other].push((one as u32, link as u32));
        }
        Self {
            cores: nano_cores.iter().map(|&nanos| nanos as f64).collect(),
            links: links.iter().map(|&(_, _, bytes)| bytes).collect(),
            ways: Vec::new(),
            partners,
            hosts: Vec::new(),
            slower: Vec::new(),
            rounds,
        }
    }

    fn bound_s(&self, work: u64, over: &dyn Fn() -> bool) -> f64 {
        let sizes = self.sizes();
        if self.links.is_empty() || sizes.is_empty() {
            return 0.0;
        }
        // The largest sets come first, because they alone already give a bound.
        let mut shares: Vec<Vec<f64>> = Vec::new();
        let mut search = Nearest::new(self.cores.len());
        for &size in &sizes {
            if over() || search.looked >= work {
                break;
            }
            shares.push(self.shares(size, &mut search, &|looked| looked >= work || over()));
        }
        self.needs(&self.hosts).least_s(&sizes[..shares.len()], &shares)
    }

    fn needs<'a>(&'a self, hosts: &'a [Offered]) -> Needs<'a> {
        Needs {
            cores: &self.cores,
            hosts,
        }
    }

    /// The larger of two bounds: one by the bytes that units exchange both ways, and one by the bytes of the smaller
    /// direction, which the slower direction of the links carries.
    fn volume_s(&self) -> f64 {
        let sizes = self.sizes();
        let all = self.exchanged(|link, _| self.links[link]);
        let sent = self.exchanged(|link, lower| self.ways[link][usize::from(!lower)]);
        let received = self.exchanged(|link, lower| self.ways[link][usize::from(lower)]);
        let (mut both, mut less): (Vec<Vec<f64>>, Vec<Vec<f64>>) = Default::default();
        for &size in &sizes {
            both.push(self.kept_out(&all, size));
            let ways = (self.kept_out(&sent, size), self.kept_out(&received, size));
            less.push(ways.0.iter().zip(&ways.1).map(|(out, into)| out.min(*into)).collect());
        }
        let both_s = self.needs(&self.hosts).least_s(&sizes, &both);
        self.needs(&self.slower).least_s(&sizes, &less).max(both_s)
    }

    /// The sizes of sets in cores: from the largest that a host can hold to that of the smallest unit.
    fn sizes(&self) -> Vec<f64> {
        let most = self.hosts.iter().map(|host| host.0).fold(0.0, f64::max);
        let least = self
            .cores
            .iter()
            .copied()
            .filter(|&cores| cores > 0.0)
            .fold(most, f64::min);
        if most <= 0.0 || least <= 0.0 {
            return Vec::new();
        }
        let ratio = (most / least).powf(1.0 / (SIZES - 1) as f64).max(LEAST_RATIO);
        let sizes = (0..SIZES as i32).map(|step| most / ratio.powi(step));
        // Rounding may leave the last size a little above or below the smallest unit.
        sizes
            .filter(|&size| size >= least * (1.0 - SAME))
            .map(|size| size * (1.0 + SAME))
            .collect()
    }

    /// For each unit, the least bytes that it makes its host exchange if the units on that host have at most `size`
    /// cores.
    pub(crate) fn shares(&self, size: f64, search: &mut Nearest, over: &dyn Fn(u64) -> bool) -> Vec<f64> {
        let count = self.cores.len();
        let reach = REACH * size + MORE * self.cores.iter().sum::<f64>() / count as f64;
        let length = |link: usize, load: f64| {
            let bytes = self.links[link];
            (load / bytes).powi(AVOID) / bytes
        };
        let mut load = vec![CARRIED; self.links.len()];
        let mut lengths: Vec<f64> = (0..self.links.len()).map(|link| length(link, CARRIED)).collect();
        let (mut trees, mut trial): (Vec<Tree>, Vec<Tree>) = Default::default();
        let stride = stride(count);
        // The flows that exist so far already prove a bound.
        'rounds: for round in 0..self.rounds {
            if round == self.rounds / 2 {
                trial = std::mem::take(&mut trees);
            }
            // A stride visits units in all parts of the graph. Visiting them in order would fill one part of the graph
            // first.
            for number in 0..count {
                if number % PATIENCE == PATIENCE - 1 && over(search.looked) {
                    if round == self.rounds / 2 {
                        trees.append(&mut trial);
                    }
                    break 'rounds;
                }
                let source = number * stride % count;
                if self.partners[source].is_empty() || self.cores[source] > size {
                    continue;
                }
                let tree = search.tree(self, &lengths, source, reach);
                self.each(&tree, |link, flow| {
                    load[link] += flow / size;
                    lengths[link] = length(link, load[link]);
                });
                trees.push(tree);
            }
        }
        self.fill(&mut trees);
        self.kept_out(&self.streams(&trees), size)
    }

    /// Calls `tell` with each link of a flow's paths and the flow on it. The same link may come several times.
    fn each(&self, tree: &Tree, mut tell: impl FnMut(usize, f64)) {
        let mut flow: Vec<f64> = tree
            .nodes
            .iter()
            .map(|node| self.cores[node.0 as usize] * tree.size)
            .collect();
        for at in (0..tree.nodes.len()).rev() {
            let (_, parent, link) = tree.nodes[at];
            tell(link as usize, flow[at]);
            if parent != u32::MAX {
                flow[parent as usize] += flow[at];
            }
        }
    }

    /// Scales the flows so that every link carries at most its bytes and few links have capacity left.
    fn fill(&self, trees: &mut [Tree]) {
        for _ in 0..FILLS {
            let full = self.fullness(trees);
            for tree in trees.iter_mut() {
                let mut fullest = 0.0_f64;
                self.each(tree, |link, flow| {
                    if flow > 0.0 {
                        fullest = fullest.max(full[link]);
                    }
                });
                tree.size *= if fullest > 0.0 { fullest.recip() } else { 0.0 };
            }
        }
        let fullest = self.fullness(trees).into_iter().fold(1.0, f64::max);
        for tree in trees.iter_mut() {
            tree.size /= fullest * (1.0 + SAME);
        }
    }

    /// The flow on each link as a share of its bytes.
    fn fullness(&self, trees: &[Tree]) -> Vec<f64> {
        let mut full = vec![0.0; self.links.len()];
        for tree in trees {
            self.each(tree, |link, flow| full[link] += flow / self.links[link]);
        }
        full
    }

    /// For each unit, its partners with `bytes` of the link to each. The second argument of `bytes` says whether the
    /// unit is the lower one.
    fn exchanged(&self, bytes: impl Fn(usize, bool) -> f64) -> Streams {
        let of = |(unit, partners): (usize, &Vec<(u32, u32)>)| {
            let to = |&(other, link): &(u32, u32)| (other, bytes(link as usize, unit < other as usize));
            partners.iter().map(to).collect()
        };
        self.densest_first(self.partners.iter().enumerate().map(of).collect())
    }

    /// For each unit, the flow to and from every other unit.
    fn streams(&self, trees: &[Tree]) -> Streams {
        let mut flows: Streams = vec![Vec::new(); self.cores.len()];
        for tree in trees.iter().filter(|tree| tree.size > 0.0) {
            for &(unit, _, _) in &tree.nodes {
                let flow = self.cores[unit as usize] * tree.size;
                if flow > 0.0 {
                    flows[tree.source].push((unit, flow));
                    flows[unit as usize].push((tree.source as u32, flow));
                }
            }
        }
        for flows in &mut flows {
            flows.sort_unstable_by_key(|&(other, _)| other);
            flows.dedup_by(|next, first| {
                let same = next.0 == first.0;
                first.1 += if same { next.1 } else { 0.0 };
                same
            });
        }
        self.densest_first(flows)
    }

    /// Sorts each unit's flows in the order in which they would stay on a host.
    fn densest_first(&self, mut flows: Streams) -> Streams {
        let dense = |&(other, flow): &(u32, f64)| flow / self.cores[other as usize];
        for flows in &mut flows {
            flows.sort_unstable_by(|one, other| dense(other).total_cmp(&dense(one)));
        }
        flows
    }

    /// For each unit, its flow to and from others, minus the most that can stay among units of `size` cores together.
    fn kept_out(&self, flows: &Streams, size: f64) -> Vec<f64> {
        let share = |(unit, flows): (usize, &Vec<(u32, f64)>)| {
            let all: f64 = flows.iter().map(|flow| flow.1).sum();
            let cores = |other: u32| self.cores[other as usize];
            let mut free = (size - self.cores[unit]).max(0.0);
            let mut out = all;
            for &(other, flow) in flows {
                if cores(other) > free {
                    out -= flow * free / cores(other);
                    break;
                }
                out -= flow;
                free -= cores(other);
            }
            (out - SAME * all).max(0.0)
        };
        flows.iter().enumerate().map(share).collect()
    }
}

/// Finds the units nearest to a unit; the same buffers serve many searches.
pub(crate) struct Nearest {
    /// For each unit reached: its distance, and the number of the search that reached it.
    seen: Vec<(f64, u32)>,
    done: Vec<u32>,
    turn: u32,
    /// Number of links examined.
    pub(crate) looked: u64,
}

impl Nearest {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            seen: vec![(0.0, 0); count],
            done: vec![0; count],
            turn: 0,
            looked: 0,
        }
    }

    /// Shortest paths to the nearest units, until these have `cores` cores.
    fn tree(&mut self, flows: &Flows, lengths: &[f64], source: usize, cores: f64) -> Tree {
        self.turn += 1;
        let mut nodes = Vec::new();
        let mut heap = BinaryHeap::new();
        // Distances are not negative, so their bit patterns have the same order as the numbers.
        heap.push(Reverse((0_u64, source as u32, u32::MAX, u32::MAX)));
        let mut reached = 0.0;
        while let Some(Reverse((bits, unit, parent, link))) = heap.pop() {
            if std::mem::replace(&mut self.done[unit as usize], self.turn) == self.turn {
                continue;
            }
            let mut position = u32::MAX;
            if link != u32::MAX {
                position = nodes.len() as u32;
                nodes.push((unit, parent, link));
                reached += flows.cores[unit as usize];
                if reached >= cores {
                    break;
                }
            }
            self.looked += flows.partners[unit as usize].len() as u64;
            for &(other, link) in &flows.partners[unit as usize] {
                let distance = f64::from_bits(bits) + lengths[link as usize];
                let (known, turn) = self.seen[other as usize];
                if turn != self.turn || distance < known {
                    self.seen[other as usize] = (distance, self.turn);
                    heap.push(Reverse((distance.to_bits(), other, position, link)));
                }
            }
        }
        Tree {
            source,
            nodes,
            size: 1.0,
        }
    }
}

/// A number of about the golden section of `count` that has no divisor with it in common.
fn stride(count: usize) -> usize {
    let first = (count as f64 * 0.618) as usize;
    (first..count).find(|&stride| gcd(stride, count) == 1).unwrap_or(1)
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}
