//! Multilevel bisection: coarsen, cut the coarsest graph, and refine the cut level by level (Fiduccia and Mattheyses).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::cuts::graph::Graph;

/// Number of nodes that the coarsest graph may have.
const COARSEST: usize = 60;

/// A level is worth its work if it has at most this share of the nodes of the one below.
const SHRINK: f64 = 0.95;

/// Largest size of a coarse node, as a share of all.
const LARGEST: f64 = 0.03;

/// Cuts of the coarsest graph; the best one counts.
const TRIES: usize = 6;

/// Passes of the refinement on each level, at most.
const PASSES: usize = 4;

/// Up to this many nodes, a pass considers all of them; beyond, those at the cut.
const FEW: usize = 400;

/// Moves without a better cut after which a pass ends: this share of the nodes, within limits.
const VAIN_SHARE: f64 = 0.02;
const FEWEST_VAIN: usize = 40;
const MOST_VAIN: usize = 400;

/// A node that may be on either side, and one that may be on the left or the right only.
pub(crate) const FREE: u8 = 0;
pub(crate) const LEFT: u8 = 1;
pub(crate) const RIGHT: u8 = 2;

/// The side of each node, 0 or 1, with few bytes between the sides; each has at most its limit if that is possible.
pub(crate) fn bisect(graph: &Graph, fixed: &[u8], limits: [f64; 2], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let most = (graph.total() * LARGEST)
        .max(2.0 * graph.largest())
        .min(limits[0].max(limits[1]));
    let mut levels: Vec<(Graph, Vec<u8>, Vec<u32>)> = Vec::new();
    loop {
        let (fine, fixed) = levels
            .last()
            .map_or((graph, fixed), |(graph, fixed, _)| (graph, fixed.as_slice()));
        if fine.len() <= COARSEST {
            break;
        }
        let (coarse, count) = fine.matched(fixed, most, rng);
        if count as f64 > SHRINK * fine.len() as f64 {
            break;
        }
        let mut own = vec![FREE; count];
        for (node, &into) in coarse.iter().enumerate() {
            own[into as usize] = own[into as usize].max(fixed[node]);
        }
        levels.push((fine.contracted(&coarse, count), own, coarse));
    }
    let (coarsest, own) = levels
        .last()
        .map_or((graph, fixed), |(graph, fixed, _)| (graph, fixed.as_slice()));
    let mut side = first_cut(coarsest, own, limits, rng);
    for number in (0..levels.len()).rev() {
        let (fine, own) = match number {
            0 => (graph, fixed),
            _ => (&levels[number - 1].0, levels[number - 1].1.as_slice()),
        };
        side = levels[number].2.iter().map(|&into| side[into as usize]).collect();
        Cut::new(fine, own, limits, side.as_mut_slice()).refine();
    }
    side
}

/// The best of several cuts, each grown around a random node.
fn first_cut(graph: &Graph, fixed: &[u8], limits: [f64; 2], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut best: Option<((f64, f64), Vec<u8>)> = None;
    for _ in 0..TRIES {
        let mut side: Vec<u8> = fixed.iter().map(|&fixed| u8::from(fixed != LEFT)).collect();
        let seed = rng.random_range(0..graph.len());
        if fixed[seed] == FREE {
            side[seed] = 0;
        }
        // All else is on the right, which is too much there: the refinement first moves nodes to the left.
        let mut cut = Cut::new(graph, fixed, limits, &mut side);
        cut.refine();
        let cost = cut.cost();
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, side));
        }
    }
    best.map_or_else(Vec::new, |(_, side)| side)
}

/// A node that may move, and what is gained by that; outdated if the node has another number by now.
#[derive(Clone, Copy)]
struct Offer {
    gain: f64,
    node: u32,
    number: u32,
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Offer {}

/// A bisection that is refined.
struct Cut<'a> {
    graph: &'a Graph,
    fixed: &'a [u8],
    limits: [f64; 2],
    side: &'a mut [u8],
    /// Bytes that cross the cut less for each node if it changes sides.
    gain: Vec<f64>,
    /// How often the gain of each node has changed.
    number: Vec<u32>,
    used: [f64; 2],
    bytes: f64,
}

impl<'a> Cut<'a> {
    fn new(graph: &'a Graph, fixed: &'a [u8], limits: [f64; 2], side: &'a mut [u8]) -> Self {
        let (mut gain, mut used, mut bytes) = (vec![0.0; graph.len()], [0.0; 2], 0.0);
        for node in 0..graph.len() {
            used[usize::from(side[node])] += graph.size[node];
            for (other, both) in graph.near(node) {
                let crosses = side[node] != side[other];
                gain[node] += if crosses { both } else { -both };
                bytes += if crosses { both / 2.0 } else { 0.0 };
            }
        }
        Self {
            number: vec![0; graph.len()],
            graph,
            fixed,
            limits,
            side,
            gain,
            used,
            bytes,
        }
    }

    /// What exceeds the limits, and the bytes that cross.
    fn cost(&self) -> (f64, f64) {
        let over = |side: usize| (self.used[side] - self.limits[side]).max(0.0);
        (over(0) + over(1), self.bytes)
    }

    /// Passes over the nodes until one does not help.
    fn refine(&mut self) {
        for _ in 0..PASSES {
            if !self.pass() {
                break;
            }
        }
    }

    /// Moves nodes one by one, each at most once, and keeps the best cut on the way. Returns whether it is better.
    fn pass(&mut self) -> bool {
        let count = self.graph.len();
        let slack = self.graph.largest();
        let begin = self.cost();
        let all = count <= FEW || begin.0 > 0.0;
        let mut heaps = [BinaryHeap::new(), BinaryHeap::new()];
        let mut locked = vec![false; count];
        for node in 0..count {
            locked[node] = self.fixed[node] != FREE;
            let crosses = || {
                self.graph
                    .near(node)
                    .any(|(other, _)| self.side[other] != self.side[node])
            };
            if !locked[node] && (all || crosses()) {
                heaps[usize::from(self.side[node])].push(self.offer(node));
            }
        }
        let patience = ((count as f64 * VAIN_SHARE) as usize).clamp(FEWEST_VAIN, MOST_VAIN);
        let (mut best, mut best_at) = (begin, 0);
        let mut moved: Vec<u32> = Vec::new();
        while moved.len() - best_at <= patience {
            let Some(node) = self.choose(&mut heaps, &locked, slack) else {
                break;
            };
            locked[node] = true;
            self.flip(node, |other, offer, side| {
                if !locked[other] {
                    heaps[side].push(offer);
                }
            });
            moved.push(node as u32);
            let now = self.cost();
            if now.0 < best.0 - 1e-9 || (now.0 <= best.0 + 1e-9 && now.1 < best.1 * (1.0 - 1e-12)) {
                (best, best_at) = (now, moved.len());
            }
        }
        for &node in moved[best_at..].iter().rev() {
            self.flip(node as usize, |_, _, _| {});
        }
        best_at > 0
    }

    fn offer(&self, node: usize) -> Offer {
        Offer {
            gain: self.gain[node],
            node: node as u32,
            number: self.number[node],
        }
    }

    /// The next node to move: from a side that has too much, else the one with the largest gain.
    fn choose(&self, heaps: &mut [BinaryHeap<Offer>; 2], locked: &[bool], slack: f64) -> Option<usize> {
        let over = [0, 1].map(|side| self.used[side] - self.limits[side]);
        let only = [0, 1]
            .into_iter()
            .find(|&side| over[side] > 1e-9 && over[side] >= over[1 - side]);
        loop {
            for heap in heaps.iter_mut() {
                while heap.peek().is_some_and(|offer| {
                    let node = offer.node as usize;
                    locked[node] || offer.number != self.number[node]
                }) {
                    heap.pop();
                }
            }
            let from = only.or_else(|| match (heaps[0].peek(), heaps[1].peek()) {
                (Some(left), Some(right)) => Some(usize::from(right.gain > left.gain)),
                (Some(_), None) => Some(0),
                (None, Some(_)) => Some(1),
                (None, None) => None,
            })?;
            let node = heaps[from].pop()?.node as usize;
            if self.used[1 - from] + self.graph.size[node] <= self.limits[1 - from] + slack {
                return Some(node);
            }
        }
    }

    /// Moves a node to the other side, and calls `changed` for each neighbour, with its offer and side.
    fn flip(&mut self, node: usize, mut changed: impl FnMut(usize, Offer, usize)) {
        let (graph, from) = (self.graph, self.side[node]);
        self.bytes -= self.gain[node];
        self.gain[node] = -self.gain[node];
        self.side[node] = 1 - from;
        self.used[usize::from(from)] -= graph.size[node];
        self.used[usize::from(1 - from)] += graph.size[node];
        for (other, both) in graph.near(node) {
            self.gain[other] += if self.side[other] == from {
                2.0 * both
            } else {
                -2.0 * both
            };
            self.number[other] += 1;
            changed(other, self.offer(other), usize::from(self.side[other]));
        }
    }
}

/// A generator for one bisection, whichever thread makes it.
pub(crate) fn rng_of(seed: u64, first_host: usize, hosts: usize) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(
        seed ^ ((first_host as u64) << 32 | hosts as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15),
    )
}
