//! Several trees at once, each with a rate and a part of the blocks.
//!
//! One tree is as fast as its slowest link. Several trees that cross different links together reach the least time of
//! any mechanism (Edmonds, 1973: as many trees as the narrowest cut allows). Who plans them knows their rates.

use std::collections::{BTreeMap, BTreeSet};

use gavotte_net::Bytes;

use super::blocks::Blocks;
use super::ground::Ground;

/// Blocks move to another tree if at least this many are left.
const MOVED_LEAST: usize = 4;

/// A tree from the source to all receivers.
#[derive(Clone, Debug, PartialEq)]
pub struct Branching {
    /// The rate at which each edge carries the tree's blocks, in bit/s.
    pub rate_bps: f64,
    /// The parent of each host but the source.
    pub parents: BTreeMap<usize, usize>,
}

impl Branching {
    /// Number of edges between the root and a host.
    pub fn depth(&self, host: usize) -> usize {
        self.above(host).count()
    }

    /// The hosts between a host and the root, the root last.
    pub fn above(&self, host: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.parents.get(&host), |parent| self.parents.get(parent))
            .copied()
            // More hosts are a circle, which no tree has.
            .take(self.parents.len())
    }

    /// Hosts from which each host can be reached by these edges, and the seconds until a piece arrives at each.
    fn delays_s(&self, ground: &Ground, piece_bytes: u32) -> f64 {
        let hop_s = |child: usize, parent: usize| {
            8.0 * f64::from(piece_bytes) / self.rate_bps + ground.network().latency_s(parent, child).unwrap_or(0.0)
        };
        let delay_s = |&host: &usize| {
            let mut child = host;
            let mut sum_s = 0.0;
            for parent in self.above(host) {
                sum_s += hop_s(child, parent);
                child = parent;
            }
            sum_s
        };
        self.parents.keys().map(delay_s).fold(0.0, f64::max)
    }

    /// Gives a host another parent: the nearest host above that is allowed, or any allowed host that does not depend on
    /// it. If none is, a host below takes its place, and becomes its parent. Returns whether a parent was found.
    /// `allowed` judges child and parent.
    fn move_child(&mut self, child: usize, allowed: impl Fn(usize, usize) -> bool) -> bool {
        let above: Vec<usize> = self.above(child).collect();
        let depends = |host: usize| host == child || self.above(host).any(|over| over == child);
        let (below, mut others): (Vec<usize>, Vec<usize>) = self
            .parents
            .keys()
            .copied()
            .chain(above.last().copied())
            .partition(|&host| depends(host));
        others.sort_by_key(|&host| (self.depth(host), host));
        let outside: Vec<usize> = above.into_iter().skip(1).chain(others).collect();
        if let Some(&parent) = outside.iter().find(|&&parent| allowed(child, parent)) {
            self.parents.insert(child, parent);
            return true;
        }
        let joint = below
            .into_iter()
            .filter(|&host| host != child && allowed(child, host))
            .find_map(|host| {
                let parent = outside.iter().copied().find(|&parent| allowed(host, parent))?;
                Some((host, parent))
            });
        if let Some((host, parent)) = joint {
            self.parents.insert(host, parent);
            self.parents.insert(child, host);
        }
        joint.is_some()
    }
}

/// Trees, and the tree of each block.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    trees: Vec<Branching>,
    /// By block: the number of its tree.
    of_block: Vec<usize>,
}

impl Packing {
    /// The trees that divide `count` blocks among them so that all end at the same time.
    pub fn new(trees: Vec<Branching>, ground: &Ground, Bytes(bytes): Bytes, count: u32, piece_bytes: u32) -> Self {
        let until_s = seconds(&trees, ground, Bytes(bytes), piece_bytes);
        let share = |tree: &Branching| tree.rate_bps * (until_s - tree.delays_s(ground, piece_bytes)).max(0.0);
        let mut shares: Vec<f64> = trees.iter().map(share).collect();
        let sum: f64 = shares.iter().sum();
        for share in &mut shares {
            *share /= sum;
        }
        let mut owed = vec![0.0; trees.len()];
        let mut of_block = Vec::with_capacity(count as usize);
        for _ in 0..if trees.is_empty() { 0 } else { count } {
            owed.iter_mut().zip(&shares).for_each(|(owed, share)| *owed += share);
            let most = (0..owed.len()).max_by(|&m, &n| owed[m].total_cmp(&owed[n]).then(n.cmp(&m)));
            let most = most.unwrap_or(0);
            owed[most] -= 1.0;
            of_block.push(most);
        }
        Self { trees, of_block }
    }

    /// The trees.
    pub fn trees(&self) -> &[Branching] {
        &self.trees
    }

    /// The parent that sends a block to a host.
    pub fn parent(&self, host: usize, block: u32) -> Option<usize> {
        let tree = *self.of_block.get(block as usize)?;
        self.trees[tree].parents.get(&host).copied()
    }

    /// Parent, child and rate in bit/s of each edge. An edge of several trees has the sum of their rates.
    pub fn edges(&self) -> BTreeMap<(usize, usize), f64> {
        let mut edges = BTreeMap::new();
        for tree in &self.trees {
            for (&child, &parent) in &tree.parents {
                *edges.entry((parent, child)).or_default() += tree.rate_bps;
            }
        }
        edges
    }

    /// Removes a host. Each tree's hosts below it get their blocks from the host above it.
    pub fn remove(&mut self, host: usize) {
        for tree in &mut self.trees {
            if let Some(above) = tree.parents.remove(&host) {
                tree.parents
                    .values_mut()
                    .filter(|parent| **parent == host)
                    .for_each(|parent| *parent = above);
            }
        }
    }

    /// Lets hosts change parents until no edge is in `avoided` (child, parent). Returns a host for which no parent is
    /// left.
    pub fn rearrange(&mut self, avoided: &BTreeSet<(usize, usize)>) -> Option<usize> {
        let mut stuck = None;
        for tree in &mut self.trees {
            let wrong: Vec<usize> = (tree.parents.iter())
                .filter(|&(&child, &parent)| avoided.contains(&(child, parent)))
                .map(|(&child, _)| child)
                .collect();
            for child in wrong {
                if !tree.move_child(child, |child, parent| !avoided.contains(&(child, parent))) {
                    stuck = Some(child);
                }
            }
        }
        stuck
    }

    /// Moves blocks to trees that have sent all of theirs, from the tree that is farthest behind: the last ones of those
    /// that are not in `out`, as many as let all these trees end together. A tree that begins again first needs the time
    /// until a piece has reached its last host. Returns whether any moved.
    pub fn rebalance(&mut self, out: &Blocks, ground: &Ground, block_bytes: u32, piece_bytes: u32) -> bool {
        let mut left: Vec<Vec<u32>> = vec![Vec::new(); self.trees.len()];
        for (block, &tree) in (0..).zip(&self.of_block) {
            if !out.contains(block) {
                left[tree].push(block);
            }
        }
        let behind_s = |tree: usize| left[tree].len() as f64 / self.trees[tree].rate_bps;
        let last = (0..left.len()).max_by(|&m, &n| behind_s(m).total_cmp(&behind_s(n)));
        let Some(last) = last.filter(|&tree| left[tree].len() >= MOVED_LEAST) else {
            return false;
        };
        let idle: Vec<(usize, f64)> = (0..left.len())
            .filter(|&tree| left[tree].is_empty())
            .map(|tree| (tree, self.trees[tree].delays_s(ground, piece_bytes)))
            .collect();
        let block_bits = 8.0 * f64::from(block_bytes);
        let mut used = vec![(0.0, self.trees[last].rate_bps)];
        used.extend(idle.iter().map(|&(tree, delay_s)| (delay_s, self.trees[tree].rate_bps)));
        let until_s = together_s(used, left[last].len() as f64 * block_bits);
        let mut moving = left[last].iter().rev();
        let mut moved = false;
        for (tree, delay_s) in idle {
            let count = (until_s - delay_s).max(0.0) * self.trees[tree].rate_bps / block_bits;
            for &block in moving.by_ref().take(count as usize) {
                self.of_block[block as usize] = tree;
                moved = true;
            }
        }
        moved
    }

    /// Makes a host a leaf of each tree. The hosts below it get their blocks from others, along no edge of `avoided`
    /// (child, parent). Returns whether anything changed.
    pub fn demote(&mut self, host: usize, avoided: &BTreeSet<(usize, usize)>) -> bool {
        let before = self.trees.clone();
        for tree in &mut self.trees {
            let below: Vec<usize> = (tree.parents.iter())
                .filter(|&(_, &parent)| parent == host)
                .map(|(&child, _)| child)
                .collect();
            for child in below {
                tree.move_child(child, |child, parent| {
                    parent != host && !avoided.contains(&(child, parent))
                });
            }
        }
        self.trees != before
    }
}

/// The time until the last receiver has `bytes` by several trees that end together, in seconds.
///
/// A tree of rate r whose first piece takes d to its last host carries r (T - d) until T. All together carry the object.
pub fn seconds(trees: &[Branching], ground: &Ground, Bytes(bytes): Bytes, piece_bytes: u32) -> f64 {
    let used = trees
        .iter()
        .map(|tree| (tree.delays_s(ground, piece_bytes), tree.rate_bps));
    together_s(used.collect(), 8.0 * bytes as f64)
}

/// The time until trees of these delays in seconds and rates in bit/s have together carried `bits`, in seconds.
fn together_s(mut used: Vec<(f64, f64)>, bits: f64) -> f64 {
    used.sort_by(|one, two| one.0.total_cmp(&two.0));
    let (mut rate_bps, mut late_bits, mut until_s) = (0.0, 0.0, f64::INFINITY);
    for (delay_s, tree_bps) in used {
        if delay_s >= until_s {
            break;
        }
        rate_bps += tree_bps;
        late_bits += tree_bps * delay_s;
        until_s = (bits + late_bits) / rate_bps;
    }
    until_s
}

#[cfg(test)]
mod tests {
    use gavotte_net::{BitsPerSec, Host, Network, NetworkParts, Sharing};

    use super::*;

    fn ground(count: usize) -> Ground {
        let rate = BitsPerSec::new(8e6).unwrap();
        let host = |machine| Host {
            name: format!("h{machine}"),
            machine,
            egress: rate,
            ingress: rate,
        };
        let parts = NetworkParts {
            hosts: (0..count).map(host).collect(),
            rate_bps: vec![f64::NAN; count * count],
            latency_s: vec![],
            groups: vec![],
            sharing: Sharing::Hose,
        };
        Ground::new(&Network::new(parts).unwrap(), 0, &(1..count).collect::<Vec<_>>()).unwrap()
    }

    fn tree(rate_bps: f64, edges: &[(usize, usize)]) -> Branching {
        Branching {
            rate_bps,
            parents: edges.iter().map(|&(parent, child)| (child, parent)).collect(),
        }
    }

    #[test]
    fn trees_share_the_blocks_by_their_rates_and_end_together() {
        let trees = vec![
            tree(6e6, &[(0, 1), (1, 2), (2, 3)]),
            tree(2e6, &[(0, 3), (3, 2), (2, 1)]),
        ];
        let ground = ground(4);
        // Without delays, 1 MB takes 1 s at 8 Mbit/s.
        assert!((seconds(&trees, &ground, Bytes(1_000_000), 0) - 1.0).abs() < 1e-9);
        let packing = Packing::new(trees, &ground, Bytes(1_000_000), 1000, 0);
        let first = (0..1000).filter(|&block| packing.parent(1, block) == Some(0)).count();
        assert_eq!(first, 750);
        assert!((packing.edges()[&(0, 1)] - 6e6).abs() < 1.0);
        assert!((0..8).any(|block| packing.parent(1, block) == Some(2)));
    }

    #[test]
    fn a_tree_that_has_sent_its_blocks_takes_half_of_an_equal_trees() {
        let trees = vec![tree(4e6, &[(0, 1), (1, 2)]), tree(4e6, &[(0, 2), (2, 1)])];
        let mut packing = Packing::new(trees, &ground(3), Bytes(1_000_000), 20, 0);
        let first = |packing: &Packing| {
            (0..20)
                .filter(|&block| packing.parent(1, block) == Some(0))
                .collect::<Vec<_>>()
        };
        let mut out = Blocks::none(20);
        assert!(!packing.rebalance(&out, &ground(3), 50_000, 0));
        for block in first(&packing) {
            out.insert(block);
        }
        assert!(packing.rebalance(&out, &ground(3), 50_000, 0));
        assert_eq!(first(&packing).len(), 15);
        assert!(
            (0..20)
                .filter(|block| packing.parent(1, *block) == Some(2))
                .all(|block| block < 10)
        );
    }

    #[test]
    fn a_slow_tree_takes_only_blocks_that_it_delivers_in_time() {
        // 100 blocks of 40 kB are left, which take 4 s by the fast tree.
        let fast = tree(8e6, &[(0, 1), (1, 2)]);
        let moved = |rate_bps: f64, piece_bytes: u32| {
            let trees = vec![fast.clone(), tree(rate_bps, &[(0, 2), (2, 1)])];
            let mut packing = Packing {
                trees,
                of_block: vec![0; 100],
            };
            packing.rebalance(&Blocks::none(100), &ground(3), 40_000, piece_bytes);
            packing.of_block.iter().filter(|tree| **tree == 1).count()
        };
        assert_eq!(moved(8e6, 0), 50);
        // 3.9 s at 0.2 Mbit/s are 2.4 blocks. With pieces of 4 kB it begins 0.33 s later, with 40 kB 3.2 s later.
        assert_eq!([0, 4_096, 40_000].map(|piece_bytes| moved(2e5, piece_bytes)), [2, 2, 0]);
        // The rate of a block in a minute.
        assert_eq!(moved(5e3, 0), 0);
    }

    #[test]
    fn a_tree_too_slow_for_the_object_gets_no_block() {
        let trees = vec![tree(8e6, &[(0, 1)]), tree(1.0, &[(0, 1)])];
        assert!((seconds(&trees, &ground(2), Bytes(1_000_000), 1000) - 1.001).abs() < 1e-6);
    }

    #[test]
    fn hosts_change_parents_when_one_leaves_is_avoided_or_is_slow() {
        let trees = vec![
            tree(1e6, &[(0, 1), (1, 2), (1, 3)]),
            tree(1e6, &[(0, 3), (3, 2), (2, 1)]),
        ];
        let packing = Packing::new(trees, &ground(4), Bytes(1_000_000), 10, 0);
        let mut without = packing.clone();
        without.remove(1);
        assert_eq!(
            without.edges().into_keys().collect::<Vec<_>>(),
            [(0, 2), (0, 3), (3, 2)]
        );
        let mut apart = packing.clone();
        assert_eq!(apart.rearrange(&BTreeSet::from([(2, 1)])), None);
        assert!(!apart.edges().contains_key(&(1, 2)) && apart.edges().contains_key(&(0, 2)));
        let mut cut = packing.clone();
        assert_eq!(cut.rearrange(&BTreeSet::from([(1, 0), (0, 1)])), None);
        assert!(!cut.edges().contains_key(&(0, 1)));
        let all = BTreeSet::from([(1, 0), (1, 2), (1, 3)]);
        assert_eq!(packing.clone().rearrange(&all), Some(1));
        let mut slow = packing;
        assert!(slow.demote(1, &BTreeSet::new()) && !slow.demote(1, &BTreeSet::new()));
        assert!(slow.edges().keys().all(|(parent, _)| *parent != 1));
    }
}
