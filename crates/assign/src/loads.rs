//! What every link carries while units move about, and which link takes longest.

use crate::completion::seconds;
use crate::links::Link;
use crate::packing::{NOWHERE, Packing};
use crate::problem::{Problem, Sharing};
use crate::tree::MaxTree;
use crate::units::{Half, Units};

/// Weight of the tail, the root mean square of all links' times, beside the longest time.
///
/// Most moves leave the longest link as it is; the tail tells which of them ease the others.
const TAIL: f64 = 0.1;

/// How much more a placement counts, at most, whose price is too high.
const DEAR: f64 = 5.0;

/// The links that can ever decide the completion time.
///
/// They have slots of their own: of a million pairs of hosts, often only a few are ever the slowest link.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// The slot of each link by [`Problem::link_index`]; `NO_SLOT` where another link is always slower, or none is.
    slots: Vec<u32>,
    /// Whether any pair of hosts, by its source, has a slot.
    paired: Vec<bool>,
    /// The physical machine of each host.
    machines: Vec<usize>,
    /// The link of each slot.
    links: Vec<usize>,
    /// Rate of each slot in bit/s.
    bps: Vec<f64>,
    /// For each phase, bytes that others have on each slot; empty where nobody has any.
    base: Vec<Vec<u64>>,
    /// How many links there are that may decide, all phases together.
    count: f64,
}

const NO_SLOT: u32 = u32::MAX;

impl Rates {
    pub(crate) fn new(problem: &Problem) -> Self {
        let hosts = problem.hosts.len();
        let mut bps = vec![f64::INFINITY; problem.link_count()];
        let mut put = |link: Link| bps[problem.link_index(link)] = problem.rate_bps(link);
        for source in 0..hosts {
            for target in (0..hosts).filter(|&target| target != source) {
                // All that is on the pair is also on both caps, so a pair as fast as either never decides.
                let capped = problem.sharing != Sharing::Pipe && !problem.colocated(source, target);
                let cap = problem.hosts[source].egress_bps.min(problem.hosts[target].ingress_bps);
                if !capped || problem.pair_bps(source, target) < cap {
                    put(Link::Pair { source, target });
                }
            }
        }
        if problem.sharing != Sharing::Pipe {
            (0..hosts).for_each(|host| put(Link::Egress(host)));
            (0..hosts).for_each(|host| put(Link::Ingress(host)));
        }
        if problem.sharing == Sharing::Groups {
            (0..problem.groups.len()).for_each(|group| put(Link::Up(group)));
            (0..problem.groups.len()).for_each(|group| put(Link::Down(group)));
        }
        let links: Vec<usize> = (0..bps.len()).filter(|&link| bps[link].is_finite()).collect();
        let mut slots = vec![NO_SLOT; bps.len()];
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
        let paired = slots[..hosts * hosts].chunks(hosts.max(1));
        Self {
            paired: paired.map(|row| row.iter().any(|&slot| slot != NO_SLOT)).collect(),
            machines: problem.hosts.iter().map(|host| host.machine).collect(),
            bps: links.iter().map(|&link| bps[link]).collect(),
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
    /// Where each unit is, for the loads; its packing may be ahead of it.
    at: Vec<usize>,
    phases: Vec<(Vec<u64>, MaxTree)>,
    squares: f64,
    /// Units on each host, and what hosts and bytes cost; counted only where the price has a bound.
    used: Vec<u32>,
    price: f64,
}

impl<'a> Loads<'a> {
    /// Of a packing, in which units may still be nowhere.
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
            used: vec![0; problem.hosts.len()],
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
        self.phases.iter().fold(0.0, |sum, (_, tree)| sum + tree.max())
    }

    /// What a search makes small: the completion time, and a little of all other links' times.
    ///
    /// While the price is too high it counts up to `DEAR` times as much, so that the search finds its way below.
    pub(crate) fn cost(&self) -> f64 {
        let cost = self.seconds() + TAIL * (self.squares.max(0.0) / self.rates.count).sqrt();
        match &self.problem.rules.max_price {
            Some(max_price) if self.too_dear() => {
                (cost + f64::MIN_POSITIVE) * (1.0 + (DEAR - 1.0) * (self.price - max_price.most) / self.price)
            }
            _ => cost,
        }
    }

    /// Whether hosts and bytes cost more than they may.
    pub(crate) fn too_dear(&self) -> bool {
        let max_price = self.problem.rules.max_price.as_ref();
        max_price.is_some_and(|max_price| max_price.exceeded_by(self.price))
    }

    fn bytes_price(&self, m: usize, n: usize, bytes: u64) -> f64 {
        let max_price = self.problem.rules.max_price.as_ref();
        let hosts = self.problem.hosts.len();
        max_price.map_or(0.0, |max_price| {
            if m == n {
                0.0
            } else {
                max_price.per_byte[m * hosts + n] * bytes as f64
            }
        })
    }

    /// Counts the price of a unit that goes from one host to another.
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
            let there = self.at[half.other];
            let price = |host| {
                let (m, n) = if half.sends { (host, there) } else { (there, host) };
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

    /// The longest time of a phase, and one link that takes it, by [`Problem::link_index`].
    pub(crate) fn worst(&self, phase: usize) -> (f64, usize) {
        let tree = &self.phases[phase].1;
        (tree.max(), self.rates.links.get(tree.argmax()).copied().unwrap_or(0))
    }

    /// Moves all that `unit` exchanges to where it goes.
    pub(crate) fn follow(&mut self, unit: usize, to: usize) {
        let from = std::mem::replace(&mut self.at[unit], to);
        self.pay(unit, from, to);
        if self.problem.sharing == Sharing::Hose {
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
            let there = self.at[other];
            if there == NOWHERE {
                continue;
            }
            let way = |host| if sends { (host, there) } else { (there, host) };
            if from != NOWHERE {
                let (m, n) = way(from);
                self.shift::<false>(phase, m, n, bytes);
            }
            if to != NOWHERE {
                let (m, n) = way(to);
                self.shift::<true>(phase, m, n, bytes);
            }
        }
    }

    /// As `follow`. What a partner elsewhere sends or receives stays the same, so only both ends' caps are touched.
    fn follow_hose(&mut self, unit: usize, from: usize, to: usize) {
        let (units, rates, hosts) = (self.units, self.rates, self.problem.hosts.len());
        let far = |host: usize, there: usize| host != NOWHERE && rates.machines[host] != rates.machines[there];
        let (egress, ingress) = (hosts * hosts, hosts * hosts + hosts);
        for halves in units.halves[unit].chunk_by(|one, next| one.phase == next.phase) {
            let phase = halves[0].phase;
            // Bytes off `from` and onto `to`, sent and received.
            let mut moved = [[0_u64; 2]; 2];
            for half in halves {
                let there = self.at[half.other];
                if there == NOWHERE {
                    continue;
                }
                let (leaves, enters) = (far(from, there), far(to, there));
                let way = usize::from(half.sends);
                moved[0][way] += if leaves { half.bytes } else { 0 };
                moved[1][way] += if enters { half.bytes } else { 0 };
                let cap = there + if half.sends { ingress } else { egress };
                match (leaves, enters) {
                    (true, false) => self.add::<false>(phase, cap, half.bytes),
                    (false, true) => self.add::<true>(phase, cap, half.bytes),
                    _ => {}
                }
                let pair = |host| if half.sends { (host, there) } else { (there, host) };
                if from != NOWHERE && from != there {
                    self.add_pair::<false>(phase, pair(from), half.bytes);
                }
                if to != NOWHERE && to != there {
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
        if self.rates.paired[m] {
            self.add::<ADD>(phase, m * self.problem.hosts.len() + n, bytes);
        }
    }

    fn shift<const ADD: bool>(&mut self, phase: usize, m: usize, n: usize, bytes: u64) {
        if m == n {
            return;
        }
        let hosts = self.problem.hosts.len();
        self.add_pair::<ADD>(phase, (m, n), bytes);
        if self.problem.sharing == Sharing::Pipe || self.problem.colocated(m, n) {
            return;
        }
        let after_pairs = hosts * hosts;
        self.add::<ADD>(phase, after_pairs + m, bytes);
        self.add::<ADD>(phase, after_pairs + hosts + n, bytes);
        if self.problem.sharing == Sharing::Groups {
            let problem = self.problem;
            let after_hosts = after_pairs + 2 * hosts;
            problem
                .left(m, n)
                .for_each(|g| self.add::<ADD>(phase, after_hosts + g, bytes));
            let after_up = after_hosts + problem.groups.len();
            problem
                .left(n, m)
                .for_each(|g| self.add::<ADD>(phase, after_up + g, bytes));
        }
    }

    fn add<const ADD: bool>(&mut self, phase: usize, link: usize, bytes: u64) {
        let slot = self.rates.slots[link];
        if slot == NO_SLOT {
            return;
        }
        let slot = slot as usize;
        let (own, tree) = &mut self.phases[phase];
        let now = if ADD { own[slot] + bytes } else { own[slot] - bytes };
        own[slot] = now;
        let base = self.rates.base[phase].get(slot).copied().unwrap_or(0);
        let seconds = waiting_s(now, base, self.rates.bps[slot]);
        let before = tree.get(slot);
        self.squares += seconds * seconds - before * before;
        tree.set(slot, seconds);
    }
}

/// As [`Problem::evaluate`] counts: others' bytes where ours have to wait for them, and nowhere else.
fn waiting_s(own: u64, base: u64, rate_bps: f64) -> f64 {
    if own == 0 { 0.0 } else { seconds(own + base, rate_bps) }
}
