//! The graph that is cut: units as nodes, and the bytes that two units exchange in both directions as edges.

use std::collections::BTreeMap;

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;

use crate::problem::units::Units;

/// A node without a partner or a set.
pub(crate) const NONE: u32 = u32::MAX;

/// Nodes with sizes, and weighted edges in compressed rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Where the row of each node begins, and where the last ends.
    pub(crate) first: Vec<u32>,
    /// The neighbours of all nodes, row by row.
    pub(crate) others: Vec<u32>,
    /// The bytes of each edge, in the order of `others`.
    pub(crate) bytes: Vec<f64>,
    /// Size of each node, in the unit of the hosts' room.
    pub(crate) size: Vec<f64>,
    /// The unit of each node; empty in coarser graphs.
    pub(crate) units: Vec<u32>,
}

impl Graph {
    /// The graph of all units, where `size` is the size of each.
    pub(crate) fn of(units: &Units, size: Vec<f64>) -> Self {
        let mut graph = Self {
            first: vec![0],
            units: (0..units.len() as u32).collect(),
            size,
            ..Self::default()
        };
        let mut row: Vec<(usize, u64)> = Vec::new();
        for halves in &units.halves {
            row.clear();
            row.extend(halves.iter().map(|half| (half.other, half.bytes)));
            row.sort_unstable();
            for same in row.chunk_by(|one, next| one.0 == next.0) {
                graph.others.push(same[0].0 as u32);
                graph.bytes.push(same.iter().map(|&(_, bytes)| bytes as f64).sum());
            }
            graph.first.push(graph.others.len() as u32);
        }
        graph
    }

    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.size.len()
    }

    /// The neighbours of a node, with the bytes that both exchange.
    pub(crate) fn near(&self, node: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row = self.first[node] as usize..self.first[node + 1] as usize;
        let others = self.others[row.clone()].iter().map(|&other| other as usize);
        others.zip(self.bytes[row].iter().copied())
    }

    /// The sum of all sizes.
    pub(crate) fn total(&self) -> f64 {
        self.size.iter().sum()
    }

    /// The largest size.
    pub(crate) fn largest(&self) -> f64 {
        self.size.iter().copied().fold(0.0, f64::max)
    }

    /// The two graphs of the nodes on each side, without the edges between them.
    pub(crate) fn parts(&self, side: &[u8]) -> [Self; 2] {
        let mut index = vec![0_u32; self.len()];
        let mut counts = [0_u32; 2];
        for (node, &side) in side.iter().enumerate() {
            index[node] = counts[usize::from(side)];
            counts[usize::from(side)] += 1;
        }
        [0_u8, 1].map(|wanted| {
            let mut part = Self {
                first: vec![0],
                ..Self::default()
            };
            for node in (0..self.len()).filter(|&node| side[node] == wanted) {
                for (other, bytes) in self.near(node).filter(|&(other, _)| side[other] == wanted) {
                    part.others.push(index[other]);
                    part.bytes.push(bytes);
                }
                part.first.push(part.others.len() as u32);
                part.size.push(self.size[node]);
                part.units.push(self.units[node]);
            }
            part
        })
    }

    /// Pairs nodes that exchange many bytes for their size; returns the coarse node of each node, and their number.
    ///
    /// Nodes are paired only if they have the same value in `fixed` or one of them is free, and if both together are not
    /// larger than `most`. Nodes without a free neighbour are paired with others that have the same best neighbour, as
    /// around a hub.
    pub(crate) fn matched(&self, fixed: &[u8], most: f64, rng: &mut Xoshiro256PlusPlus) -> (Vec<u32>, usize) {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.shuffle(rng);
        let mut coarse = vec![NONE; self.len()];
        let mut waiting = vec![NONE; self.len() + 1];
        let mut count = 0;
        let fits = |one: usize, other: usize| {
            let agree = fixed[one] == fixed[other] || fixed[one] == 0 || fixed[other] == 0;
            agree && self.size[one] + self.size[other] <= most
        };
        let mut alone: Vec<u32> = Vec::new();
        for &node in &order {
            let node = node as usize;
            if coarse[node] != NONE {
                continue;
            }
            let open = self
                .near(node)
                .filter(|&(other, _)| coarse[other] == NONE && fits(node, other));
            let rated = open.map(|(other, bytes)| (bytes / self.size[other].max(f64::MIN_POSITIVE), other));
            match rated.reduce(|best, next| if next.0 > best.0 { next } else { best }) {
                Some((_, other)) => {
                    coarse[node] = count;
                    coarse[other] = count;
                    count += 1;
                }
                None => alone.push(node as u32),
            }
        }
        for node in alone {
            let node = node as usize;
            if coarse[node] != NONE {
                continue;
            }
            let best = self
                .near(node)
                .reduce(|best, next| if next.1 > best.1 { next } else { best });
            let hub = best.map_or(self.len(), |(hub, _)| hub);
            let other = std::mem::replace(&mut waiting[hub], NONE);
            if other != NONE && fits(node, other as usize) {
                coarse[node] = coarse[other as usize];
            } else {
                coarse[node] = count;
                count += 1;
                waiting[hub] = node as u32;
            }
        }
        (coarse, count as usize)
    }

    /// The graph of `count` coarse nodes, where `coarse` is that of each node.
    pub(crate) fn contracted(&self, coarse: &[u32], count: usize) -> Self {
        // Each coarse node has one or two nodes.
        let mut members = vec![[NONE; 2]; count];
        for (node, &into) in coarse.iter().enumerate() {
            let pair = &mut members[into as usize];
            pair[usize::from(pair[0] != NONE)] = node as u32;
        }
        let mut graph = Self {
            first: vec![0],
            ..Self::default()
        };
        let mut place = vec![NONE; count];
        for (into, pair) in members.iter().enumerate() {
            let begin = graph.others.len();
            let mut size = 0.0;
            for &node in pair.iter().filter(|&&node| node != NONE) {
                size += self.size[node as usize];
                for (other, bytes) in self.near(node as usize) {
                    let other = coarse[other];
                    if other as usize == into {
                        continue;
                    }
                    let at = place[other as usize] as usize;
                    if place[other as usize] != NONE && at >= begin && graph.others[at] == other {
                        graph.bytes[at] += bytes;
                    } else {
                        place[other as usize] = graph.others.len() as u32;
                        graph.others.push(other);
                        graph.bytes.push(bytes);
                    }
                }
            }
            graph.first.push(graph.others.len() as u32);
            graph.size.push(size);
        }
        graph
    }

    /// The graph of `count` blocks of nodes, where `block_of` is that of each node. Its `units` are the blocks.
    pub(crate) fn merged(&self, block_of: &[usize], count: usize) -> Self {
        let mut size = vec![0.0; count];
        let mut rows: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); count];
        for (node, &block) in block_of.iter().enumerate() {
            size[block] += self.size[node];
            for (other, bytes) in self.near(node).filter(|&(other, _)| block_of[other] != block) {
                *rows[block].entry(block_of[other] as u32).or_default() += bytes;
            }
        }
        let mut graph = Self {
            first: vec![0],
            size,
            units: (0..count as u32).collect(),
            ..Self::default()
        };
        for row in rows {
            graph.others.extend(row.keys());
            graph.bytes.extend(row.values());
            graph.first.push(graph.others.len() as u32);
        }
        graph
    }
}
