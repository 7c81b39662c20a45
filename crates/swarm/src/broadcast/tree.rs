//! Mechanisms in which each host gets all blocks from one parent: chain, binary tree, binomial tree.

use std::collections::{BTreeMap, BTreeSet};

use gavotte_net::{Bytes, Network};

use super::ground::{Ground, faster};

/// How an order of hosts, the root first, becomes a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each host gets its blocks from the host before it.
    Chain,
    /// Each host sends to two others.
    Binary,
    /// In each step, each host that has the object sends it to one that lacks it.
    Binomial,
}

impl Shape {
    /// The parent's place of the host at place `at`, which must not be 0.
    pub fn parent(self, at: usize) -> usize {
        match self {
            Self::Chain => at - 1,
            Self::Binary => (at - 1) / 2,
            Self::Binomial => at - (1 << at.ilog2()),
        }
    }
}

/// Hosts in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    shape: Shape,
    order: Vec<usize>,
}

/// A host is slow if its uplink is below this share of the highest rate that is needed.
const SLOW: f64 = 0.95;

impl Tree {
    /// The fastest tree of this shape among several candidates.
    ///
    /// 1. A chain visits racks one after another, so that it enters each rack once, with slow uplinks last.
    /// 2. All shapes try an order with fast uplinks near the root.
    pub fn new(shape: Shape, ground: &Ground, Bytes(bytes): Bytes, piece_bytes: u32) -> Self {
        let mut candidates: Vec<Vec<usize>> = Vec::new();
        let mut by_speed = ground.receivers().to_vec();
        by_speed.sort_by(|&m, &n| faster(ground.uplink(m), ground.uplink(n)));
        if shape == Shape::Chain {
            candidates = chains(ground);
        }
        candidates.push(by_speed);
        let trees = candidates.into_iter().map(|receivers| Self {
            shape,
            order: std::iter::once(ground.source()).chain(receivers).collect(),
        });
        let mut best: Option<(f64, Self)> = None;
        for tree in trees {
            let seconds = tree.seconds(ground, Bytes(bytes), piece_bytes);
            // Among nearly equal trees, prefer the first: candidates come in order of preference.
            if best.as_ref().is_none_or(|(least, _)| seconds < least * 0.999) {
                best = Some((seconds, tree));
            }
        }
        best.map_or_else(
            || Self {
                shape,
                order: vec![ground.source()],
            },
            |(_, tree)| tree,
        )
    }

    /// The hosts, the root first.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The host from which `host` gets its blocks; `None` for the root.
    pub fn parent(&self, host: usize) -> Option<usize> {
        let at = self.order.iter().position(|&other| other == host)?;
        (at > 0).then(|| self.order[self.shape.parent(at)])
    }

    /// Parent and child of each edge.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (1..self.order.len()).map(|at| (self.order[self.shape.parent(at)], self.order[at]))
    }

    /// Whether any host gets its blocks from this one.
    pub fn has_children(&self, host: usize) -> bool {
        self.edges().any(|(parent, _)| parent == host)
    }

    /// Largest number of edges between the root and a host.
    pub fn depth(&self) -> usize {
        let mut depths = vec![0; self.order.len()];
        for at in 1..depths.len() {
            depths[at] = depths[self.shape.parent(at)] + 1;
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The rate that each edge can carry while all edges are active, in bit/s, by parent and child. Edges share each
    /// link evenly, and no edge is faster than its parent receives. The rate is infinite if no limit is known.
    pub fn carries(&self, ground: &Ground) -> BTreeMap<(usize, usize), f64> {
        let rates = self.rates(ground.best());
        let edge = |at: usize| ((self.order[self.shape.parent(at)], self.order[at]), rates[at]);
        (1..self.order.len()).map(edge).collect()
    }

    /// The rate at which each host receives the object, in bit/s, in the tree's order. All edges are active, share each
    /// link evenly, and are no faster than their parent receives. A host on no edge has an infinite rate.
    fn rates(&self, network: &Network) -> Vec<f64> {
        let mut crossings = BTreeMap::<usize, u32>::new();
        for (m, n) in self.edges() {
            network.for_each_link(m, n, |link| {
                *crossings.entry(network.link_index(link)).or_default() += 1;
            });
        }
        let mut rates = vec![f64::INFINITY; self.order.len()];
        for at in 1..self.order.len() {
            let mut bps = rates[self.shape.parent(at)];
            network.for_each_link(self.order[self.shape.parent(at)], self.order[at], |link| {
                let sharing = crossings.get(&network.link_index(link)).copied().unwrap_or(1);
                bps = bps.min(network.rate(link).bps() / f64::from(sharing));
            });
            rates[at] = bps;
        }
        rates
    }

    /// The time that the tree takes by the network's rates and latencies, in seconds. Each hop adds the time of one
    /// piece of `piece_bytes`.
    pub fn seconds(&self, ground: &Ground, Bytes(bytes): Bytes, piece_bytes: u32) -> f64 {
        let rates = self.rates(ground.network());
        let mut delays = vec![0.0; rates.len()];
        let mut worst: f64 = 0.0;
        for at in 1..rates.len() {
            let (parent, piece) = (self.shape.parent(at), u64::from(piece_bytes).min(bytes));
            let (m, n) = (self.order[parent], self.order[at]);
            let latency_s = ground.network().latency_s(m, n).unwrap_or(0.0);
            worst = worst.max(8.0 * bytes as f64 / rates[at] + delays[parent] + latency_s);
            delays[at] = delays[parent] + 8.0 * piece as f64 / rates[at] + latency_s;
        }
        worst
    }

    /// Removes a host. In a chain the next host takes its place, in other trees the last host does.
    pub fn remove(&mut self, host: usize) {
        let Some(at) = self.order.iter().position(|&other| other == host) else {
            return;
        };
        if self.shape == Shape::Chain {
            self.order.remove(at);
        } else {
            self.order.swap_remove(at);
        }
    }

    /// Moves a host to a place without children, as near to the end as possible. No edge of the moved host, or of the
    /// hosts that move up, may be in `avoided` (child, parent). Returns false and changes nothing if no such place
    /// exists.
    pub fn demote(&mut self, host: usize, avoided: &BTreeSet<(usize, usize)>) -> bool {
        let mut rest = self.clone();
        rest.remove(host);
        for at in (1..=rest.order.len()).rev() {
            let mut tried = rest.clone();
            tried.order.insert(at, host);
            if !tried.edges().any(|(parent, child)| avoided.contains(&(child, parent))) {
                *self = tried;
                return true;
            }
        }
        false
    }

    /// Moves hosts so that few edges are in `avoided` (child, parent). The tree takes another shape if that has fewer of
    /// them.
    pub fn rearrange(&mut self, avoided: &BTreeSet<(usize, usize)>) {
        let mut separated_first = self.order.clone();
        if let Some(receivers) = separated_first.get_mut(1..) {
            receivers.sort_by_key(|host| !avoided.iter().any(|(child, parent)| child == host || parent == host));
        }
        let mut trees = Vec::new();
        for shape in [self.shape, Shape::Chain, Shape::Binary] {
            for order in [&self.order, &separated_first] {
                let order = order.clone();
                trees.push(Self { shape, order }.arranged(avoided));
            }
        }
        let cost = |tree: &Self| {
            tree.edges()
                .filter(|&(parent, child)| avoided.contains(&(child, parent)))
                .count()
        };
        if let Some(tree) = trees.into_iter().min_by_key(cost) {
            *self = tree;
        }
    }

    /// The tree in which each place has the first remaining host of the order that fits.
    fn arranged(mut self, avoided: &BTreeSet<(usize, usize)>) -> Self {
        for at in 1..self.order.len() {
            let parent = self.order[self.shape.parent(at)];
            let fits = |&place: &usize| !avoided.contains(&(self.order[place], parent));
            if let Some(place) = (at..self.order.len()).find(fits) {
                self.order[at..=place].rotate_right(1);
            }
        }
        self
    }

    /// Makes `heir` the root in place of the old one, which leaves the tree.
    pub fn crown(&mut self, old: usize, heir: usize) {
        self.remove(heir);
        match self.order.iter_mut().find(|host| **host == old) {
            Some(place) => *place = heir,
            None => self.order.insert(0, heir),
        }
    }

    /// Adds a host as a leaf.
    pub fn join(&mut self, host: usize) {
        if !self.order.contains(&host) {
            self.order.push(host);
        }
    }
}

/// Candidate orders of the receivers for a chain.
fn chains(ground: &Ground) -> Vec<Vec<usize>> {
    let network = ground.network();
    // Hosts in the same groups form a rack.
    let rack = |host: usize| -> Vec<usize> {
        (0..network.groups().len())
            .filter(|&group| network.holds(group, host))
            .collect()
    };
    let mut racks: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for &host in ground.receivers() {
        let own = rack(host);
        match racks.iter_mut().find(|(groups, _)| *groups == own) {
            Some((_, hosts)) => hosts.push(host),
            None => racks.push((own, vec![host])),
        }
    }
    let home = rack(ground.source());
    // Near racks first, so that the chain leaves and enters as few groups as possible.
    racks.sort_by_key(|(groups, _)| {
        let common = groups.iter().filter(|group| home.contains(group)).count();
        (*groups != home, std::cmp::Reverse(common), groups.clone())
    });
    let needed = ground
        .members()
        .map(|host| ground.uplink(host).bps())
        .fold(0.0, f64::max);
    let fastest = ground.uplink(ground.source()).bps().min(needed);
    let slow = |host: usize| ground.uplink(host).bps() < SLOW * fastest;
    for (_, hosts) in &mut racks {
        let machine = |host: usize| network.hosts()[host].machine;
        // Order machines by their fastest host. Hosts of one machine stay together, the fastest first.
        let best = |host: usize| {
            let mates = ground
                .receivers()
                .iter()
                .filter(|&&mate| machine(mate) == machine(host));
            mates.map(|&mate| ground.uplink(mate).bps()).fold(0.0, f64::max)
        };
        hosts.sort_by(|&m, &n| {
            let by_machine = best(n).total_cmp(&best(m)).then(machine(m).cmp(&machine(n)));
            slow(m)
                .cmp(&slow(n))
                .then(by_machine)
                .then(faster(ground.uplink(m), ground.uplink(n)))
        });
    }
    let flat =
        |racks: &[(Vec<usize>, Vec<usize>)]| racks.iter().flat_map(|(_, hosts)| hosts.clone()).collect::<Vec<_>>();
    let mut orders = vec![flat(&racks)];
    // Try each rack with a slow host as the last, since a chain may end there.
    for at in 0..racks.len() {
        if racks[at].1.iter().any(|&host| slow(host)) {
            let mut turned = racks.clone();
            let last = turned.remove(at);
            turned.push(last);
            orders.push(flat(&turned));
        }
    }
    let mut slow_last = flat(&racks);
    slow_last.sort_by(|&m, &n| {
        let key = |host: usize| {
            if slow(host) {
                ground.uplink(host).bps()
            } else {
                f64::INFINITY
            }
        };
        key(n).total_cmp(&key(m))
    });
    orders.push(slow_last);
    orders
}
