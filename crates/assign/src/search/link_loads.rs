//! The load of every link while units move, and the link that takes longest.

use gavotte_net::{Bandwidth, Bytes, Link, Sharing};

use crate::packing::units_on_hosts::{NOWHERE, Packing};
use crate::problem::Problem;
use crate::problem::completion::seconds;
use crate::problem::units::{Half, Units};
use crate::search::link_sum::LinkSum;
use crate::search::max_tree::MaxTree;

/// Weight of the tail, the root mean square of all links' times, relative to the longest time.
///
/// Most moves leave the longest link as it is; the tail shows which of them ease the others.
const TAIL: f64 = 0.1;

/// Up to this many links times phases, each query searches for the slowest link. That costs less than keeping it up to
/// date.
const FEW_LINKS: usize = 2048;

/// The largest factor on the cost of a placement whose price is too high.
const DEAR: f64 = 5.0;

/// The links that can ever decide the completion time.
///
/// They have slots of their own: of a million pairs of hosts, often only a few are ever the slowest link.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// The slot of each link by `Network::link_index`; `NO_SLOT` if another link is always slower, or if it has no
    /// limit.
    slots: Vec<u32>,
    /// For each source host, whether any of its pairs has a slot.
    paired: Vec<bool>,
    /// The physical machine of each host.
    machines: Vec<usize>,
    /// The link of each slot.
    links: Vec<usize>,
    /// Rate of each slot in bit/s.
    bps: Vec<f64>,
    /// For each phase, bytes of other applications on each slot; empty if there are none.
    base: Vec<Vec<u64>>,
    /// The number of links that may decide, all phases together.
    count: f64,
}

const NO_SLOT: u32 = u32::MAX;

impl Rates {
    pub(crate) fn new(problem: &Problem) -> Self {
        let (network, hosts) = (&problem.network, problem.capacity.len());
        let (first_pair, count) = (network.first_pair(), network.link_count());
        // Pairs come first: of equally slow links, the first counts as the worst.
        let links: Vec<usize> = (first_pair..count)
            .chain(0..first_pair)
            .filter(|&link| network.decides(network.link(link)))
            .collect();
        let mut slots = vec![NO_SLOT; count];
        for (slot, &link) in links.iter().enumerate() {
            slots[link] = slot as u32;
        }
        let mut base = vec![Vec::new(); problem.phases.len()];
        for &(phase, link, bytes) in &problem.base {
            if slots[link] != NO_SLOT {
                let row: &mut Vec<u64> = &mut base[phase];
                row.resize(links.len(), 0);
                row[slots[link] as usize] = bytes;
            }
        }
        let mut paired = vec![false; hosts];
        for &link in &links {
            if let Link::Pair { source, .. } = network.link(link) {
                paired[source] = true;
            }
        }
        Self {
            paired,
            machines: network.hosts().iter().map(|host| host.machine).collect(),
            bps: links
                .iter()
                .map(|&link| network.rate(network.link(link)).bps())
                .collect(),
            count: (links.len() * problem.phases.len()).max(1) as f64,
            base,
            links,
            slots,
        }
    }
}

/// Bytes and times of all links in all phases.
#[derive(Clone, Debug)]
pub(crate) struct Loads<'a> {
    problem: &'a Problem,
    rates: &'a Rates,
    units: &'a Units,
    /// The host of each unit that the loads reflect; the packing may already have moved the unit.
    at: Vec<usize>,
    phases: Vec<(Vec<u64>, MaxTree)>,
    squares: f64,
    /// The entries that `add` has changed since `mark`: phase, slot, and the bytes and time before.
    changed: Vec<(u32, u32, u64, f64)>,
    squares_before: f64,
    /// The time or excess at which `follow_below` stops, and whether it has.
    limit: f64,
    exceeded: bool,
    /// The cost, if it is not the default one.
    sum: Option<LinkSum>,
    /// Whether links are so few that only the leaves of `phases` are kept up to date.
    few: bool,
    /// Units on each host, and the cost of hosts and bytes; counted only if the price has a limit.
    used: Vec<u32>,
    price: f64,
}

impl<'a> Loads<'a> {
    /// The loads of a packing, in which some units may have no host yet.
    pub(crate) fn new(rates: &'a Rates, packing: &Packing<'a>) -> Self {
        let links = rates.bps.len();
        let empty = (vec![0; links], MaxTree::new(links));
        let problem = packing.problem;
        let mut loads = Self {
            problem,
            rates,
            units: packing.units,
            at: packing.hosts().to_vec(),
            phases: vec![empty; problem.phases.len()],
            squares: 0.0,
            changed: Vec::new(),
            squares_before: 0.0,
            limit: f64::INFINITY,
            exceeded: false,
            sum: None,
            few: links * problem.phases.len() <= FEW_LINKS,
            used: vec![0; problem.capacity.len()],
            price: 0.0,
        };
        if let Some(max_price) = &problem.rules.max_price {
            for &host in packing.hosts().iter().filter(|&&host| host != NOWHERE) {
                loads.price += if loads.used[host] == 0 {
                    max_price.host[host]
                } else {
                    0.0
                };
                loads.used[host] += 1;
            }
        }
        for edge in &packing.units.edges {
            let (m, n) = (packing.host_of(edge.source), packing.host_of(edge.target));
            if m != NOWHERE && n != NOWHERE {
                loads.price += loads.bytes_price(m, n, edge.bytes);
                loads.shift::<true>(edge.phase, m, n, edge.bytes);
            }
        }
        loads
    }

    /// The completion time in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        let links = self.rates.links.len();
        let longest = |tree: &MaxTree| if self.few { tree.scan(links) } else { tree.max() };
        self.phases.iter().fold(0.0, |sum, (_, tree)| sum + longest(tree))
    }

    /// The value that a search minimizes: the completion time plus a small share of the times of all other links.
    ///
    /// While the price is too high, the cost counts up to `DEAR` times as much, so that the search moves towards lower
    /// prices.
    pub(crate) fn cost(&self) -> f64 {
        let cost = match &self.sum {
            Some(sum) => sum.value(),
            None => self.seconds() + self.tail(),
        };
        match &self.problem.rules.max_price {
            Some(max_price) if self.too_dear() => {
                (cost + f64::MIN_POSITIVE) * (1.0 + (DEAR - 1.0) * (self.price - max_price.most) / self.price)
            }
            _ => cost,
        }
    }

    fn tail(&self) -> f64 {
        TAIL * (self.squares.max(0.0) / self.rates.count).sqrt()
    }

    /// Whether the price of hosts and bytes exceeds its limit.
    pub(crate) fn too_dear(&self) -> bool {
        let max_price = self.problem.rules.max_price.as_ref();
        max_price.is_some_and(|max_price| max_price.exceeded_by(self.price))
    }

    fn bytes_price(&self, m: usize, n: usize, bytes: u64) -> f64 {
        let max_price = self.problem.rules.max_price.as_ref();
        let hosts = self.problem.capacity.len();
        max_price.map_or(0.0, |max_price| {
            if m == n {
                0.0
            } else {
                max_price.per_byte[m * hosts + n] * bytes as f64
            }
        })
    }

    /// Updates the price for a unit that moves from one host to another.
    fn pay(&mut self, unit: usize, from: usize, to: usize) {
        let Some(max_price) = &self.problem.rules.max_price else {
            return;
        };
        if from != NOWHERE {
            self.used[from] -= 1;
            self.price -= if self.used[from] == 0 {
                max_price.host[from]
            } else {
                0.0
            };
        }
        if to != NOWHERE {
            self.price += if self.used[to] == 0 { max_price.host[to] } else { 0.0 };
            self.used[to] += 1;
        }
        let units = self.units;
        for half in units.halves[unit].iter().filter(|half| self.at[half.other] != NOWHERE) {
            let other_host = self.at[half.other];
            let price = |host| {
                let (m, n) = if half.sends {
                    (host, other_host)
                } else {
                    (other_host, host)
                };
                if host == NOWHERE {
                    0.0
                } else {
                    self.bytes_price(m, n, half.bytes)
                }
            };
            let change = price(to) - price(from);
            self.price += change;
        }
    }

    /// The longest time of a phase, and its link, if any link may decide.
    pub(crate) fn worst(&self, phase: usize) -> (f64, Option<Link>) {
        let (tree, count) = (&self.phases[phase].1, self.rates.links.len());
        let (seconds, slot) = if self.few {
            let longest = tree.scan(count);
            (longest, (0..count).find(|&slot| tree.get(slot) >= longest))
        } else {
            (tree.max(), Some(tree.argmax()))
        };
        let link = slot.and_then(|slot| self.rates.links.get(slot));
        (seconds, link.map(|&link| self.problem.network.link(link)))
    }

    /// The longest time of a host's caps in any phase; 0 if no cap of it may decide.
    pub(crate) fn host_s(&self, host: usize) -> f64 {
        let caps = [Link::Egress(host), Link::Ingress(host)];
        let slots = caps.map(|cap| self.rates.slots[self.problem.network.link_index(cap)]);
        let rated = slots.into_iter().filter(|&slot| slot != NO_SLOT);
        rated
            .flat_map(|slot| self.phases.iter().map(move |(_, tree)| tree.get(slot as usize)))
            .fold(0.0, f64::max)
    }

    /// From now on, changes can be undone.
    pub(crate) fn mark(&mut self) {
        self.changed.clear();
        self.squares_before = self.squares;
        if let Some(sum) = &mut self.sum {
            sum.mark();
        }
    }

    /// Updates `seconds` and `worst`, which stay at their old values while the cost is steep.
    pub(crate) fn mend(&mut self) {
        self.phases.iter_mut().for_each(|(_, tree)| tree.mend());
    }

    /// From now on, `cost` is the sum of the shares by which links exceed `goal_s`.
    pub(crate) fn aim(&mut self, goal_s: f64) {
        self.sum = Some(LinkSum::excess(goal_s, &self.times()));
    }

    /// From now on, `cost` is the sum of a power of all links' times; with power 0, it is the default cost again.
    pub(crate) fn steepen(&mut self, power: i32) {
        self.sum = None;
        self.mend();
        if power > 0 && self.seconds() > 0.0 {
            self.sum = Some(LinkSum::steep(power, &self.times()));
        }
    }

    /// The times of all links, for each phase.
    fn times(&self) -> Vec<&[f64]> {
        let count = self.rates.links.len();
        self.phases.iter().map(|(_, tree)| tree.first(count)).collect()
    }

    /// Whether only the leaves of `phases` are kept up to date.
    fn lazy(&self) -> bool {
        self.few || self.sum.as_ref().is_some_and(LinkSum::is_steep)
    }

    /// The longest time of the links that changed since `mark`; `None` unless one of them took at least `seconds` before.
    pub(crate) fn longest_changed(&self, seconds: f64) -> Option<f64> {
        let mut longest = 0.0_f64;
        let mut slowest_changed = false;
        for &(phase, slot, _, before) in &self.changed {
            slowest_changed |= before >= seconds;
            longest = longest.max(self.phases[phase as usize].1.get(slot as usize));
        }
        slowest_changed.then_some(longest)
    }

    /// Undoes all changes since `mark`, where `moves` took units off the hosts in `before`.
    pub(crate) fn take_back(&mut self, moves: &[(usize, usize)], before: &[usize]) {
        if self.problem.rules.max_price.is_some() {
            for (&(unit, _), &from) in moves.iter().zip(before) {
                self.follow(unit, from);
            }
            return;
        }
        for (&(unit, _), &from) in moves.iter().zip(before) {
            self.at[unit] = from;
        }
        let lazy = self.lazy();
        while let Some((phase, slot, bytes, seconds)) = self.changed.pop() {
            let (own, tree) = &mut self.phases[phase as usize];
            own[slot as usize] = bytes;
            if lazy {
                tree.set_leaf(slot as usize, seconds);
            } else {
                tree.set(slot as usize, seconds);
            }
        }
        self.squares = self.squares_before;
        if let Some(sum) = &mut self.sum {
            sum.undo();
        }
    }

    /// Moves all bytes that units exchange to their new hosts, or stops as soon as the cost must exceed `most`. Returns
    /// whether it has moved all; if not, only `take_back` may follow.
    ///
    /// Most proposals fail, and most of those slow down one of the first links that they reach.
    pub(crate) fn follow_below(&mut self, moves: &[(usize, usize)], most: f64) -> bool {
        let hose = self.problem.network.sharing() == Sharing::Hose;
        let steep = self.sum.as_ref().is_some_and(LinkSum::is_steep);
        if hose || steep || self.problem.rules.max_price.is_some() {
            for &(unit, to) in moves {
                self.follow(unit, to);
            }
            return true;
        }
        // Once all units are off their hosts, loads only grow.
        for &(unit, _) in moves {
            self.follow(unit, NOWHERE);
        }
        let tail = if self.sum.is_some() { 0.0 } else { self.tail() };
        (self.limit, self.exceeded) = (most - tail, false);
        for &(unit, to) in moves {
            self.follow(unit, to);
            if self.exceeded {
                break;
            }
        }
        self.limit = f64::INFINITY;
        !std::mem::take(&mut self.exceeded)
    }

    /// Moves all bytes that `unit` exchanges to its new host.
    pub(crate) fn follow(&mut self, unit: usize, to: usize) {
        let from = std::mem::replace(&mut self.at[unit], to);
        self.pay(unit, from, to);
        if self.problem.network.sharing() == Sharing::Hose {
            self.follow_hose(unit, from, to);
            return;
        }
        let units = self.units;
        for &Half {
            other,
            bytes,
            phase,
            sends,
        } in &units.halves[unit]
        {
            let other_host = self.at[other];
            if other_host == NOWHERE {
                continue;
            }
            let way = |host| if sends { (host, other_host) } else { (other_host, host) };
            if from != NOWHERE {
                let (m, n) = way(from);
                self.shift::<false>(phase, m, n, bytes);
            }
            if to != NOWHERE {
                let (m, n) = way(to);
                self.shift::<true>(phase, m, n, bytes);
                if self.exceeded {
                    return;
                }
            }
        }
    }

    /// Like `follow`. The bytes that a partner elsewhere sends or receives stay the same, so only the caps of both ends
    /// change.
    fn follow_hose(&mut self, unit: usize, from: usize, to: usize) {
        let (units, rates, hosts) = (self.units, self.rates, self.problem.capacity.len());
        let far = |host: usize, there: usize| host != NOWHERE && rates.machines[host] != rates.machines[there];
        let (egress, ingress) = (0, hosts);
        for halves in units.halves[unit].chunk_by(|one, next| one.phase == next.phase) {
            let phase = halves[0].phase;
            // Bytes removed from `from` and added to `to`, sent and received.
            let mut moved = [[0_u64; 2]; 2];
            for half in halves {
                let other_host = self.at[half.other];
                if other_host == NOWHERE {
                    continue;
                }
                let (leaves, enters) = (far(from, other_host), far(to, other_host));
                let way = usize::from(half.sends);
                moved[0][way] += if leaves { half.bytes } else { 0 };
                moved[1][way] += if enters { half.bytes } else { 0 };
                let cap = other_host + if half.sends { ingress } else { egress };
                match (leaves, enters) {
                    (true, false) => self.add::<false>(phase, cap, half.bytes),
                    (false, true) => self.add::<true>(phase, cap, half.bytes),
                    _ => {}
                }
                let pair = |host| {
                    if half.sends {
                        (host, other_host)
                    } else {
                        (other_host, host)
                    }
                };
                if from != NOWHERE && from != other_host {
                    self.add_pair::<false>(phase, pair(from), half.bytes);
                }
                if to != NOWHERE && to != other_host {
                    self.add_pair::<true>(phase, pair(to), half.bytes);
                }
            }
            for (way, cap) in [ingress, egress].into_iter().enumerate() {
                if moved[0][way] > 0 {
                    self.add::<false>(phase, cap + from, moved[0][way]);
                }
                if moved[1][way] > 0 {
                    self.add::<true>(phase, cap + to, moved[1][way]);
                }
            }
        }
    }

    fn add_pair<const ADD: bool>(&mut self, phase: usize, (m, n): (usize, usize), bytes: u64) {
        if self.rates.paired[m]
            && let Some(pair) = self.problem.network.pair_index(m, n)
        {
            self.add::<ADD>(phase, pair, bytes);
        }
    }

    fn shift<const ADD: bool>(&mut self, phase: usize, m: usize, n: usize, bytes: u64) {
        if m == n {
            return;
        }
        self.add_pair::<ADD>(phase, (m, n), bytes);
        let network = &self.problem.network;
        if !network.capped(m, n) {
            return;
        }
        let mut add = |link| self.add::<ADD>(phase, network.link_index(link), bytes);
        add(Link::Egress(m));
        add(Link::Ingress(n));
        if network.sharing() == Sharing::Groups {
            network.left(m, n).for_each(|group| add(Link::Up(group)));
            network.left(n, m).for_each(|group| add(Link::Down(group)));
        }
    }

    fn add<const ADD: bool>(&mut self, phase: usize, link: usize, bytes: u64) {
        let slot = self.rates.slots[link];
        if slot == NO_SLOT {
            return;
        }
        let (slot, lazy) = (slot as usize, self.lazy());
        let (own, tree) = &mut self.phases[phase];
        let then = own[slot];
        let now = if ADD { then + bytes } else { then - bytes };
        own[slot] = now;
        let base = self.rates.base[phase].get(slot).copied().unwrap_or(0);
        let seconds = waiting_s(now, base, self.rates.bps[slot]);
        let before = tree.get(slot);
        if lazy {
            tree.set_leaf(slot, seconds);
        } else {
            tree.set(slot, seconds);
        }
        self.changed.push((phase as u32, slot as u32, then, before));
        self.squares += seconds * seconds - before * before;
        let reached = match &mut self.sum {
            Some(sum) => {
                sum.change(phase, before, seconds);
                sum.value()
            }
            None => seconds,
        };
        self.exceeded |= ADD && reached > self.limit;
    }
}

/// Time as [`Problem::evaluate`] counts it: other applications' bytes count only on links that our transfers use.
fn waiting_s(own: u64, base: u64, rate_bps: f64) -> f64 {
    if own == 0 {
        0.0
    } else {
        seconds(Bytes(own + base), Bandwidth(rate_bps))
    }
}
