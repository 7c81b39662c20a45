//! The feeds of each host: which blocks it gets from which parent and how fast, by the overlay and by limits from
//! outside.

use std::collections::BTreeMap;

use super::super::blocks::Blocks;
use super::super::packing::Packing;
use super::{Conductor, Feed, Overlay, Standing};

/// Flows may be this much faster than necessary, so that a flow can catch up after a stall.
const HEADROOM: f64 = 1.02;
/// The root of a tree sends no faster than its edge should carry. Excess bytes would overflow a queue, and each host
/// that waits for the lost bytes leaves its own uplink idle.
const ROOT_HEADROOM: f64 = 1.0;
/// Where all links of a flow have room, the flow may be this much faster than necessary. A helper of a mesh then sends what
/// it got late at once, rather than 2 % faster: a far one lagged 40 ms behind for the whole broadcast.
const CATCHING_UP: f64 = 1.25;
/// Smaller relative changes of a pace are not reported.
const PACE_CHANGE: f64 = 0.02;

impl Conductor {
    /// The hosts whose feeds have changed since the last call, with their new feeds.
    pub fn changes(&mut self) -> Vec<(usize, Vec<Feed>)> {
        let mut changes = Vec::new();
        if let Overlay::Tree(tree) = &self.overlay
            && self.carries.0.as_ref() != Some(tree)
        {
            self.carries = (Some(tree.clone()), tree.carries(&self.ground));
        }
        if let Overlay::Packing(packing) = &self.overlay {
            self.carries.1 = packing.edges();
        }
        self.adopt();
        self.mesh_room = self.room();
        for host in self.ground.receivers().to_vec() {
            if self.nodes[host].standing != Standing::Live {
                continue;
            }
            let mut feeds = self.feeds(host);
            if self.nodes[host].late {
                self.restrain(host, &mut feeds);
            }
            for feed in &mut feeds {
                feed.pace_bps = feed.pace_bps.min(self.limit_of(feed.parent, host));
            }
            let same = self
                .given
                .get(&host)
                .is_some_and(|given| self.alike(host, given, &feeds));
            if !same {
                self.given.insert(host, feeds.clone());
                changes.push((host, feeds));
            }
        }
        changes
    }

    /// Whether two lists of feeds differ only by blocks that the host received in the meantime.
    fn alike(&self, host: usize, given: &[Feed], feeds: &[Feed]) -> bool {
        let lacking = Blocks::all(self.layout.count()).without(&self.nodes[host].have);
        let left = |feeds: &[Feed]| -> Vec<(usize, Blocks)> {
            let left = feeds.iter().map(|feed| (feed.parent, feed.blocks.within(&lacking)));
            left.filter(|(_, blocks)| !blocks.is_empty()).collect()
        };
        // A parent whose blocks have all arrived is no longer among the feeds, so feeds are compared by parent.
        let paced = feeds.iter().all(|feed| {
            let given = given.iter().find(|given| given.parent == feed.parent);
            given.is_none_or(|given| {
                let (old, new) = (given.pace_bps, feed.pace_bps);
                old.total_cmp(&new).is_eq() || (new > 0.0 && (new - old).abs() <= PACE_CHANGE * old)
            })
        });
        left(given) == left(feeds) && (paced || !self.limited(host, feeds))
    }

    /// Whether limits from outside apply to a host's paces. Changes of planned paces need no report while blocks
    /// arrive.
    fn limited(&self, host: usize, feeds: &[Feed]) -> bool {
        let limit = |feed: &Feed| self.limits.contains_key(&(feed.parent, host));
        self.nodes[host].late || feeds.iter().any(limit)
    }

    /// By link: its rate as a multiple of the rates of all flows of a mesh or a packing that cross it.
    fn room(&self) -> BTreeMap<usize, f64> {
        let network = self.ground.network();
        let mut loads = BTreeMap::<usize, f64>::new();
        let flows = match &self.overlay {
            Overlay::Packing(_) => (self.carries.1.iter()).map(|(&(m, n), &bps)| (m, n, bps)).collect(),
            _ => self.mesh_flows(),
        };
        for (m, n, bps) in flows {
            network.for_each_link(m, n, |link| *loads.entry(network.link_index(link)).or_default() += bps);
        }
        let room = |(link, bps): (usize, f64)| (link, network.rate(network.link(link)).bps() / bps);
        loads.into_iter().map(room).collect()
    }

    /// How much faster than necessary a flow of a mesh or a packing may be, at least `least` times.
    fn headroom(&self, m: usize, n: usize, least: f64) -> f64 {
        let network = self.ground.network();
        let mut room = CATCHING_UP;
        network.for_each_link(m, n, |link| {
            let of_link = self.mesh_room.get(&network.link_index(link));
            room = room.min(of_link.copied().unwrap_or(f64::INFINITY));
        });
        room.max(least)
    }

    /// The feeds of a host, by the overlay.
    fn feeds(&self, host: usize) -> Vec<Feed> {
        let lacking = Blocks::all(self.layout.count()).without(&self.nodes[host].have);
        match &self.overlay {
            Overlay::Tree(tree) => tree
                .parent(host)
                .or_else(|| self.adopted.get(&host).copied())
                .filter(|&parent| self.nodes[parent].takes_part())
                .map(|parent| {
                    let carried = self.carries.1.get(&(parent, host)).copied();
                    let headroom = if parent == tree.order()[0] {
                        ROOT_HEADROOM
                    } else {
                        HEADROOM
                    };
                    Feed {
                        parent,
                        blocks: lacking,
                        pace_bps: headroom * carried.unwrap_or(f64::INFINITY),
                    }
                })
                .into_iter()
                .collect(),
            Overlay::Cornet(_) => Vec::new(),
            Overlay::Packing(_) if self.nodes[host].late => (self.adopted.get(&host).copied())
                .filter(|&parent| self.nodes[parent].takes_part())
                .map(|parent| Feed {
                    parent,
                    blocks: lacking,
                    pace_bps: f64::INFINITY,
                })
                .into_iter()
                .collect(),
            Overlay::Packing(packing) => self.feeds_of_trees(host, packing, &lacking),
            Overlay::Mesh(helpers, seconds) => self.feeds_of_mesh(host, helpers, *seconds, &lacking),
        }
    }

    /// The feeds of a host in several trees, each of which carries some of the blocks.
    fn feeds_of_trees(&self, host: usize, packing: &Packing, lacking: &Blocks) -> Vec<Feed> {
        let mut by_parent: BTreeMap<usize, Blocks> = BTreeMap::new();
        for block in lacking.iter() {
            if let Some(parent) = packing.parent(host, block)
                && self.nodes[parent].takes_part()
            {
                let blocks = by_parent.entry(parent);
                blocks
                    .or_insert_with(|| Blocks::none(self.layout.count()))
                    .insert(block);
            }
        }
        let pace = |parent: usize| {
            let least = if parent == self.ground.source() {
                ROOT_HEADROOM
            } else {
                HEADROOM
            };
            let planned = self.carries.1.get(&(parent, host)).copied();
            planned.map_or(f64::INFINITY, |bps| self.headroom(parent, host, least) * bps)
        };
        let feed = |(parent, blocks)| Feed {
            parent,
            blocks,
            pace_bps: pace(parent),
        };
        by_parent.into_iter().map(feed).collect()
    }

    /// The feeds of a host in a mesh, where each helper passes on some of the blocks.
    fn feeds_of_mesh(&self, host: usize, helpers: &[usize], seconds: f64, lacking: &Blocks) -> Vec<Feed> {
        let mut by_parent: BTreeMap<usize, (Blocks, u64)> = BTreeMap::new();
        let mut load: BTreeMap<usize, u32> = BTreeMap::new();
        for block in 0..self.layout.count() {
            let helper = helpers[block as usize];
            let usable = |&parent: &usize| {
                parent != host && self.nodes[parent].takes_part() && !self.avoided.contains(&(host, parent))
            };
            let origin = || {
                let source = Some(self.ground.source()).filter(usable);
                source.or_else(|| {
                    let holders = self.ground.receivers().iter().copied().filter(usable);
                    let holders = holders.filter(|&other| self.nodes[other].have.contains(block));
                    holders.min_by_key(|other| load.get(other).copied().unwrap_or(0))
                })
            };
            let parent = Some(helper).filter(usable).or_else(origin);
            if let Some(parent) = parent {
                *load.entry(parent).or_default() += 1;
                let entry = by_parent.entry(parent);
                let (blocks, bytes) = entry.or_insert_with(|| (Blocks::none(self.layout.count()), 0));
                if lacking.contains(block) {
                    blocks.insert(block);
                }
                *bytes += u64::from(self.layout.length(block));
            }
        }
        // Divide all bytes that a parent gives in that time, not only the bytes left: otherwise the last blocks
        // would come ever more slowly.
        let pace = |parent: usize, bytes: u64| {
            if seconds > 0.0 {
                self.headroom(parent, host, HEADROOM) * 8.0 * bytes as f64 / seconds
            } else {
                f64::INFINITY
            }
        };
        let feed = |(parent, (blocks, bytes)): (usize, (Blocks, u64))| Feed {
            parent,
            pace_bps: pace(parent, bytes),
            blocks,
        };
        let wanted = by_parent.into_iter().filter(|(_, (blocks, _))| !blocks.is_empty());
        wanted.map(feed).collect()
    }
}

#[cfg(test)]
mod tests {
    use gavotte_net::{BitsPerSec, Bytes, Host, Network, NetworkParts, Seconds, Sharing};

    use super::*;
    use crate::broadcast::ground::Ground;
    use crate::broadcast::layout::Layout;
    use crate::broadcast::mechanism::Mechanism;

    #[test]
    fn helpers_catch_up_where_links_have_room_and_the_source_has_none() {
        let rate = |mbit: f64| BitsPerSec::new(mbit * 1e6).unwrap();
        let host = |machine, egress| Host {
            name: format!("h{machine}"),
            machine,
            egress: rate(egress),
            ingress: rate(80.0),
        };
        let parts = NetworkParts {
            hosts: vec![host(0, 60.0), host(1, 40.0), host(2, 50.0)],
            rate_bps: vec![f64::NAN; 9],
            latency_s: vec![],
            groups: vec![],
            sharing: Sharing::Hose,
        };
        let ground = Ground::new(&Network::new(parts).unwrap(), 0, &[1, 2]).unwrap();
        let layout = Layout::new(900, 1).unwrap();
        let mut conductor = Conductor::new(ground, layout, Mechanism::Mesh, 1, Seconds(1.0), vec![0; 3], 1);
        for host in 0..3 {
            let have = if host == 0 { Blocks::all(900) } else { Blocks::none(900) };
            conductor.opened(host, have, Bytes(0), Seconds(0.0));
        }
        let paces: BTreeMap<_, _> = (conductor.changes().into_iter())
            .flat_map(|(child, feeds)| feeds.into_iter().map(move |feed| ((feed.parent, child), feed.pace_bps)))
            .collect();
        // Host 1 passes on 4 of 9 blocks and receives all: 26.7 of its 40 Mbit/s out, and 60 of 80 in.
        let expected = [
            ((0, 1), 1.02 * 4.0),
            ((0, 2), 1.02 * 5.0),
            ((1, 2), 1.25 * 4.0),
            ((2, 1), 1.25 * 5.0),
        ];
        for ((ends, pace_bps), (wanted, ninths)) in paces.into_iter().zip(expected) {
            assert_eq!(ends, wanted);
            assert!(
                (pace_bps / (ninths / 9.0 * 60e6) - 1.0).abs() < 1e-9,
                "{ends:?}: {pace_bps}"
            );
        }
    }
}
