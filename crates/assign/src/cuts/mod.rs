//! Placements by minimum cuts: units that exchange many bytes share a host.
//!
//! 1. The hosts are ordered so that those of one group or one machine are neighbours (`order`).
//! 2. The units are cut in two by a multilevel bisection, one part for each half of the hosts, and each part again, until
//!    every part has one host (`halves`, `bisect`, `graph`). No part is larger than its hosts' capacity.
//! 3. Units that still find no room move to other hosts (`settle`).
//! 4. The parts are laid on hosts of the same kind, so that those with most bytes get the fastest hosts (`lay`).
//!
//! Blocks of other partitioners take steps 3 and 4 as well, after a bisection of the graph of blocks (`blocks`).
//!
//! This is how partitioners such as METIS work (Karypis and Kumar 1998), but hosts may have different capacities, and
//! each has exactly its own.

mod bisect;
pub(crate) mod blocks;
mod graph;
mod halves;
mod lay;
mod order;
mod settle;

use crate::cuts::graph::Graph;
use crate::cuts::halves::{Halves, Hosts};
use crate::problem::Problem;
use crate::problem::units::Units;

/// A host for each unit of `problem`, by minimum cuts; empty if units find no room. If rules have prices, there are two
/// placements: cuts know no rules, and either leaving units where rules break or moving all of them may be better.
///
/// The result depends on the seed, but not on `threads`.
pub(crate) fn by_cuts(problem: &Problem, units: &Units, seed: u64, threads: usize) -> Vec<Vec<usize>> {
    let order = order::of_hosts(problem);
    let (sizes, room) = order::sizes(problem, units);
    let ordered_room: Vec<f64> = order.hosts.iter().map(|&host| room[host]).collect();
    let fixed = order::only_hosts(units, &order.hosts);
    let hosts = Hosts {
        room: &ordered_room,
        ties: &order.ties,
    };
    let graph = Graph::of(units, sizes);
    let halves = Halves { hosts, fixed: &fixed };
    let mut places = vec![0; units.len()];
    for (unit, place) in halves.divide(graph, seed, threads) {
        places[unit as usize] = order.hosts[place as usize];
    }
    let ways = [false, true].into_iter().take(1 + usize::from(problem.rules.priced()));
    let settled = ways.filter_map(|free| settle::settle(problem, units, &places, free));
    settled.map(|host_of| lay::lay(problem, units, host_of)).collect()
}
