//! The graph of units for other partitioners, and placements of the blocks that they return.

use crate::cuts::graph::Graph;
use crate::cuts::halves::{Halves, Hosts};
use crate::cuts::{lay, order, settle};
use crate::problem::{Assignment, Problem};

/// A graph in compressed rows: the neighbours of node `i` are `others[first[i]..first[i + 1]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitGraph {
    /// Where the row of each unit begins, and where the last ends.
    pub first: Vec<u32>,
    /// The neighbours of all units, row by row.
    pub others: Vec<u32>,
    /// The bytes that a unit and its neighbour exchange in both directions, in the order of `others`.
    pub bytes: Vec<f64>,
    /// The size of each unit: cores, memory, storage or a resource, whichever is scarcest.
    pub size: Vec<f64>,
    /// The room of each host, in the same unit.
    pub room: Vec<f64>,
}

impl Problem {
    /// The units as a graph, to be cut into one block for each host.
    pub fn unit_graph(&self) -> UnitGraph {
        let (size, room) = order::sizes(self, &self.units);
        let Graph {
            first,
            others,
            bytes,
            size,
            ..
        } = Graph::of(&self.units, size);
        UnitGraph {
            first,
            others,
            bytes,
            size,
            room,
        }
    }

    /// A placement of blocks of units, of which there are as many as hosts; `None` if some unit finds no room.
    ///
    /// Where hosts share machines or groups, our own bisection of the graph of blocks decides which blocks are
    /// neighbours. Otherwise, block `i` belongs to host `i`. Units that do not fit there move to other hosts, and parts
    /// change hosts of the same kind so that no cap is slower than it must be.
    ///
    /// # Panics
    /// If `block_of` does not have a block below the number of hosts for each unit.
    pub fn lay_blocks(&self, block_of: &[usize], seed: u64, threads: usize) -> Option<Assignment> {
        let order = order::of_hosts(self);
        let mut places = block_of.to_vec();
        if order.ties.iter().any(|&tie| tie > 0) {
            let host_of_block = self.hosts_of_blocks(block_of, &order, (seed, threads));
            for place in &mut places {
                *place = host_of_block[*place];
            }
        }
        let settled = settle::settle(self, &self.units, &places, false)?;
        Some(Assignment(self.units.spread(&lay::lay(self, &self.units, settled))))
    }

    fn hosts_of_blocks(&self, block_of: &[usize], order: &order::Order, (seed, threads): (u64, usize)) -> Vec<usize> {
        let (size, room) = order::sizes(self, &self.units);
        let blocks = self.capacity.len();
        let graph = Graph::of(&self.units, size).merged(block_of, blocks);
        let room: Vec<f64> = order.hosts.iter().map(|&host| room[host]).collect();
        let mut fixed = vec![None; blocks];
        for (unit, range) in order::only_hosts(&self.units, &order.hosts).into_iter().enumerate() {
            fixed[block_of[unit]] = fixed[block_of[unit]].or(range);
        }
        let hosts = Hosts {
            room: &room,
            ties: &order.ties,
        };
        let halves = Halves { hosts, fixed: &fixed };
        let mut host_of_block = vec![0; blocks];
        for (block, place) in halves.divide(graph, seed, threads) {
            host_of_block[block as usize] = order.hosts[place as usize];
        }
        host_of_block
    }
}
