//! Late hosts: those that join a running broadcast get only capacity that no punctual host needs.

use std::collections::{BTreeMap, BTreeSet};

use gavotte_net::{Bytes, Seconds};

use super::super::blocks::Blocks;
use super::super::mesh::Shares;
use super::{Conductor, Feed, Overlay, Standing};

/// A link with less than this share of its rate to spare counts as full: a flow over it is not worth its cost.
const SCRAP: f64 = 0.05;

impl Conductor {
    /// Marks a receiver as absent before the start. The broadcast does not wait for it; [`Conductor::expect`] adds it
    /// later.
    pub fn absent(&mut self, host: usize) {
        self.nodes[host].standing = Standing::Absent;
        match &mut self.overlay {
            Overlay::Tree(tree) => tree.remove(host),
            Overlay::Packing(packing) => packing.remove(host),
            Overlay::Mesh(helpers, seconds) => {
                let here = |host: &usize| self.nodes[*host].standing != Standing::Absent;
                let here: Vec<usize> = self.ground.receivers().iter().copied().filter(here).collect();
                let shares = Shares::new(&self.ground.only(&here), Bytes(self.layout.bytes()));
                (*helpers, *seconds) = (shares.assign(self.layout.count()), shares.seconds);
            }
            Overlay::Cornet(_) => {}
        }
    }

    /// Adds a host of the network that was not a receiver at the start. The broadcast does not wait for it;
    /// [`Conductor::expect`] adds it when it joins.
    pub fn invite(&mut self, host: usize) {
        if self.ground.members().all(|member| member != host) {
            self.ground.invite(host);
            self.nodes[host].standing = Standing::Absent;
        }
    }

    /// Records that a missing or lost receiver has joined. [`Conductor::opened`] then reports which blocks it holds.
    pub fn expect(&mut self, host: usize, Seconds(now_s): Seconds) {
        let node = &mut self.nodes[host];
        if !matches!(node.standing, Standing::Absent | Standing::Lost(_)) {
            return;
        }
        node.standing = Standing::Expected;
        (node.late, node.gone, node.demoted) = (true, false, false);
        (node.have, node.grew_s) = (Blocks::none(self.layout.count()), now_s);
        node.marks.clear();
        node.breaks.clear();
        node.failures = 0;
        self.avoided.retain(|&(child, parent)| child != host && parent != host);
        self.given.remove(&host);
        self.adopted.remove(&host);
        if let Overlay::Cornet(tracker) = &mut self.overlay {
            tracker.soon(host, now_s);
        }
        self.log.push(format!("{} joins after {now_s:.1} s", self.name(host)));
    }

    /// Gives each late host of one or several trees a parent, and keeps its present parent if possible.
    pub(super) fn adopt(&mut self) {
        if !matches!(self.overlay, Overlay::Tree(_) | Overlay::Packing(_)) {
            return;
        }
        let late = |host: &usize| self.nodes[*host].late && self.nodes[*host].standing == Standing::Live;
        for host in self.ground.receivers().iter().copied().filter(late).collect::<Vec<_>>() {
            let usable = |parent: &usize| self.nodes[*parent].takes_part() && !self.avoided.contains(&(host, *parent));
            if self.adopted.get(&host).is_some_and(usable) {
                continue;
            }
            self.adopted.remove(&host);
            if let Some(parent) = self.foster(host) {
                self.adopted.insert(host, parent);
            }
        }
    }

    /// Picks the parent that can give a late host of a tree all blocks: the one with the fewest children, then the most
    /// capacity to spare, then the most bytes.
    pub(super) fn foster(&self, host: usize) -> Option<usize> {
        let own = self.descendants(host);
        let mut children = BTreeMap::<usize, usize>::new();
        for (parent, _) in self.busy() {
            *children.entry(parent).or_default() += 1;
        }
        let able = |parent: &usize| {
            *parent != host
                && self.nodes[*parent].takes_part()
                && !own.contains(parent)
                && !self.avoided.contains(&(host, *parent))
        };
        let known = |bps: f64| if bps.is_finite() { bps } else { f64::MAX };
        let key = |parent: usize| {
            let spare = known(self.spare(parent, host));
            (
                children.get(&parent).copied().unwrap_or(0),
                -spare,
                self.nodes[parent].bytes(),
            )
        };
        self.ground.members().filter(able).min_by(|&m, &n| {
            let (one, two) = (key(m), key(n));
            one.0.cmp(&two.0).then(one.1.total_cmp(&two.1)).then(two.2.cmp(&one.2))
        })
    }

    /// A late host, and the late hosts below it.
    fn descendants(&self, host: usize) -> BTreeSet<usize> {
        let mut below = BTreeSet::from([host]);
        while let Some((&child, _)) =
            (self.adopted.iter()).find(|(child, parent)| below.contains(parent) && !below.contains(child))
        {
            below.insert(child);
        }
        below
    }

    /// Parent and child of each edge of trees whose child still lacks blocks, including late hosts.
    fn busy(&self) -> Vec<(usize, usize)> {
        let adopted = self.adopted.iter().map(|(&child, &parent)| (parent, child));
        let edges = self.edges().into_iter().chain(adopted);
        edges.filter(|(_, child)| self.lacks(*child)).collect()
    }

    fn lacks(&self, host: usize) -> bool {
        matches!(self.nodes[host].standing, Standing::Expected | Standing::Live)
    }

    /// Parent, child and planned rate in bit/s of each flow of a mesh; none if the mesh has no pace.
    pub(super) fn mesh_flows(&self) -> Vec<(usize, usize, f64)> {
        let Overlay::Mesh(helpers, seconds) = &self.overlay else {
            return Vec::new();
        };
        let mut passed = BTreeMap::<usize, u64>::new();
        for (block, &helper) in helpers.iter().enumerate().filter(|_| *seconds > 0.0) {
            *passed.entry(helper).or_default() += u64::from(self.layout.length(block as u32));
        }
        let (source, mut flows) = (self.ground.source(), Vec::new());
        for (helper, bytes) in passed {
            let bps = 8.0 * bytes as f64 / seconds;
            if helper != source {
                flows.push((source, helper, bps));
            }
            let others = self.ground.receivers().iter().filter(|&&child| child != helper);
            flows.extend(others.map(|&child| (helper, child, bps)));
        }
        flows
    }

    /// The capacity on the links from one host to another that the overlay leaves while punctual hosts still need it,
    /// in bit/s.
    fn spare(&self, m: usize, n: usize) -> f64 {
        let network = self.ground.network();
        let mut taken = BTreeMap::<usize, f64>::new();
        let mut take = |parent: usize, child: usize, bps: f64| {
            if bps.is_finite() && self.lacks(child) && !self.nodes[child].late {
                network.for_each_link(parent, child, |link| {
                    *taken.entry(network.link_index(link)).or_default() += bps;
                });
            }
        };
        match &self.overlay {
            Overlay::Tree(_) | Overlay::Packing(_) => {
                for (&(parent, child), &bps) in &self.carries.1 {
                    take(parent, child, bps);
                }
            }
            Overlay::Mesh(..) => {
                for (parent, child, bps) in self.mesh_flows() {
                    take(parent, child, bps);
                }
            }
            Overlay::Cornet(_) => {}
        }
        let mut spare = f64::INFINITY;
        network.for_each_link(m, n, |link| {
            let rate = network.rate(link).bps();
            let left = rate - taken.get(&network.link_index(link)).copied().unwrap_or(0.0);
            spare = spare.min(if left < SCRAP * rate { 0.0 } else { left });
        });
        spare
    }

    /// Limits a late host's feeds to spare capacity; feeds wait if there is none.
    pub(super) fn restrain(&self, host: usize, feeds: &mut [Feed]) {
        let others = |&other: &usize| self.lacks(other) && !self.nodes[other].late;
        let alone = !self.ground.receivers().iter().any(others);
        let late = self.ground.receivers().iter();
        let late = late
            .filter(|&&other| self.nodes[other].late && self.lacks(other))
            .count();
        for feed in feeds {
            feed.pace_bps = if alone {
                f64::INFINITY
            } else if matches!(self.overlay, Overlay::Mesh(..)) {
                feed.pace_bps.min(self.spare(feed.parent, host) / late as f64)
            } else {
                self.spare(feed.parent, host)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use gavotte_net::{BitsPerSec, Host, Network, NetworkParts, Sharing};

    use super::*;
    use crate::broadcast::ground::Ground;
    use crate::broadcast::layout::Layout;
    use crate::broadcast::mechanism::Mechanism;

    /// Host 0 sends to 1, 2 and 3, which have no block yet; host 4 is not a receiver.
    fn under_way(mechanism: Mechanism) -> Conductor {
        let rate = BitsPerSec::new(8e6).unwrap();
        let host = |machine| Host {
            name: format!("h{machine}"),
            machine,
            egress: rate,
            ingress: rate,
        };
        let parts = NetworkParts {
            hosts: (0..5).map(host).collect(),
            rate_bps: vec![f64::NAN; 25],
            latency_s: vec![],
            groups: vec![],
            sharing: Sharing::Hose,
        };
        let ground = Ground::new(&Network::new(parts).unwrap(), 0, &[1, 2, 3]).unwrap();
        let layout = Layout::new(90, 10).unwrap();
        let mut conductor = Conductor::new(ground, layout, mechanism, 1, Seconds(1.0), vec![0; 5], 1);
        for host in 0..4 {
            let have = if host == 0 { Blocks::all(9) } else { Blocks::none(9) };
            conductor.opened(host, have, Bytes(if host == 0 { 90 } else { 0 }), Seconds(0.0));
        }
        conductor.changes();
        conductor.answers(Seconds(0.0));
        conductor
    }

    fn parents_of_4(conductor: &mut Conductor) -> Vec<usize> {
        conductor.invite(4);
        conductor.expect(4, Seconds(1.0));
        conductor.opened(4, Blocks::none(9), Bytes(0), Seconds(1.0));
        let mut parents: Vec<usize> = (conductor.changes().into_iter())
            .filter(|(host, _)| *host == 4)
            .flat_map(|(_, feeds)| feeds.into_iter().map(|feed| feed.parent))
            .collect();
        parents.sort_unstable();
        parents
    }

    #[test]
    fn who_was_not_named_is_put_at_the_end_of_a_chain() {
        let mut conductor = under_way(Mechanism::Chain);
        let last = conductor.edges().last().unwrap().1;
        assert_eq!(parents_of_4(&mut conductor), [last]);
        assert!(!conductor.is_over());
        (1..4).for_each(|host| conductor.kept(host));
        assert!(!conductor.is_over());
        conductor.kept(4);
        assert!(conductor.is_over());
    }

    #[test]
    fn who_was_not_named_has_its_blocks_from_all_helpers_of_a_mesh() {
        assert_eq!(parents_of_4(&mut under_way(Mechanism::Mesh)), [1, 2, 3]);
    }

    #[test]
    fn who_was_not_named_is_answered_by_the_tracker_of_a_cornet() {
        let mut conductor = under_way(Mechanism::Cornet);
        parents_of_4(&mut conductor);
        let answers: Vec<_> = conductor
            .answers(Seconds(1.0))
            .into_iter()
            .filter(|(host, _)| *host == 4)
            .collect();
        assert_eq!(answers, [(4, vec![(0, Blocks::all(9))])]);
    }

    #[test]
    fn one_that_is_invited_and_never_comes_holds_nobody_up() {
        let mut conductor = under_way(Mechanism::Chain);
        conductor.invite(4);
        (1..4).for_each(|host| conductor.kept(host));
        assert!(conductor.is_over());
    }
}
