//! Trees of many ranks, tier by tier, since what makes a tree of all of them would look at each pair several times.
//!
//! 1. Ranks whose hosts have the same innermost group form a part. Where groups do not divide ranks, those that follow
//!    each other do.
//! 2. Each part gets a tree of its own, from its leader: the root, or the rank whose host has the highest caps.
//! 3. The leaders form the parts of the next tier, by the groups around them, until few are left.
//! 4. A leader first sends to other leaders, then within its part.

use std::collections::BTreeMap;

use gavotte_net::{Link, Volume};

use crate::costs::Costs;
use crate::error::TreeError;
use crate::greedy::{Eager, binomial, ecef, fnf};
use crate::operation::TreeOperation;
use crate::paths::Paths;
use crate::ranks::{LISTED_RANKS, Ranks, costs_of};
use crate::search::{Found, STARTS, candidates, cut};
use crate::tree::Tree;

/// Most ranks of one part.
const MOST_TOGETHER: usize = 512;

/// Ranks that follow each other and form a part.
const CHUNK: usize = 64;

impl Ranks {
    /// The tree that `build` makes from costs and a root. If there are many ranks, it makes one of each part.
    ///
    /// # Errors
    ///
    /// If the root does not exist, and the errors of `build`.
    pub fn built(
        &self,
        root: usize,
        back: bool,
        build: impl Fn(&Costs, usize) -> Result<Tree, TreeError>,
    ) -> Result<Tree, TreeError> {
        let hosts = self.count();
        if hosts <= LISTED_RANKS {
            return build(self.costs(back), root);
        }
        if root >= hosts {
            return Err(TreeError::Root { root, hosts });
        }
        let paths = self.paths(back);
        let around = around(self);
        let mut children = vec![Vec::new(); hosts];
        let mut left: Vec<usize> = (0..hosts).collect();
        for tier in 0.. {
            let parts = if left.len() <= MOST_TOGETHER {
                vec![left]
            } else {
                parts(&left, |rank| around[rank].get(tier).or(around[rank].last()).copied())
            };
            left = Vec::with_capacity(parts.len());
            for part in parts {
                let leader = leader(&paths, &part, root);
                let tree = build(&costs_of(&paths.of_ranks(&part))?, leader)?;
                for (at, &rank) in part.iter().enumerate() {
                    let below = tree.children(at).iter().map(|&child| part[child]);
                    children[rank].splice(0..0, below);
                }
                left.push(part[leader]);
            }
            if left.len() == 1 {
                break;
            }
        }
        Tree::new(root, children)
    }

    /// Trees of many ranks, each with its best number of segments, the best first.
    pub(crate) fn tiered_candidates(
        &self,
        root: usize,
        operation: TreeOperation,
        back: bool,
        steps: u64,
        seed: u64,
    ) -> Result<Vec<Found>, TreeError> {
        let operation = operation.check()?;
        let count = self.count();
        let mut trees = vec![binomial(count, root)?, Tree::flat(count, root)?];
        for pieces in [1, 16, operation.segments] {
            if pieces > operation.segments {
                continue;
            }
            let bytes = Volume(operation.bytes / f64::from(pieces));
            trees.push(self.built(root, back, |costs, root| fnf(costs, root, bytes))?);
            for most_children in [usize::MAX, 1, 2, 3] {
                let eager = Eager {
                    look_ahead: false,
                    most_children,
                };
                match self.built(root, back, |costs, root| ecef(costs, root, bytes, eager)) {
                    // If some pairs cannot be used, such a narrow tree may not reach every host.
                    Err(TreeError::Unreachable(_)) => {}
                    other => trees.push(other?),
                }
            }
        }
        let share = |ranks: usize| steps * ranks as u64 / count as u64;
        trees.push(self.built(root, back, |costs, root| {
            let improved = candidates(costs, root, operation, share(costs.hosts()), seed)?;
            improved
                .into_iter()
                .next()
                .map(|best| best.tree)
                .ok_or(TreeError::Unreachable(root))
        })?);
        let mut cuts: Vec<Found> = trees
            .into_iter()
            .map(|tree| cut(self.costs(back), tree, operation))
            .filter(|each| each.seconds.is_finite())
            .collect();
        cuts.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        cuts.dedup_by(|a, b| a.segments == b.segments && a.tree == b.tree);
        cuts.truncate(STARTS);
        Ok(cuts)
    }
}

/// For each rank, the groups around its host, the innermost first.
fn around(ranks: &Ranks) -> Vec<Vec<usize>> {
    let network = ranks.network();
    let mut by_size: Vec<usize> = (0..network.groups().len()).collect();
    by_size.sort_by_key(|&group| network.members(group).len());
    let mut of_host = vec![Vec::new(); network.hosts().len()];
    for group in by_size {
        for &host in network.members(group) {
            of_host[host].push(group);
        }
    }
    ranks.hosts().iter().map(|&host| of_host[host].clone()).collect()
}

/// The ranks by what they have in common. Parts that are too large, or that leave every rank alone, are cut.
fn parts(ranks: &[usize], common: impl Fn(usize) -> Option<usize>) -> Vec<Vec<usize>> {
    let mut parts: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for &rank in ranks {
        parts.entry(common(rank)).or_default().push(rank);
    }
    if parts.len() == ranks.len() {
        return ranks.chunks(CHUNK).map(<[usize]>::to_vec).collect();
    }
    let most = |part: &[usize]| {
        if part.len() > MOST_TOGETHER {
            CHUNK
        } else {
            MOST_TOGETHER
        }
    };
    parts
        .into_values()
        .flat_map(|part| part.chunks(most(&part)).map(<[usize]>::to_vec).collect::<Vec<_>>())
        .collect()
}

/// The place in a part of the rank that the others get their data from.
fn leader(paths: &Paths, part: &[usize], root: usize) -> usize {
    if let Some(at) = part.iter().position(|&rank| rank == root) {
        return at;
    }
    let cap_bps = |at: usize| {
        let host = paths.hosts()[part[at]];
        let (out, into) = (Link::Egress(host), Link::Ingress(host));
        paths.link_rate(out).min(paths.link_rate(into)).bps()
    };
    // The first of equals.
    (0..part.len())
        .rev()
        .max_by(|&a, &b| cap_bps(a).total_cmp(&cap_bps(b)))
        .unwrap_or(0)
}
