//! Recursive bisection: units and hosts are halved together until each part has one host.

use std::thread;

use crate::cuts::bisect::{FREE, LEFT, RIGHT, bisect, rng_of};
use crate::cuts::graph::Graph;

/// From this many nodes on, the two halves use two threads if there are any.
const NODES_FOR_THREADS: usize = 2000;

/// Hosts in order.
#[derive(Clone, Copy)]
pub(crate) struct Hosts<'a> {
    /// Room of each.
    pub(crate) room: &'a [f64],
    /// How much each host has in common with the next one: machine and groups.
    pub(crate) ties: &'a [u32],
}

/// The recursion, and the units that only some hosts may hold.
#[derive(Clone, Copy)]
pub(crate) struct Halves<'a> {
    pub(crate) hosts: Hosts<'a>,
    /// For each unit, the first and the last place of a host that it may use; `None` = any host.
    pub(crate) fixed: &'a [Option<(u32, u32)>],
}

impl Halves<'_> {
    /// Each unit with the place of its host in the order.
    pub(crate) fn divide(&self, graph: Graph, seed: u64, threads: usize) -> Vec<(u32, u32)> {
        let mut result = Vec::with_capacity(graph.len());
        self.part(graph, 0, self.hosts.room.len(), (seed, threads), &mut result);
        result
    }

    fn part(
        &self,
        graph: Graph,
        begin: usize,
        end: usize,
        (seed, threads): (u64, usize),
        result: &mut Vec<(u32, u32)>,
    ) {
        if end - begin == 1 {
            result.extend(graph.units.iter().map(|&unit| (unit, begin as u32)));
            return;
        }
        if graph.len() == 0 {
            return;
        }
        let middle = self.middle(begin, end);
        let fixed: Vec<u8> = graph.units.iter().map(|&unit| self.side(unit, middle)).collect();
        let side = bisect(
            &graph,
            &fixed,
            self.limits(&graph, begin, middle, end),
            &mut rng_of(seed, begin, end - begin),
        );
        let [left, right] = graph.parts(&side);
        let many = graph.len() >= NODES_FOR_THREADS && threads > 1;
        drop(graph);
        if many {
            let half = threads / 2;
            let (mut one, mut two) = (Vec::new(), Vec::new());
            thread::scope(|scope| {
                scope.spawn(|| self.part(left, begin, middle, (seed, half), &mut one));
                self.part(right, middle, end, (seed, threads - half), &mut two);
            });
            result.append(&mut one);
            result.append(&mut two);
        } else {
            self.part(left, begin, middle, (seed, 1), result);
            self.part(right, middle, end, (seed, 1), result);
        }
    }

    /// Where to halve the hosts: where neighbours have least in common, and then near the middle.
    fn middle(&self, begin: usize, end: usize) -> usize {
        let count = end - begin;
        let near = (begin + (count / 4).max(1))..=(end - (count / 4).max(1));
        let twice = begin + end;
        near.min_by_key(|&at| (self.hosts.ties[at - 1], (2 * at).abs_diff(twice)))
            .unwrap_or(begin + count / 2)
    }

    /// The most that each side may hold. The spare room is used up evenly over the bisections that are left.
    fn limits(&self, graph: &Graph, begin: usize, middle: usize, end: usize) -> [f64; 2] {
        let rooms =
            [&self.hosts.room[begin..middle], &self.hosts.room[middle..end]].map(|room| room.iter().sum::<f64>());
        let (need, all) = (graph.total(), rooms[0] + rooms[1]);
        let depth = f64::from((end - begin).next_power_of_two().ilog2());
        let filled = (need / all).clamp(0.0, 1.0);
        let most = filled.powf(1.0 - depth.recip());
        let largest = graph.largest();
        rooms.map(|room| (room * most).max(room * filled + largest).min(room))
    }

    fn side(&self, unit: u32, middle: usize) -> u8 {
        match self.fixed[unit as usize] {
            Some((_, last)) if (last as usize) < middle => LEFT,
            Some((first, _)) if first as usize >= middle => RIGHT,
            _ => FREE,
        }
    }
}
