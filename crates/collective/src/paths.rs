//! The paths between ranks: what a message on each costs, and which links it shares with others.

use std::collections::HashSet;
use std::sync::Arc;

use gavotte_net::{BitsPerSec, Link, Network, Sharing};

/// Ranks that exchange messages in memory. The exact value does not matter; it is only much faster than any network.
pub(crate) const LOCAL_ALPHA_S: f64 = 1e-6;
pub(crate) const LOCAL_PER_BYTE_S: f64 = 8.0 / 40e9;

/// The hosts of ranks, and the limits of their paths. With `back`, each path is that of the reverse direction.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    ends: Arc<Ends>,
    back: bool,
}

#[derive(Debug)]
struct Ends {
    limits: Arc<Limits>,
    hosts: Vec<usize>,
    /// Hosts with several ranks.
    crowded: HashSet<usize>,
}

/// The limits of all hosts of a network.
#[derive(Debug)]
struct Limits {
    network: Arc<Network>,
    egress: Vec<BitsPerSec>,
    ingress: Vec<BitsPerSec>,
    /// Whether any pair has a rate.
    rated: bool,
}

impl Paths {
    /// The paths between ranks on these hosts, each of which exists.
    pub(crate) fn new(network: Arc<Network>, hosts: Vec<usize>) -> Self {
        let count = network.hosts().len();
        let (egress, ingress) = caps(&network);
        let rated =
            network.paired() && (0..count).any(|m| (0..count).any(|n| m != n && network.known_rate(m, n).is_some()));
        let limits = Limits {
            network,
            egress,
            ingress,
            rated,
        };
        Self::between_hosts(Arc::new(limits), hosts, false)
    }

    fn between_hosts(limits: Arc<Limits>, hosts: Vec<usize>, back: bool) -> Self {
        let mut seen = HashSet::new();
        let crowded = hosts.iter().copied().filter(|&host| !seen.insert(host)).collect();
        let ends = Ends { limits, hosts, crowded };
        Self {
            ends: Arc::new(ends),
            back,
        }
    }

    /// The paths between some of the ranks.
    pub(crate) fn of_ranks(&self, ranks: &[usize]) -> Self {
        let hosts = ranks.iter().map(|&rank| self.ends.hosts[rank]).collect();
        Self::between_hosts(Arc::clone(&self.ends.limits), hosts, self.back)
    }

    /// The same paths in the reverse direction.
    pub(crate) fn reversed(&self) -> Self {
        Self {
            ends: Arc::clone(&self.ends),
            back: !self.back,
        }
    }

    /// The number of ranks.
    pub(crate) fn count(&self) -> usize {
        self.ends.hosts.len()
    }

    /// The host of each rank, by its number in the network.
    pub(crate) fn hosts(&self) -> &[usize] {
        &self.ends.hosts
    }

    /// The network of the hosts.
    pub(crate) fn network(&self) -> &Network {
        &self.ends.limits.network
    }

    /// The hosts that a message between two ranks leaves and enters.
    fn between(&self, source: usize, target: usize) -> (usize, usize) {
        let (m, n) = (self.ends.hosts[source], self.ends.hosts[target]);
        if self.back { (n, m) } else { (m, n) }
    }

    /// The rate of a link. If hosts share links, an unknown cap equals the rate of the host's best pair.
    pub(crate) fn link_rate(&self, link: Link) -> BitsPerSec {
        match link {
            Link::Egress(host) => self.ends.limits.egress[host],
            Link::Ingress(host) => self.ends.limits.ingress[host],
            other => self.network().rate(other),
        }
    }

    /// Whether only memory lies between two hosts. That holds within one host. It also holds for virtual machines of
    /// one physical machine if no pair has a rate and only caps on traffic between machines limit.
    pub(crate) fn in_memory(&self, m: usize, n: usize) -> bool {
        let mates = || self.network().colocated(m, n) && !self.ends.limits.rated;
        m == n || (self.network().sharing() != Sharing::Pipe && mates())
    }

    /// The rate of the slowest link between two hosts.
    fn least_rate(&self, m: usize, n: usize) -> BitsPerSec {
        let mut least = BitsPerSec::UNLIMITED;
        self.network()
            .for_each_link(m, n, |link| least = least.min(self.link_rate(link)));
        least
    }

    /// The fixed seconds of a message between two ranks, and those of each byte.
    pub(crate) fn cost(&self, source: usize, target: usize) -> (f64, f64) {
        let (m, n) = self.between(source, target);
        if self.in_memory(m, n) {
            return (LOCAL_ALPHA_S, LOCAL_PER_BYTE_S);
        }
        let latency_s = self.network().latency_s(m, n).unwrap_or(0.0);
        (latency_s, 8.0 / self.least_rate(m, n).bps())
    }

    /// Two hosts of ranks between which neither a rate nor a cap is known, if there are any.
    pub(crate) fn unknown(&self) -> Option<(usize, usize)> {
        let mut used = self.hosts().to_vec();
        used.sort_unstable();
        used.dedup();
        // A cap at either end limits a pair, unless caps do not count, as between hosts of one machine.
        let (network, pipe) = (self.network(), self.network().sharing() == Sharing::Pipe);
        let open = |caps: &[BitsPerSec]| -> Vec<usize> {
            let kept = |&host: &usize| pipe || !caps[host].is_limited() || network.colocated_count(host) > 1;
            used.iter().copied().filter(kept).collect()
        };
        let (senders, receivers) = (open(&self.ends.limits.egress), open(&self.ends.limits.ingress));
        let unlimited = |m: usize, n: usize| {
            let known = self.in_memory(m, n) || network.known_rate(m, n).is_some();
            !known && !self.least_rate(m, n).is_limited()
        };
        let rows = senders.iter();
        rows.flat_map(|&m| receivers.iter().map(move |&n| (m, n)))
            .find(|&(m, n)| unlimited(m, n))
    }

    /// Calls `visit` with each link between two ranks that several messages may use at the same time.
    ///
    /// One rank sends one message at a time, so a pair is not shared, nor are the caps of a host of one rank.
    pub(crate) fn for_each_shared(&self, source: usize, target: usize, mut visit: impl FnMut(Link)) {
        let (m, n) = self.between(source, target);
        self.network().for_each_link(m, n, |link| {
            let shared = match link {
                Link::Pair { .. } => false,
                Link::Egress(host) | Link::Ingress(host) => self.ends.crowded.contains(&host),
                Link::Up(_) | Link::Down(_) => true,
            };
            if shared && self.link_rate(link).is_limited() {
                visit(link);
            }
        });
    }
}

/// Each host's caps. If caps are shared, an unknown cap is the rate of the host's best pair.
fn caps(network: &Network) -> (Vec<BitsPerSec>, Vec<BitsPerSec>) {
    let hosts = network.hosts();
    let mut egress: Vec<BitsPerSec> = hosts.iter().map(|host| host.egress).collect();
    let mut ingress: Vec<BitsPerSec> = hosts.iter().map(|host| host.ingress).collect();
    if !network.paired() {
        return (egress, ingress);
    }
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
