//! The ranks of an operation on the hosts of a network: the cost of each message, and the links that messages share.

use std::sync::Arc;

use gavotte_fluid::{LinkId, Platform};
use gavotte_net::{BitsPerSec, Link, Network, NetworkError, NetworkParts, Volume};

use crate::costs::Costs;
use crate::error::TreeError;
use crate::paths::{LOCAL_ALPHA_S, LOCAL_PER_BYTE_S, Paths};
use crate::shared::Shared;

/// Most ranks whose costs are listed for each pair, which takes 260 MB at this number.
pub const LISTED_RANKS: usize = 2048;

/// Ranks 0 to R - 1, each on a host; several may be on one host.
///
/// If hosts share links, an unknown cap equals the rate of the host's best pair. Otherwise sending to all at the same
/// time would appear free.
#[derive(Clone, Debug)]
pub struct Ranks {
    paths: Paths,
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
        if hosts.is_empty() {
            return Err(TreeError::NoHosts);
        }
        let paths = Paths::new(network, hosts);
        if let Some((m, n)) = paths.unknown() {
            let name = |host: usize| paths.network().hosts()[host].name.clone();
            return Err(TreeError::UnknownPair(name(m), name(n)));
        }
        let back = paths.reversed();
        Ok(Self {
            there: costs_of(&paths)?,
            back: costs_of(&back)?,
            paths,
        })
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
        self.paths.count()
    }

    /// The host of each rank, by its number in the network.
    pub(crate) fn hosts(&self) -> &[usize] {
        self.paths.hosts()
    }

    /// The network of the hosts.
    pub(crate) fn network(&self) -> &Network {
        self.paths.network()
    }

    /// Appends the links between two hosts.
    pub(crate) fn links(&self, m: usize, n: usize, path: &mut Vec<LinkId>) {
        let add = |link| path.push(LinkId(self.network().link_index(link) as u64));
        self.network().for_each_link(m, n, add);
    }

    /// The cost of single messages; with `back`, of messages from the column to the row.
    pub fn costs(&self, back: bool) -> &Costs {
        if back { &self.back } else { &self.there }
    }

    /// The paths between ranks; with `back`, those from the column to the row.
    pub(crate) fn paths(&self, back: bool) -> Paths {
        if back {
            self.paths.reversed()
        } else {
            self.paths.clone()
        }
    }

    /// Seconds of a message between two ranks that exchange it in memory; `None` if it crosses a network.
    pub(crate) fn local_s(&self, source: usize, target: usize, Volume(bytes): Volume) -> Option<f64> {
        let local = self.paths.in_memory(self.hosts()[source], self.hosts()[target]);
        local.then_some(LOCAL_ALPHA_S + bytes * LOCAL_PER_BYTE_S)
    }

    /// The links that messages between all ranks may use at the same time, but for those of pairs.
    pub(crate) fn shared(&self) -> Shared {
        let mut shared = Shared::new(self.count());
        for (source, target) in pairs(self.count()) {
            shared.begin_pair();
            let (m, n) = (self.hosts()[source], self.hosts()[target]);
            self.network().for_each_link(m, n, |link| {
                let rate = self.paths.link_rate(link);
                if rate.is_limited() && !matches!(link, Link::Pair { .. }) {
                    shared.add(self.network().link_index(link), rate);
                }
            });
        }
        shared
    }
}

/// All pairs of ranks, row = source.
fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |source| (0..count).map(move |target| (source, target)))
}

/// The costs between ranks: listed, or computed when they are needed, if there are many.
pub(crate) fn costs_of(paths: &Paths) -> Result<Costs, TreeError> {
    let count = paths.count();
    if count > LISTED_RANKS {
        return Ok(Costs::computed(paths.clone()));
    }
    let (alpha_s, per_byte_s) = pairs(count).map(|(source, target)| paths.cost(source, target)).unzip();
    let mut shared = Shared::new(count);
    for (source, target) in pairs(count) {
        shared.begin_pair();
        let network = paths.network();
        paths.for_each_shared(source, target, |link| {
            shared.add(network.link_index(link), paths.link_rate(link));
        });
    }
    Ok(Costs::new(count, alpha_s, per_byte_s)?.sharing(shared))
}

impl Platform for Ranks {
    fn host_count(&self) -> usize {
        self.count()
    }

    fn route(&self, source: usize, target: usize, _label: u64, path: &mut Vec<LinkId>) {
        self.links(self.hosts()[source], self.hosts()[target], path);
    }

    fn rate(&self, link: LinkId) -> BitsPerSec {
        self.paths.link_rate(self.network().link(link.0 as usize))
    }

    /// The latency; zero if it is unknown.
    fn latency_s(&self, source: usize, target: usize) -> f64 {
        let (m, n) = (self.hosts()[source], self.hosts()[target]);
        self.network().latency_s(m, n).unwrap_or(0.0)
    }

    fn link_name(&self, link: LinkId) -> String {
        self.network().link_name(self.network().link(link.0 as usize))
    }
}
