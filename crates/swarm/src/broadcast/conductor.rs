//! Who has which blocks from whom while a broadcast runs: changed around hosts that die, fall silent or fall behind.
//!
//! The controller tells what it hears from the agents, and hands on [`Conductor::changes`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::blocks::Blocks;
use super::cornet::{ANSWER, POLL_S, Random};
use super::ground::Ground;
use super::layout::Layout;
use super::mechanism::Mechanism;
use super::mesh::Shares;
use super::tree::Tree;

/// A host to which nothing comes for so long, though its parent has more, is cut off from it.
const STALL_S: f64 = 2.0;
/// One that chooses its peers itself is cut off from all after so long.
const ALONE_S: f64 = 30.0;
/// Rates are judged over so long.
const WINDOW_S: f64 = 1.5;
/// A host is slow when it gets less than this share of what its parent gets or should send.
const SLOW: f64 = 0.6;
/// And falls behind when it would take so long to catch up.
const BEHIND_S: f64 = 1.0;
/// After a change, rates are left alone for so long.
const SETTLE_S: f64 = 2.0;
/// So many broken subscriptions, and a host cannot be reached.
const BREAKS: u32 = 4;
/// How long blocks may still arrive after the source has died.
const LAST_WORDS_S: f64 = 2.0;
/// Flows may be this much faster than they need be: what one loses in a stall it can catch up with.
const HEADROOM: f64 = 1.02;
/// The root of a tree sends no faster than its edge should carry. What it sends too much overflows a queue, and each host that
/// then waits for what was lost lets its own uplink idle.
const ROOT_HEADROOM: f64 = 1.0;
/// Paces that change by less are left.
const PACE_CHANGE: f64 = 0.02;

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
enum Plan {
    Tree(Tree),
    /// Who passes on each block, and what each host may send in all, in bit/s.
    Mesh(Vec<usize>, f64),
    /// Receivers fetch from peers of their own partition, by host, that the tracker names.
    Cornet(Vec<usize>),
}

/// One broadcast under way.
#[derive(Clone, Debug)]
pub struct Conductor {
    ground: Ground,
    layout: Layout,
    plan: Plan,
    nodes: Vec<Node>,
    given: BTreeMap<usize, Vec<Feed>>,
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
    /// By host: when the tracker answers it next.
    polls_s: Vec<f64>,
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
        let plan = if mechanism.is_cornet() {
            Plan::Cornet(partitions)
        } else if let Some(shape) = mechanism.shape() {
            Plan::Tree(Tree::new(shape, &ground, bytes, piece_bytes))
        } else {
            let shares = Shares::new(&ground, bytes);
            Plan::Mesh(shares.assign(layout.count()), shares.seconds)
        };
        let node = Node {
            standing: Standing::Expected,
            have: Blocks::none(layout.count()),
            marks: VecDeque::new(),
            grew_s: 0.0,
            demoted: false,
            gone: false,
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
            plan,
            nodes,
            given: BTreeMap::new(),
            carries: (None, BTreeMap::new()),
            limits: BTreeMap::new(),
            unlimited_bps: f64::INFINITY,
            avoided: BTreeSet::new(),
            expected_bytes_per_s,
            settled_s: 0.0,
            left: (0, 0.0),
            random: Random::new(seed),
            polls_s: vec![0.0; ground_hosts],
            log: Vec::new(),
        }
    }

    /// Who gives to whom as the plan stands: parent and child. Of a mesh, none.
    pub fn edges(&self) -> Vec<(usize, usize)> {
        match &self.plan {
            Plan::Tree(tree) => tree.edges().collect(),
            Plan::Mesh(..) | Plan::Cornet(..) => Vec::new(),
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
            let Some([feed]) = self.given.get(&child).map(Vec::as_slice) else {
                return false;
            };
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

    /// Whether every receiver has all or is lost.
    pub fn is_over(&self) -> bool {
        let done = |&host: &usize| matches!(self.nodes[host].standing, Standing::Kept | Standing::Lost(_));
        self.ground.receivers().iter().all(done)
    }

    /// Takes that a host has opened its copy, and what was there.
    pub fn opened(&mut self, host: usize, have: Blocks, bytes: u64, now_s: f64) {
        if self.nodes[host].standing == Standing::Expected {
            self.nodes[host].standing = Standing::Live;
            if let Plan::Tree(tree) = &mut self.plan {
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
        if let Plan::Tree(tree) = &mut self.plan {
            let moved = parent != tree.order()[0] && tree.demote(parent, &self.avoided);
            if !moved && !tree.demote(child, &self.avoided) {
                let why = format!("nobody is left whom it could have it from: {why}");
                self.lost(child, &why, now_s);
            }
        } else if parent == source {
            self.reassign(child);
        }
    }

    /// Looks for hosts that stand still or fall behind.
    pub fn tick(&mut self, now_s: f64) {
        self.bereaved(now_s);
        let hosts: Vec<usize> = self.ground.receivers().to_vec();
        for &host in &hosts {
            if self.nodes[host].standing != Standing::Live {
                continue;
            }
            if matches!(self.plan, Plan::Cornet(_)) && now_s - self.nodes[host].grew_s > ALONE_S {
                self.lost(host, &format!("no peer gave it anything for {ALONE_S} s"), now_s);
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
            let [parent] = fed[..] else { continue };
            if self.nodes[parent].bytes() <= self.nodes[host].bytes() {
                // It waits for what its parent lacks itself, as after a block that came wrong.
                self.nodes[host].grew_s = now_s;
            } else if now_s - self.nodes[host].grew_s > STALL_S
                && now_s - self.nodes[parent].grew_s.max(self.settled_s) > 0.0
            {
                self.broken(host, parent, &format!("nothing came for {STALL_S} s"), now_s);
            }
        }
        if now_s - self.settled_s > SETTLE_S {
            self.demote_slow(now_s);
        }
    }

    /// What has changed since the last call: hosts, and from whom each is to have what.
    pub fn changes(&mut self) -> Vec<(usize, Vec<Feed>)> {
        let mut changes = Vec::new();
        if let Plan::Tree(tree) = &self.plan
            && self.carries.0.as_ref() != Some(tree)
        {
            self.carries = (Some(tree.clone()), tree.carries(&self.ground));
        }
        for host in self.ground.receivers().to_vec() {
            if self.nodes[host].standing != Standing::Live {
                continue;
            }
            let mut feeds = self.feeds(host);
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

    /// The tracker's answers that are due: hosts, and some random peers of each with what they have.
    pub fn answers(&mut self, now_s: f64) -> Vec<(usize, Vec<(usize, Blocks)>)> {
        let Plan::Cornet(partitions) = &self.plan else {
            return Vec::new();
        };
        let partition = |host: usize| partitions.get(host).copied().unwrap_or(0);
        let mut answers = Vec::new();
        for host in self.ground.receivers().to_vec() {
            if self.nodes[host].standing != Standing::Live || now_s < self.polls_s[host] {
                continue;
            }
            // Who has nothing yet is no source.
            let known: Vec<usize> = (self.ground.members())
                .filter(|&peer| peer != host && self.nodes[peer].takes_part() && !self.nodes[peer].have.is_empty())
                .filter(|&peer| peer == self.ground.source() || self.alone(host, peer, &partition))
                .collect();
            let chosen = self.random.some(known, ANSWER);
            answers.push((
                host,
                chosen
                    .into_iter()
                    .map(|peer| (peer, self.nodes[peer].have.clone()))
                    .collect(),
            ));
            self.polls_s[host] = now_s + self.random.within(POLL_S);
        }
        answers
    }

    /// Whether a host may have blocks from a peer: of its own partition, or of any when the source is no more.
    fn alone(&self, host: usize, peer: usize, partition: &impl Fn(usize) -> usize) -> bool {
        partition(host) == partition(peer) || !self.nodes[self.ground.source()].takes_part()
    }

    /// Whether feeds differ at most in what is had meanwhile.
    fn alike(&self, host: usize, given: &[Feed], feeds: &[Feed]) -> bool {
        let lacking = Blocks::all(self.layout.count()).without(&self.nodes[host].have);
        let left = |feeds: &[Feed]| -> Vec<(usize, Blocks)> {
            let left = feeds.iter().map(|feed| (feed.parent, feed.blocks.within(&lacking)));
            left.filter(|(_, blocks)| !blocks.is_empty()).collect()
        };
        let paced = given.iter().zip(feeds).all(|(given, feed)| {
            let (old, new) = (given.pace_bps, feed.pace_bps);
            old.total_cmp(&new).is_eq() || (new > 0.0 && (new - old).abs() <= PACE_CHANGE * old)
        });
        left(given) == left(feeds) && (paced || !self.limited(host, feeds))
    }

    /// Whether paces of a host come from outside. Of the planned ones, nobody need hear what changes as blocks arrive.
    fn limited(&self, host: usize, feeds: &[Feed]) -> bool {
        let limit = |feed: &Feed| self.limits.contains_key(&(feed.parent, host));
        feeds.iter().any(limit)
    }

    fn name(&self, host: usize) -> &str {
        &self.ground.network().hosts()[host].name
    }

    /// Where a host is to have its blocks from.
    fn feeds(&self, host: usize) -> Vec<Feed> {
        let lacking = Blocks::all(self.layout.count()).without(&self.nodes[host].have);
        match &self.plan {
            Plan::Tree(tree) => tree
                .parent(host)
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
            Plan::Cornet(_) => Vec::new(),
            Plan::Mesh(helpers, seconds) => {
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
                // By all that a parent is to give in that time: by what is left, the last blocks would come ever more slowly.
                let pace = |bytes: u64| {
                    if *seconds > 0.0 {
                        HEADROOM * 8.0 * bytes as f64 / seconds
                    } else {
                        f64::INFINITY
                    }
                };
                let feed = |(parent, (blocks, bytes)): (usize, (Blocks, u64))| Feed {
                    parent,
                    pace_bps: pace(bytes),
                    blocks,
                };
                let wanted = by_parent.into_iter().filter(|(_, (blocks, _))| !blocks.is_empty());
                wanted.map(feed).collect()
            }
        }
    }

    /// Goes on without a host's help.
    fn without(&mut self, host: usize, now_s: f64) {
        self.settled_s = now_s;
        match &mut self.plan {
            // Who takes the root's place depends on what the others have.
            Plan::Tree(tree) if tree.order()[0] == host => {}
            Plan::Tree(tree) => tree.remove(host),
            Plan::Mesh(..) => self.reassign(host),
            Plan::Cornet(_) => {}
        }
    }

    /// Whatever a host of a mesh should have passed on, others now do: those that have it, each as much.
    fn reassign(&mut self, host: usize) {
        let source = self.ground.source();
        let able = |&other: &usize| {
            other != host && self.nodes[other].takes_part() && !self.avoided.contains(&(other, source))
        };
        let live: Vec<usize> = self.ground.receivers().iter().copied().filter(able).collect();
        let Plan::Mesh(helpers, seconds) = &mut self.plan else {
            return;
        };
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
        // Paces were for its help; now there is a rest to be made up for.
        *seconds = 0.0;
    }

    /// What becomes of a broadcast whose source has died: the others go on if they have all blocks among them.
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
                let why = format!("{missing} of {count} blocks went with {}", self.name(source));
                for host in live
                    .into_iter()
                    .filter(|&host| self.nodes[host].standing == Standing::Live)
                    .collect::<Vec<_>>()
                {
                    self.lost(host, &why, now_s);
                }
            }
            return;
        }
        let Plan::Tree(tree) = &mut self.plan else {
            return;
        };
        let root = tree.order()[0];
        if !self.nodes[root].gone {
            return;
        }
        if let Some(&heir) = live.iter().find(|&&host| self.nodes[host].have.is_full()) {
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
            self.plan = Plan::Mesh((0..count).map(holder).collect(), 0.0);
        }
        self.settled_s = now_s;
        let text = format!("goes on without {}: the others have it all among them", self.name(root));
        self.log.push(text);
    }

    /// Puts a host that holds others up where nobody depends on it.
    fn demote_slow(&mut self, now_s: f64) {
        let Plan::Tree(tree) = &self.plan else { return };
        let root = tree.order()[0];
        for (parent, child) in tree.edges().collect::<Vec<_>>() {
            let (above, below) = (&self.nodes[parent], &self.nodes[child]);
            if below.standing != Standing::Live || !above.takes_part() || self.held(child) {
                continue;
            }
            let Some(gets) = below.rate() else { continue };
            let whole = above.have.is_full();
            let should = if whole {
                Some(self.expected_bytes_per_s)
            } else {
                above.rate()
            };
            let should = should.map(|should| should.min(self.limit_of(parent, child) / 8.0));
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
                self.plan = Plan::Tree(changed);
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
