//! The ranks of an operation on the hosts of a network: the cost of each message, and the links that messages share.

use std::sync::Arc;

use gavotte_fluid::{LinkId, Platform};
use gavotte_net::{BitsPerSec, Link, Network, NetworkError, NetworkParts, Sharing, Volume};

use crate::costs::Costs;
use crate::error::TreeError;
use crate::shared::Shared;

/// Ranks that exchange messages in memory. The exact value does not matter; it is only much faster than any network.
const LOCAL_ALPHA_S: f64 = 1e-6;
const LOCAL_PER_BYTE_S: f64 = 8.0 / 40e9;

/// Ranks 0 to R - 1, each on a host; several may be on one host.
///
/// If hosts share links, an unknown cap equals the rate of the host's best pair. Otherwise sending to all at the same
/// time would appear free.
#[derive(Clone, Debug)]
pub struct Ranks {
    network: Arc<Network>,
    hosts: Vec<usize>,
    egress: Vec<BitsPerSec>,
    ingress: Vec<BitsPerSec>,
    /// Whether any pair has a rate.
    rated: bool,
    there: Costs,
    back: Costs,
}

impl Ranks {
    /// Puts ranks on hosts.
    ///
    /// # Errors
    ///
    /// If there are no ranks, a host does not exist, or neither a pair's rate nor a cap on its path is known.
    pub fn new(network: Arc<Network>, hosts: Vec<usize>) -> Result<Self, TreeError> {
        let count = network.hosts().len();
        if let Some(&host) = hosts.iter().find(|&&host| host >= count) {
            let why = format!("there is no host {host}");
            return Err(TreeError::NoTree { hosts: count, why });
        }
        let (egress, ingress) = caps(&network);
        let rated = (0..count).any(|m| (0..count).any(|n| m != n && network.known_rate(m, n).is_some()));
        let nothing = Costs::new(1, vec![0.0], vec![0.0])?;
        let mut ranks = Self {
            network,
            egress,
            ingress,
            rated,
            there: nothing.clone(),
            back: nothing,
            hosts,
        };
        ranks.there = ranks.costs_of(false)?;
        ranks.back = ranks.costs_of(true)?;
        Ok(ranks)
    }

    /// Puts ranks on a network like `network`, but with other rates and latencies of the pairs.
    ///
    /// # Errors
    ///
    /// The errors of [`Ranks::new`], and an invalid rate or latency.
    pub fn at(
        network: &Network,
        hosts: Vec<usize>,
        rate_bps: Vec<f64>,
        latency_s: Vec<f64>,
    ) -> Result<Self, TreeError> {
        let parts = NetworkParts {
            hosts: network.hosts().to_vec(),
            groups: network.groups().to_vec(),
            sharing: network.sharing(),
            rate_bps,
            latency_s,
        };
        let fail = |error: NetworkError| TreeError::Network(error.to_string());
        let mut changed = Network::new(parts).map_err(fail)?;
        if !network.bursts().is_empty() {
            changed = changed.with_bursts(network.bursts().to_vec()).map_err(fail)?;
        }
        let network = changed;
        Self::new(Arc::new(network), hosts)
    }

    /// The number of ranks.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// The host of each rank, by its number in the network.
    pub(crate) fn hosts(&self) -> &[usize] {
        &self.hosts
    }

    /// The network of the hosts.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// Appends the links between two hosts.
    pub(crate) fn links(&self, m: usize, n: usize, path: &mut Vec<LinkId>) {
        let add = |link| path.push(LinkId(self.network.link_index(link) as u64));
        self.network.for_each_link(m, n, add);
    }

    /// The cost of single messages; with `back`, of messages from the column to the row.
    pub fn costs(&self, back: bool) -> &Costs {
        if back { &self.back } else { &self.there }
    }

    /// Whether a host's caps limit the sum of what it sends, and of what it receives.
    fn share_caps(&self) -> bool {
        self.network.sharing() != Sharing::Pipe
    }

    /// Seconds of a message between two ranks that exchange it in memory; `None` if it crosses a network.
    pub(crate) fn local_s(&self, source: usize, target: usize, Volume(bytes): Volume) -> Option<f64> {
        let local = self.in_memory(self.hosts[source], self.hosts[target]);
        local.then_some(LOCAL_ALPHA_S + bytes * LOCAL_PER_BYTE_S)
    }

    /// Whether only memory lies between two hosts. That holds within one host. It also holds for virtual machines of
    /// one physical machine if no pair has a rate and only caps on traffic between machines limit.
    fn in_memory(&self, m: usize, n: usize) -> bool {
        let mates = || self.network.colocated(m, n) && !self.rated;
        m == n || (self.share_caps() && mates())
    }

    fn link_rate(&self, link: Link) -> BitsPerSec {
        match link {
            Link::Egress(host) => self.egress[host],
            Link::Ingress(host) => self.ingress[host],
            other => self.network.rate(other),
        }
    }

    /// The hosts of each pair of ranks, row = source; with `back`, of the reverse direction.
    fn pairs(&self, back: bool) -> impl Iterator<Item = (usize, usize)> + '_ {
        let rows = self.hosts.iter();
        rows.flat_map(move |&m| self.hosts.iter().map(move |&n| if back { (n, m) } else { (m, n) }))
    }

    /// The links that several messages may use at the same time.
    pub(crate) fn shared(&self, back: bool, crowded: impl Fn(Link) -> bool) -> Shared {
        let mut shared = Shared::new(self.count());
        for (m, n) in self.pairs(back) {
            shared.begin_pair();
            self.network.for_each_link(m, n, |link| {
                let rate = self.link_rate(link);
                if rate.is_limited() && crowded(link) {
                    shared.add(self.network.link_index(link), rate);
                }
            });
        }
        shared
    }

    fn costs_of(&self, back: bool) -> Result<Costs, TreeError> {
        let count = self.count();
        let (mut alpha_s, mut per_byte_s) = (Vec::new(), Vec::new());
        for (m, n) in self.pairs(back) {
            if self.in_memory(m, n) {
                alpha_s.push(LOCAL_ALPHA_S);
                per_byte_s.push(LOCAL_PER_BYTE_S);
                continue;
            }
            let mut least = BitsPerSec::UNLIMITED;
            self.network
                .for_each_link(m, n, |link| least = least.min(self.link_rate(link)));
            if !least.is_limited() && self.network.known_rate(m, n).is_none() {
                let name = |host: usize| self.network.hosts()[host].name.clone();
                return Err(TreeError::UnknownPair(name(m), name(n)));
            }
            alpha_s.push(self.network.latency_s(m, n).unwrap_or(0.0));
            per_byte_s.push(8.0 / least.bps());
        }
        let mut busy = vec![0_usize; self.network.hosts().len()];
        self.hosts.iter().for_each(|&host| busy[host] += 1);
        let shared = self.shared(back, |link| match link {
            // One rank sends one message at a time, so no link is shared.
            Link::Pair { .. } => false,
            Link::Egress(host) | Link::Ingress(host) => busy[host] > 1,
            Link::Up(_) | Link::Down(_) => true,
        });
        Ok(Costs::new(count, alpha_s, per_byte_s)?.sharing(shared))
    }
}

/// Each host's caps. If caps are shared, an unknown cap is the rate of the host's best pair.
fn caps(network: &Network) -> (Vec<BitsPerSec>, Vec<BitsPerSec>) {
    let hosts = network.hosts();
    let mut egress: Vec<BitsPerSec> = hosts.iter().map(|host| host.egress).collect();
    let mut ingress: Vec<BitsPerSec> = hosts.iter().map(|host| host.ingress).collect();
    for host in 0..hosts.len() {
        let others = || (0..hosts.len()).filter(move |&other| network.capped(host, other));
        let best = |rates: &mut dyn Iterator<Item = Option<BitsPerSec>>| {
            let known = rates.flatten().filter(|rate| rate.is_limited());
            known.max_by(|a, b| a.bps().total_cmp(&b.bps()))
        };
        if !egress[host].is_limited() {
            let highest = best(&mut others().map(|other| network.known_rate(host, other)));
            egress[host] = highest.unwrap_or(BitsPerSec::UNLIMITED);
        }
        if !ingress[host].is_limited() {
            let highest = best(&mut others().map(|other| network.known_rate(other, host)));
            ingress[host] = highest.unwrap_or(BitsPerSec::UNLIMITED);
        }
    }
    (egress, ingress)
}

impl Platform for Ranks {
    fn host_count(&self) -> usize {
        self.count()
    }

    fn route(&self, source: usize, target: usize, _label: u64, path: &mut Vec<LinkId>) {
        self.links(self.hosts[source], self.hosts[target], path);
    }

    fn rate(&self, link: LinkId) -> BitsPerSec {
        self.link_rate(self.network.link(link.0 as usize))
    }

    /// The latency; zero if it is unknown.
    fn latency_s(&self, source: usize, target: usize) -> f64 {
        let (m, n) = (self.hosts[source], self.hosts[target]);
        self.network.latency_s(m, n).unwrap_or(0.0)
    }

    fn link_name(&self, link: LinkId) -> String {
        self.network.link_name(self.network.link(link.0 as usize))
    }
}
