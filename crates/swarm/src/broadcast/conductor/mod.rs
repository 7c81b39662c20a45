//! Conducts a running broadcast: decides which host gets which blocks from which parent, and changes this when hosts
//! die, fall silent or fall behind.
//!
//! The controller passes the agents' reports to the conductor, and [`Conductor::changes`] to the agents.

mod aside;
mod feeds;
mod late;
mod pending;
mod repair;
mod tracker;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gavotte_net::{Bandwidth, Bytes, Seconds};

use super::blocks::Blocks;
use super::cornet::{Random, Tracker};
use super::ground::Ground;
use super::layout::Layout;
use super::mechanism::Mechanism;
use super::mesh::Shares;
use super::packing::{Branching, Packing};
use super::tree::Tree;
use pending::Pending;

/// Rates are averaged over this time.
const WINDOW_S: f64 = 1.5;
/// A host is cut off from its parent if no bytes arrive for this long although the parent has more.
const STALL_S: f64 = 2.0;
/// A host counts as unreachable after more than this many broken subscriptions between which no byte arrives.
const BREAKS: u32 = 4;

/// Blocks that a host gets from one parent.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// The parent.
    pub parent: usize,
    /// The blocks.
    pub blocks: Blocks,
    /// The pace; infinite for no limit.
    pub pace_bps: f64,
}

/// The state of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The host is absent and may join later.
    Absent,
    /// The host has not opened its copy yet.
    Expected,
    /// The host takes part.
    Live,
    /// The host has the whole object.
    Kept,
    /// The host no longer takes part; the text is the reason.
    Lost(String),
}

#[derive(Clone, Debug)]
struct Node {
    standing: Standing,
    have: Blocks,
    /// Times, and the bytes that the host had then.
    marks: VecDeque<(f64, u64)>,
    grew_s: f64,
    demoted: bool,
    gone: bool,
    /// The host joined a running broadcast.
    late: bool,
    breaks: BTreeMap<usize, u32>,
    /// Subscriptions that broke since bytes last arrived.
    failures: u32,
}

impl Node {
    fn bytes(&self) -> u64 {
        self.marks.back().map_or(0, |(_, bytes)| *bytes)
    }

    /// Bytes per second over the window; `None` until the host was observed for most of a window.
    fn rate(&self) -> Option<f64> {
        let ((from_s, old), (to_s, new)) = (self.marks.front()?, self.marks.back()?);
        let seconds = to_s - from_s;
        (seconds >= 0.8 * WINDOW_S).then(|| new.saturating_sub(*old) as f64 / seconds)
    }

    fn takes_part(&self) -> bool {
        matches!(self.standing, Standing::Live | Standing::Kept) && !self.gone
    }
}

#[derive(Clone, Debug)]
enum Overlay {
    Tree(Tree),
    /// The host that passes on each block, and the planned time in seconds; 0 for no pace.
    Mesh(Vec<usize>, f64),
    Packing(Packing),
    /// Receivers fetch from peers that the tracker names.
    Cornet(Tracker),
}

/// A running broadcast.
#[derive(Clone, Debug)]
pub struct Conductor {
    ground: Ground,
    layout: Layout,
    piece_bytes: u32,
    overlay: Overlay,
    nodes: Vec<Node>,
    given: BTreeMap<usize, Vec<Feed>>,
    /// The parent of each late host of a tree.
    adopted: BTreeMap<usize, usize>,
    /// The rate that each edge of a tree can carry in bit/s, and the tree for which they were computed.
    carries: (Option<Tree>, BTreeMap<(usize, usize), f64>),
    /// By child and parent of a packing: the blocks that the parent has yet to send.
    pending: BTreeMap<(usize, usize), Pending>,
    /// Hosts that left the trees of a packing since the last call of [`Conductor::aside`].
    aside: Vec<usize>,
    /// How far the links of a mesh are from full, as a multiple of their loads, by link.
    mesh_room: BTreeMap<usize, f64>,
    /// Limits from outside in bit/s, by parent and child; 0 = wait.
    limits: BTreeMap<(usize, usize), f64>,
    /// The limit of a pair without a limit from outside.
    unlimited_bps: f64,
    avoided: BTreeSet<(usize, usize)>,
    /// Parents of a tree from which a child got no bytes and has left.
    suspects: BTreeSet<usize>,
    expected_bytes_per_s: f64,
    settled_s: f64,
    /// Once the source has died: the number of blocks that the others have together, and when that number last changed.
    left: (u32, f64),
    random: Random,
    log: Vec<String>,
}

impl Conductor {
    /// A broadcast in which no host has opened its copy yet. `predicted_s` is the predicted time, infinite if unknown.
    /// Only a Cornet uses `partitions`, by host, and `seed`.
    pub fn new(
        ground: Ground,
        layout: Layout,
        mechanism: Mechanism,
        piece_bytes: u32,
        Seconds(predicted_s): Seconds,
        partitions: Vec<usize>,
        seed: u64,
    ) -> Self {
        let bytes = layout.bytes();
        let ground_hosts = ground.network().hosts().len();
        let overlay = if mechanism.is_cornet() {
            Overlay::Cornet(Tracker::new(partitions, ground_hosts))
        } else if let Some(shape) = mechanism.shape() {
            Overlay::Tree(Tree::new(shape, &ground, Bytes(bytes), piece_bytes))
        } else if mechanism == Mechanism::Packing {
            Overlay::Packing(Packing::new(
                Vec::new(),
                &ground,
                Bytes(bytes),
                layout.count(),
                piece_bytes,
            ))
        } else {
            let shares = Shares::new(&ground, Bytes(bytes));
            Overlay::Mesh(shares.assign(layout.count()), shares.seconds)
        };
        let node = Node {
            standing: Standing::Expected,
            have: Blocks::none(layout.count()),
            marks: VecDeque::new(),
            grew_s: 0.0,
            demoted: false,
            gone: false,
            late: false,
            breaks: BTreeMap::new(),
            failures: 0,
        };
        let nodes = vec![node; ground.network().hosts().len()];
        let expected_bytes_per_s = if predicted_s > 0.0 {
            bytes as f64 / predicted_s
        } else {
            0.0
        };
        Self {
            ground,
            layout,
            piece_bytes,
            overlay,
            nodes,
            given: BTreeMap::new(),
            adopted: BTreeMap::new(),
            carries: (None, BTreeMap::new()),
            pending: BTreeMap::new(),
            aside: Vec::new(),
            mesh_room: BTreeMap::new(),
            limits: BTreeMap::new(),
            unlimited_bps: f64::INFINITY,
            avoided: BTreeSet::new(),
            suspects: BTreeSet::new(),
            expected_bytes_per_s,
            settled_s: 0.0,
            left: (0, 0.0),
            random: Random::new(seed),
            log: Vec::new(),
        }
    }

    /// Sets the trees of a packing. Call it before the start, or later with trees of the hosts that take part.
    pub fn plant(&mut self, trees: Vec<Branching>) {
        let (bytes, count) = (Bytes(self.layout.bytes()), self.layout.count());
        self.overlay = Overlay::Packing(Packing::new(trees, &self.ground, bytes, count, self.piece_bytes));
    }

    /// Parent and child of each edge of one or several trees; empty for other mechanisms.
    pub fn edges(&self) -> Vec<(usize, usize)> {
        match &self.overlay {
            Overlay::Tree(tree) => tree.edges().collect(),
            Overlay::Packing(packing) => packing.edges().into_keys().collect(),
            Overlay::Mesh(..) | Overlay::Cornet(..) => Vec::new(),
        }
    }

    /// Parent, child and bytes left of each feed as last reported.
    pub fn flows(&self) -> Vec<(usize, usize, u64)> {
        let mut flows = Vec::new();
        for (&child, feeds) in &self.given {
            let node = &self.nodes[child];
            if node.standing != Standing::Live {
                continue;
            }
            for feed in feeds {
                let left = feed.blocks.without(&node.have);
                let left: u64 = left.iter().map(|block| u64::from(self.layout.length(block))).sum();
                if left > 0 {
                    flows.push((feed.parent, child, left));
                }
            }
        }
        flows
    }

    /// Limits the pace from a parent to a child, in bit/s: infinite for no limit, 0 to make it wait.
    pub fn limit(&mut self, parent: usize, child: usize, Bandwidth(pace_bps): Bandwidth, Seconds(now_s): Seconds) {
        let old = self.limit_of(parent, child);
        self.limits.insert((parent, child), pace_bps);
        if old == 0.0 && pace_bps > 0.0 {
            // The child could not grow until now.
            self.nodes[child].grew_s = now_s;
            self.settled_s = now_s;
        }
    }

    /// Makes every parent wait until [`Conductor::limit`] sets its limit.
    pub fn hold(&mut self) {
        self.unlimited_bps = 0.0;
    }

    fn limit_of(&self, parent: usize, child: usize) -> f64 {
        self.limits.get(&(parent, child)).copied().unwrap_or(self.unlimited_bps)
    }

    /// Whether a limit from outside makes a child wait, or makes a host wait that it depends on.
    fn held(&self, mut child: usize) -> bool {
        for _ in 0..self.nodes.len() {
            let feeds = self.given.get(&child).map_or(&[][..], Vec::as_slice);
            if !feeds.is_empty() && feeds.iter().all(|feed| feed.pace_bps == 0.0) {
                return true;
            }
            let [feed] = feeds else { return false };
            if self.limit_of(feed.parent, child) == 0.0 {
                return true;
            }
            child = feed.parent;
        }
        false
    }

    /// The round trip between two hosts by the network's latencies, in seconds; 0 if one is unknown.
    pub fn round_trip_s(&self, m: usize, n: usize) -> f64 {
        self.ground.round_trip_s(m, n)
    }

    /// The state of a host.
    pub fn standing(&self, host: usize) -> &Standing {
        &self.nodes[host].standing
    }

    /// The changes since the last call, with their reasons.
    pub fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Whether every receiver has the whole object, is lost, or never joined.
    pub fn is_over(&self) -> bool {
        let over = |standing: &Standing| matches!(standing, Standing::Kept | Standing::Lost(_) | Standing::Absent);
        let done = |&host: &usize| over(&self.nodes[host].standing);
        self.ground.receivers().iter().all(done)
    }

    /// Records that a host has opened its copy, and what the copy held.
    pub fn opened(&mut self, host: usize, have: Blocks, Bytes(bytes): Bytes, Seconds(now_s): Seconds) {
        if self.nodes[host].standing == Standing::Expected {
            self.nodes[host].standing = Standing::Live;
            if let Overlay::Tree(tree) = &mut self.overlay
                && !self.nodes[host].late
            {
                tree.join(host);
            }
        }
        self.progress(host, have, Bytes(bytes), Seconds(now_s));
    }

    /// Records a host's progress.
    pub fn progress(&mut self, host: usize, have: Blocks, Bytes(bytes): Bytes, Seconds(now_s): Seconds) {
        let node = &mut self.nodes[host];
        if bytes > node.bytes() || node.marks.is_empty() {
            node.grew_s = now_s;
            node.failures = 0;
        }
        node.have = have;
        node.marks.push_back((now_s, bytes));
        while node.marks.get(1).is_some_and(|(then_s, _)| now_s - then_s >= WINDOW_S) {
            node.marks.pop_front();
        }
    }

    /// Records that a host has the whole object under its final name.
    pub fn kept(&mut self, host: usize) {
        let count = self.layout.count();
        let node = &mut self.nodes[host];
        if !matches!(node.standing, Standing::Lost(_)) {
            node.standing = Standing::Kept;
            node.have = Blocks::all(count);
        }
    }

    /// Records that a host no longer takes part.
    pub fn lost(&mut self, host: usize, why: &str, Seconds(now_s): Seconds) {
        let node = &mut self.nodes[host];
        if node.gone {
            return;
        }
        node.gone = true;
        let kept = node.standing == Standing::Kept;
        // A host with its whole copy is only lost as a helper.
        if !kept || host == self.ground.source() {
            node.standing = Standing::Lost(why.to_owned());
            self.log
                .push(format!("{} no longer takes part: {why}", self.name(host)));
        }
        self.given.remove(&host);
        self.adopted.remove(&host);
        if host == self.ground.source() {
            self.left = (0, now_s);
        }
        self.without(host, now_s);
    }

    /// Records pairs of child and parent that cannot connect. Call it when all hosts of the start have opened their
    /// copies. A child that no other host can reach keeps its parents: it is lost when its subscriptions break.
    pub fn separate(&mut self, pairs: &[(usize, usize)]) {
        let apart: BTreeSet<(usize, usize)> = pairs.iter().copied().collect();
        let source = self.ground.source();
        let mut reached = vec![source];
        let mut left: Vec<usize> = self.ground.receivers().to_vec();
        left.retain(|&host| self.nodes[host].takes_part());
        while let Some(at) =
            (left.iter()).position(|child| reached.iter().any(|&parent| !apart.contains(&(*child, parent))))
        {
            reached.push(left.swap_remove(at));
        }
        let within = |&(child, parent): &(usize, usize)| reached.contains(&child) && reached.contains(&parent);
        self.avoided.extend(apart.into_iter().filter(within));
        if let Overlay::Tree(tree) = &mut self.overlay {
            tree.rearrange(&self.avoided);
            return;
        }
        if let Overlay::Packing(packing) = &mut self.overlay {
            packing.rearrange(&self.avoided);
            return;
        }
        for child in reached {
            if self.avoided.contains(&(child, source)) {
                self.reassign(child);
            }
        }
    }

    /// Records that a subscription of a child to a parent broke.
    pub fn broken(&mut self, child: usize, parent: usize, why: &str, Seconds(now_s): Seconds) {
        if !self.nodes[child].takes_part() || !self.nodes[parent].takes_part() {
            return;
        }
        self.given.remove(&child);
        let node = &mut self.nodes[child];
        node.grew_s = now_s;
        *node.breaks.entry(parent).or_default() += 1;
        let times = node.breaks[&parent];
        node.failures += 1;
        if node.failures > BREAKS {
            let whom: Vec<_> = node.breaks.keys().copied().collect();
            let whom: Vec<_> = whom.into_iter().map(|host| self.name(host).to_owned()).collect();
            let why = format!("it could get no blocks from {}: {why}", whom.join(", "));
            self.lost(child, &why, Seconds(now_s));
            return;
        }
        if times < 2 {
            // After the first break the child subscribes to the same parent again.
            return;
        }
        self.avoided.insert((child, parent));
        self.settled_s = now_s;
        let source = self.ground.source();
        let text = format!(
            "{} gets no more blocks from {}: {why}",
            self.name(child),
            self.name(parent)
        );
        self.log.push(text);
        if let Overlay::Tree(tree) = &mut self.overlay
            && !tree.has_children(child)
        {
            // Its parent may be well, and others depend on the parent. No host depends on the child.
            tree.remove(child);
            self.nodes[child].late = true;
        }
        if self.nodes[child].late {
            if matches!(self.overlay, Overlay::Tree(_) | Overlay::Packing(_)) && self.foster(child).is_none() {
                let why = format!("no host is left that could send it the object: {why}");
                self.lost(child, &why, Seconds(now_s));
            }
        } else if let Overlay::Tree(tree) = &mut self.overlay {
            let moved = parent != tree.order()[0] && tree.demote(parent, &self.avoided);
            if !moved && !tree.demote(child, &self.avoided) {
                let why = format!("no host is left that could send it the object: {why}");
                self.lost(child, &why, Seconds(now_s));
            }
        } else if let Overlay::Packing(packing) = &mut self.overlay {
            if let Some(stuck) = packing.rearrange(&self.avoided) {
                let why = format!("no host is left that could send it the object: {why}");
                self.lost(stuck, &why, Seconds(now_s));
            }
        } else if parent == source {
            self.reassign(child);
        }
    }

    fn name(&self, host: usize) -> &str {
        &self.ground.network().hosts()[host].name
    }
}
