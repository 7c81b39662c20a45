//! Who has which blocks from whom while a broadcast runs: changed around hosts that die, fall silent or fall behind.
//!
//! The controller tells what it hears from the agents, and hands on [`Conductor::changes`].

mod feeds;
mod late;
mod repair;
mod tracker;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::blocks::Blocks;
use super::cornet::{Random, Tracker};
use super::ground::Ground;
use super::layout::Layout;
use super::mechanism::Mechanism;
use super::mesh::Shares;
use super::tree::Tree;

/// Rates are judged over so long.
const WINDOW_S: f64 = 1.5;
/// So many broken subscriptions, and a host cannot be reached.
const BREAKS: u32 = 4;

/// Blocks that a host is to have from one parent.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// The parent.
    pub parent: usize,
    /// The blocks.
    pub blocks: Blocks,
    /// How fast; infinite for no limit.
    pub pace_bps: f64,
}

/// How a host stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not there yet, and may come.
    Absent,
    /// It has not opened its copy.
    Expected,
    /// It takes part.
    Live,
    /// It has all.
    Kept,
    /// It is out, and why.
    Lost(String),
}

#[derive(Clone, Debug)]
struct Node {
    standing: Standing,
    have: Blocks,
    /// When, and how many bytes it had.
    marks: VecDeque<(f64, u64)>,
    grew_s: f64,
    demoted: bool,
    gone: bool,
    /// It came when the others were under way.
    late: bool,
    breaks: BTreeMap<usize, u32>,
}

impl Node {
    fn bytes(&self) -> u64 {
        self.marks.back().map_or(0, |(_, bytes)| *bytes)
    }

    /// Bytes a second over the window; none while it has not been watched for so long.
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
    /// Who passes on each block, and what each host may send in all, in bit/s.
    Mesh(Vec<usize>, f64),
    /// Receivers fetch from peers that the tracker names.
    Cornet(Tracker),
}

/// One broadcast under way.
#[derive(Clone, Debug)]
pub struct Conductor {
    ground: Ground,
    layout: Layout,
    overlay: Overlay,
    nodes: Vec<Node>,
    given: BTreeMap<usize, Vec<Feed>>,
    /// By late host of a tree: who gives to it.
    adopted: BTreeMap<usize, usize>,
    /// What the edges of a tree can carry in bit/s, and of which tree that is.
    carries: (Option<Tree>, BTreeMap<(usize, usize), f64>),
    /// Limits from outside, by parent and child, in bit/s; 0 = wait.
    limits: BTreeMap<(usize, usize), f64>,
    /// What counts where none was told.
    unlimited_bps: f64,
    avoided: BTreeSet<(usize, usize)>,
    expected_bytes_per_s: f64,
    settled_s: f64,
    /// Once the source has died: how many blocks there are among the others, and when that last changed.
    left: (u32, f64),
    random: Random,
    log: Vec<String>,
}

impl Conductor {
    /// A broadcast in which nobody has opened a copy yet. `predicted_s` is how long it should take; infinite when
    /// nobody knows. `partitions`, by host, and `seed` are a Cornet's.
    pub fn new(
        ground: Ground,
        layout: Layout,
        mechanism: Mechanism,
        piece_bytes: u32,
        predicted_s: f64,
        partitions: Vec<usize>,
        seed: u64,
    ) -> Self {
        let bytes = layout.bytes();
        let ground_hosts = ground.network().hosts().len();
        let overlay = if mechanism.is_cornet() {
            Overlay::Cornet(Tracker::new(partitions, ground_hosts))
        } else if let Some(shape) = mechanism.shape() {
            Overlay::Tree(Tree::new(shape, &ground, bytes, piece_bytes))
        } else {
            let shares = Shares::new(&ground, bytes);
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
            overlay,
            nodes,
            given: BTreeMap::new(),
            adopted: BTreeMap::new(),
            carries: (None, BTreeMap::new()),
            limits: BTreeMap::new(),
            unlimited_bps: f64::INFINITY,
            avoided: BTreeSet::new(),
            expected_bytes_per_s,
            settled_s: 0.0,
            left: (0, 0.0),
            random: Random::new(seed),
            log: Vec::new(),
        }
    }

    /// Who gives to whom as the overlay stands: parent and child. Of a mesh, none.
    pub fn edges(&self) -> Vec<(usize, usize)> {
        match &self.overlay {
            Overlay::Tree(tree) => tree.edges().collect(),
            Overlay::Mesh(..) | Overlay::Cornet(..) => Vec::new(),
        }
    }

    /// Parent, child and bytes left of each subscription as it was last given.
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

    /// Limits what a parent sends to a child, in bit/s: infinite for no limit, 0 to have it wait.
    pub fn limit(&mut self, parent: usize, child: usize, pace_bps: f64, now_s: f64) {
        let old = self.limit_of(parent, child);
        self.limits.insert((parent, child), pace_bps);
        if old == 0.0 && pace_bps > 0.0 {
            // It could not have grown before.
            self.nodes[child].grew_s = now_s;
            self.settled_s = now_s;
        }
    }

    /// Has every parent wait until a limit for it is told.
    pub fn hold(&mut self) {
        self.unlimited_bps = 0.0;
    }

    fn limit_of(&self, parent: usize, child: usize) -> f64 {
        self.limits.get(&(parent, child)).copied().unwrap_or(self.unlimited_bps)
    }

    /// Whether a child is to wait by a limit from outside, or a host that it depends on.
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

    /// How a host stands.
    pub fn standing(&self, host: usize) -> &Standing {
        &self.nodes[host].standing
    }

    /// What was changed and why, since the last call.
    pub fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Whether every receiver has all, is lost, or never came.
    pub fn is_over(&self) -> bool {
        let over = |standing: &Standing| matches!(standing, Standing::Kept | Standing::Lost(_) | Standing::Absent);
        let done = |&host: &usize| over(&self.nodes[host].standing);
        self.ground.receivers().iter().all(done)
    }

    /// Takes that a host has opened its copy, and what was there.
    pub fn opened(&mut self, host: usize, have: Blocks, bytes: u64, now_s: f64) {
        if self.nodes[host].standing == Standing::Expected {
            self.nodes[host].standing = Standing::Live;
            if let Overlay::Tree(tree) = &mut self.overlay
                && !self.nodes[host].late
            {
                tree.join(host);
            }
        }
        self.progress(host, have, bytes, now_s);
    }

    /// Takes how far a host is.
    pub fn progress(&mut self, host: usize, have: Blocks, bytes: u64, now_s: f64) {
        let node = &mut self.nodes[host];
        if bytes > node.bytes() || node.marks.is_empty() {
            node.grew_s = now_s;
        }
        node.have = have;
        node.marks.push_back((now_s, bytes));
        while node.marks.get(1).is_some_and(|(then_s, _)| now_s - then_s >= WINDOW_S) {
            node.marks.pop_front();
        }
    }

    /// Takes that a host has all of it, under its name.
    pub fn kept(&mut self, host: usize) {
        let count = self.layout.count();
        let node = &mut self.nodes[host];
        if !matches!(node.standing, Standing::Lost(_)) {
            node.standing = Standing::Kept;
            node.have = Blocks::all(count);
        }
    }

    /// Takes that a host is out of it.
    pub fn lost(&mut self, host: usize, why: &str, now_s: f64) {
        let node = &mut self.nodes[host];
        if node.gone {
            return;
        }
        node.gone = true;
        let kept = node.standing == Standing::Kept;
        // Of one that has its whole copy only the help is lost.
        if !kept || host == self.ground.source() {
            node.standing = Standing::Lost(why.to_owned());
            self.log.push(format!("{} is out: {why}", self.name(host)));
        }
        self.given.remove(&host);
        self.adopted.remove(&host);
        if host == self.ground.source() {
            self.left = (0, now_s);
        }
        self.without(host, now_s);
    }

    /// Takes that a host can have nothing more from a parent.
    pub fn broken(&mut self, child: usize, parent: usize, why: &str, now_s: f64) {
        if !self.nodes[child].takes_part() || !self.nodes[parent].takes_part() {
            return;
        }
        self.given.remove(&child);
        let node = &mut self.nodes[child];
        node.grew_s = now_s;
        *node.breaks.entry(parent).or_default() += 1;
        let times = node.breaks[&parent];
        if node.breaks.values().sum::<u32>() > BREAKS {
            let whom: Vec<_> = node.breaks.keys().copied().collect();
            let whom: Vec<_> = whom.into_iter().map(|host| self.name(host).to_owned()).collect();
            let why = format!("it could have nothing from {}: {why}", whom.join(", "));
            self.lost(child, &why, now_s);
            return;
        }
        if times < 2 {
            // Once is no habit: it asks the same parent again.
            return;
        }
        self.avoided.insert((child, parent));
        self.settled_s = now_s;
        let source = self.ground.source();
        let text = format!(
            "{} has nothing more from {}: {why}",
            self.name(child),
            self.name(parent)
        );
        self.log.push(text);
        if self.nodes[child].late {
            if matches!(self.overlay, Overlay::Tree(_)) && self.foster(child).is_none() {
                let why = format!("nobody is left whom it could have it from: {why}");
                self.lost(child, &why, now_s);
            }
        } else if let Overlay::Tree(tree) = &mut self.overlay {
            let moved = parent != tree.order()[0] && tree.demote(parent, &self.avoided);
            if !moved && !tree.demote(child, &self.avoided) {
                let why = format!("nobody is left whom it could have it from: {why}");
                self.lost(child, &why, now_s);
            }
        } else if parent == source {
            self.reassign(child);
        }
    }

    fn name(&self, host: usize) -> &str {
        &self.ground.network().hosts()[host].name
    }
}
