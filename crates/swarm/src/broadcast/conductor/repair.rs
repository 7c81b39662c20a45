//! Repairs: what the conductor changes when hosts die, fall silent or fall behind.

use std::collections::BTreeMap;

use gavotte_net::Seconds;

use super::super::blocks::Blocks;
use super::pending::Pending;
use super::{Conductor, Overlay, STALL_S, Standing};

/// The same if the next block does not arrive within this many times its time at the planned rate.
const SLOW_BLOCKS: f64 = 4.0;
/// A host that chooses its own peers is cut off from all of them after this long.
const ALONE_S: f64 = 30.0;
/// A host is slow if it gets less than this share of what its parent gets or should send.
const SLOW: f64 = 0.6;
/// A slow host falls behind if it would need at least this long to catch up.
const BEHIND_S: f64 = 1.0;
/// A host without a byte for this long, that is in two reports, is not slow but cut off.
const QUIET_S: f64 = 0.5;
/// After a change, the conductor ignores slow rates for this long.
const SETTLE_S: f64 = 2.0;
/// How long blocks may still arrive after the source has died.
const LAST_WORDS_S: f64 = 2.0;

impl Conductor {
    /// Looks for hosts that are stalled or fall behind.
    pub fn tick(&mut self, Seconds(now_s): Seconds) {
        self.bereaved(now_s);
        let mut hosts: Vec<usize> = self.ground.receivers().to_vec();
        if let Overlay::Tree(tree) = &self.overlay {
            // From the root down: a host that waits for a stalled parent is not the cause.
            let places: BTreeMap<usize, usize> = tree.order().iter().copied().zip(0..).collect();
            hosts.sort_by_key(|host| places.get(host).copied().unwrap_or(usize::MAX));
        }
        for &host in &hosts {
            if self.nodes[host].standing != Standing::Live {
                continue;
            }
            if matches!(self.overlay, Overlay::Cornet(_)) && now_s - self.nodes[host].grew_s > ALONE_S {
                self.lost(
                    host,
                    &format!("no peer sent it a block for {ALONE_S} s"),
                    Seconds(now_s),
                );
                continue;
            }
            let fed: Vec<usize> = self
                .given
                .get(&host)
                .into_iter()
                .flatten()
                .map(|feed| feed.parent)
                .collect();
            if self.held(host) {
                self.nodes[host].grew_s = now_s;
                continue;
            }
            let [parent] = fed[..] else {
                self.check_helper(host, now_s);
                continue;
            };
            if matches!(self.overlay, Overlay::Packing(_)) && !self.nodes[host].late {
                // `break_stalled` looks at each tree.
                continue;
            }
            if self.nodes[parent].bytes() <= self.nodes[host].bytes() {
                // The host waits for blocks that its parent lacks too, for example after a corrupt block.
                self.nodes[host].grew_s = now_s;
            } else if now_s - self.nodes[host].grew_s.max(self.settled_s) > STALL_S
                && !self.starves(parent, now_s)
                && !self.leave_tree(host, parent, now_s)
            {
                self.broken(
                    host,
                    parent,
                    &format!("no bytes arrived for {STALL_S} s"),
                    Seconds(now_s),
                );
            }
        }
        if matches!(self.overlay, Overlay::Packing(_)) {
            self.break_stalled(now_s);
            self.rebalance();
        }
        if now_s - self.settled_s > SETTLE_S {
            self.demote_slow(now_s);
        }
    }

    /// Whether a host lacks blocks and gets none itself, so that its children wait for what it waits for.
    fn starves(&self, host: usize, now_s: f64) -> bool {
        let node = &self.nodes[host];
        !node.have.is_full() && now_s - node.grew_s >= QUIET_S
    }

    /// Relieves a mesh's helper that gets no bytes although its parents have blocks for it. If it gets none for long, it
    /// is lost.
    fn check_helper(&mut self, host: usize, now_s: f64) {
        let silent_s = now_s - self.nodes[host].grew_s.max(self.settled_s);
        if silent_s <= STALL_S || !matches!(self.overlay, Overlay::Mesh(..)) {
            return;
        }
        let lacking = Blocks::all(self.layout.count()).without(&self.nodes[host].have);
        let offered = |parent: usize| !self.nodes[parent].have.within(&lacking).is_empty();
        let feeds = self.given.get(&host).into_iter().flatten();
        let waits = feeds.filter(|feed| feed.pace_bps > 0.0 && offered(feed.parent)).count();
        if waits == 0 {
            return;
        }
        if silent_s > ALONE_S {
            let why = format!("no host's bytes arrived for {ALONE_S} s");
            self.lost(host, &why, Seconds(now_s));
        } else if let Overlay::Mesh(helpers, _) = &self.overlay
            && helpers.contains(&host)
        {
            self.reassign(host);
            self.log.push(format!(
                "{} gets no bytes and passes on no blocks any more",
                self.name(host)
            ));
        }
    }

    /// Removes a host from the overlay.
    pub(super) fn without(&mut self, host: usize, now_s: f64) {
        self.settled_s = now_s;
        match &mut self.overlay {
            // The new root depends on the blocks that the others have.
            Overlay::Tree(tree) if tree.order()[0] == host => {}
            Overlay::Tree(tree) => tree.remove(host),
            Overlay::Packing(_) if self.ground.source() == host => {}
            Overlay::Packing(packing) => packing.remove(host),
            Overlay::Mesh(..) => self.reassign(host),
            Overlay::Cornet(_) => {}
        }
    }

    /// Assigns the blocks of a mesh's helper to other helpers: first to those that have the block, in equal numbers.
    pub(super) fn reassign(&mut self, host: usize) {
        let source = self.ground.source();
        let able = |&other: &usize| {
            other != host
                && self.nodes[other].takes_part()
                && !self.nodes[other].late
                && !self.avoided.contains(&(other, source))
        };
        let live: Vec<usize> = self.ground.receivers().iter().copied().filter(able).collect();
        let Overlay::Mesh(helpers, seconds) = &mut self.overlay else {
            return;
        };
        if !helpers.contains(&host) {
            return;
        }
        let mut load: BTreeMap<usize, u32> = BTreeMap::new();
        for (block, helper) in helpers.iter_mut().enumerate() {
            if *helper != host {
                continue;
            }
            let key = |&other: &usize| {
                let has = self.nodes[other].have.contains(block as u32);
                (!has, load.get(&other).copied().unwrap_or(0))
            };
            if let Some(other) = live.iter().copied().min_by_key(key) {
                *helper = other;
                *load.entry(other).or_default() += 1;
            }
        }
        // The paces assumed this helper; without them the others can catch up.
        *seconds = 0.0;
    }

    /// Handles the death of the source: the broadcast continues if the others together have all blocks.
    fn bereaved(&mut self, now_s: f64) {
        let source = self.ground.source();
        if !self.nodes[source].gone {
            return;
        }
        let takes_part = |host: &usize| self.nodes[*host].takes_part();
        let live: Vec<usize> = self.ground.receivers().iter().copied().filter(takes_part).collect();
        let count = self.layout.count();
        let mut union = Blocks::none(count);
        for &host in &live {
            union.add(&self.nodes[host].have);
        }
        if union.len() != self.left.0 {
            self.left = (union.len(), now_s);
        }
        if !union.is_full() {
            if now_s - self.left.1 > LAST_WORDS_S {
                let missing = count - union.len();
                let why = format!("{missing} of {count} blocks were lost with {}", self.name(source));
                for host in live
                    .into_iter()
                    .filter(|&host| self.nodes[host].standing == Standing::Live)
                    .collect::<Vec<_>>()
                {
                    self.lost(host, &why, Seconds(now_s));
                }
            }
            return;
        }
        let root = match &self.overlay {
            Overlay::Tree(tree) => tree.order()[0],
            Overlay::Packing(_) => source,
            Overlay::Mesh(..) | Overlay::Cornet(_) => return,
        };
        if !self.nodes[root].gone {
            return;
        }
        let heir = live.iter().copied().find(|&host| self.nodes[host].have.is_full());
        if let (Overlay::Tree(tree), Some(heir)) = (&mut self.overlay, heir) {
            tree.crown(root, heir);
        } else {
            let holder = |block: u32| {
                let holders = live
                    .iter()
                    .copied()
                    .filter(|&host| self.nodes[host].have.contains(block));
                holders
                    .max_by_key(|&host| self.nodes[host].have.len())
                    .unwrap_or(source)
            };
            self.overlay = Overlay::Mesh((0..count).map(holder).collect(), 0.0);
        }
        self.settled_s = now_s;
        let text = format!(
            "the broadcast continues without {}: the other hosts together have all blocks",
            self.name(root)
        );
        self.log.push(text);
    }

    /// Breaks the subscriptions of a packing whose parents have blocks to send but send none.
    fn break_stalled(&mut self, now_s: f64) {
        let mut pending = BTreeMap::new();
        let mut stalled = Vec::new();
        for (&child, feeds) in &self.given {
            if self.nodes[child].standing != Standing::Live {
                continue;
            }
            for feed in feeds {
                let lacking = feed.blocks.without(&self.nodes[child].have);
                let offered = feed.pace_bps > 0.0 && !lacking.within(&self.nodes[feed.parent].have).is_empty();
                let before = self.pending.get(&(child, feed.parent)).copied();
                let now = Pending::next(before, lacking.len(), offered, Seconds(now_s));
                let block_s = 8.0 * f64::from(self.layout.block_bytes()) / feed.pace_bps.max(1.0);
                if now_s - now.since_s.max(self.settled_s) > STALL_S.max(SLOW_BLOCKS * block_s) {
                    stalled.push((child, feed.parent));
                }
                pending.insert((child, feed.parent), now);
            }
        }
        self.pending = pending;
        self.put_aside(&stalled, now_s);
        for (child, parent) in stalled {
            if self.pending.remove(&(child, parent)).is_none() {
                // One of the two has left the trees.
                continue;
            }
            self.broken(
                child,
                parent,
                &format!("no block arrived for {STALL_S} s"),
                Seconds(now_s),
            );
        }
    }

    /// Moves blocks of a packing to trees that have sent all of theirs.
    fn rebalance(&mut self) {
        let mut out = Blocks::none(self.layout.count());
        for &host in self.ground.receivers() {
            out.add(&self.nodes[host].have);
        }
        if let Overlay::Packing(packing) = &mut self.overlay {
            packing.rebalance(&out, &self.ground, self.layout.block_bytes(), self.piece_bytes);
        }
    }

    /// Moves a host that slows others down to a place without children.
    fn demote_slow(&mut self, now_s: f64) {
        let Overlay::Tree(tree) = &self.overlay else { return };
        let root = tree.order()[0];
        for (parent, child) in tree.edges().collect::<Vec<_>>() {
            let (above, below) = (&self.nodes[parent], &self.nodes[child]);
            if below.standing != Standing::Live || !above.takes_part() || self.held(child) {
                continue;
            }
            if now_s - below.grew_s >= QUIET_S {
                // It is cut off rather than slow, or waits for a host that is: `leave_tree` or its agent's silence decides.
                continue;
            }
            let Some(gets) = below.rate() else { continue };
            let whole = above.have.is_full();
            let should = if whole {
                Some(self.expected_bytes_per_s)
            } else {
                above.rate()
            };
            // An edge that the plan knows to be slow is no fault of its hosts.
            let planned_bps = self.carries.1.get(&(parent, child)).copied().unwrap_or(f64::INFINITY);
            let most_bps = planned_bps.min(self.limit_of(parent, child));
            let should = should.map(|should| should.min(most_bps / 8.0));
            let Some(should) = should.filter(|should| *should > 0.0 && gets < SLOW * should) else {
                continue;
            };
            let behind_s = above.bytes().saturating_sub(below.bytes()) as f64 / should;
            if behind_s < BEHIND_S {
                continue;
            }
            let last = tree.order().last() == Some(&child);
            let (slow, text) = if parent != root && !above.demoted {
                (
                    parent,
                    format!(
                        "{} gets little from {}, which is put last",
                        self.name(child),
                        self.name(parent)
                    ),
                )
            } else if !below.demoted && !last && tree.has_children(child) {
                (child, format!("{} falls behind and is put last", self.name(child)))
            } else {
                continue;
            };
            let mut changed = tree.clone();
            self.nodes[slow].demoted = true;
            if changed.demote(slow, &self.avoided) && changed != *tree {
                self.overlay = Overlay::Tree(changed);
                self.log.push(text);
                self.settled_s = now_s;
                for node in &mut self.nodes {
                    node.marks.drain(..node.marks.len().saturating_sub(1));
                }
                return;
            }
        }
    }
}
