//! The hosts of a broadcast, the network between them, and the shortest time that any broadcast could take.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use gavotte_net::{BitsPerSec, Bytes, Link, Network, Sharing};
use thiserror::Error;

/// Why a broadcast was refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GroundError {
    /// A host number that does not exist, and the number of hosts.
    #[error("host {0} of {1} does not exist")]
    NoHost(usize, usize),
    /// A host that appears twice among source and receivers.
    #[error("`{0}` is named twice")]
    Twice(String),
}

/// The shortest time that something can take, and what limits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The time in seconds; 0 if no limit is known.
    pub seconds: f64,
    /// Readable name of the limiting port; empty if there is none.
    pub port: String,
}

/// A network, with the source and the receivers of a broadcast.
#[derive(Clone, Debug)]
pub struct Ground {
    network: Network,
    /// The same network, except that a host without a cap is as fast as its best path.
    best: Network,
    source: usize,
    receivers: Vec<usize>,
}

impl Ground {
    /// Checks the hosts and fills in missing caps.
    ///
    /// The plan assumes that a host without a cap has the median rate of its paths to other machines. It does not
    /// assume the best rate: that path may lead to a neighbour.
    ///
    /// # Errors
    /// If a host does not exist or is named twice.
    pub fn new(network: &Network, source: usize, receivers: &[usize]) -> Result<Self, GroundError> {
        let count = network.hosts().len();
        let mut seen = vec![false; count];
        for &host in std::iter::once(&source).chain(receivers) {
            let seen = seen.get_mut(host).ok_or(GroundError::NoHost(host, count))?;
            if std::mem::replace(seen, true) {
                return Err(GroundError::Twice(network.hosts()[host].name.clone()));
            }
        }
        Ok(Self {
            best: capped(network, |rates| rates.last().copied()),
            network: capped(network, |rates| rates.get(rates.len() / 2).copied()),
            source,
            receivers: receivers.to_vec(),
        })
    }

    /// The same broadcast with only some of the receivers.
    #[must_use]
    pub fn only(&self, receivers: &[usize]) -> Self {
        Self {
            receivers: receivers.to_vec(),
            ..self.clone()
        }
    }

    /// Adds a receiver, which must be a host of the network and not yet a member.
    pub(super) fn invite(&mut self, host: usize) {
        self.receivers.push(host);
    }

    /// The network that plans use.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The network in which a host without a cap is as fast as its best path. A rate above these contradicts what is
    /// known.
    pub fn best(&self) -> &Network {
        &self.best
    }

    /// The host that has the object.
    pub fn source(&self) -> usize {
        self.source
    }

    /// The hosts that receive the object.
    pub fn receivers(&self) -> &[usize] {
        &self.receivers
    }

    /// All members, the source first.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.source).chain(self.receivers.iter().copied())
    }

    /// The rate at which a host can send to other machines.
    pub fn uplink(&self, host: usize) -> BitsPerSec {
        self.network.hosts()[host].egress
    }

    /// The round trip between two hosts by the network's latencies, in seconds; 0 if one is unknown.
    pub fn round_trip_s(&self, m: usize, n: usize) -> f64 {
        let ways = self.network.latency_s(m, n).zip(self.network.latency_s(n, m));
        ways.map_or(0.0, |(there_s, back_s)| there_s + back_s)
    }

    /// The longest known round trip between two members, in seconds; 0 if none is known.
    pub fn farthest_s(&self) -> f64 {
        let members: Vec<usize> = self.members().collect();
        let trips = members
            .iter()
            .flat_map(|&m| members.iter().map(move |&n| self.round_trip_s(m, n)));
        trips.fold(0.0, f64::max)
    }

    /// The slowest link between two hosts, and its rate.
    pub fn slowest(&self, m: usize, n: usize) -> Option<(Link, BitsPerSec)> {
        let mut slowest: Option<(Link, BitsPerSec)> = None;
        self.network.for_each_link(m, n, |link| {
            let rate = self.network.rate(link);
            if rate.is_limited() && slowest.is_none_or(|(_, least)| rate.bps() < least.bps()) {
                slowest = Some((link, rate));
            }
        });
        slowest
    }

    /// The shortest time in which `bytes` can reach all receivers with any mechanism.
    ///
    /// It is the longest of these times (Kumar and Ross, 2006):
    ///
    /// 1. The source sends each byte once over its paths, and each receiver receives each byte once.
    /// 2. The source's machine sends each byte once.
    /// 3. All machines together send as many copies as there are other machines.
    /// 4. Each other machine receives each byte once.
    /// 5. Each byte crosses once the border of each group that has receivers on the side away from the source.
    ///
    /// Hosts on one machine count as one, since traffic between them loads no port.
    pub fn bound(&self, Bytes(bytes): Bytes) -> Bound {
        let network = &self.best;
        let bits = 8.0 * bytes as f64;
        let mut worst = Bound {
            seconds: 0.0,
            port: String::new(),
        };
        let mut consider = |bits: f64, bps: f64, port: String| {
            let seconds = bits / bps;
            if seconds > worst.seconds {
                worst = Bound { seconds, port };
            }
        };
        let name = |host: usize| network.hosts()[host].name.as_str();
        let pair = |m: usize, n: usize| network.pair_rate(m, n).bps();
        let to: f64 = self.receivers.iter().map(|&host| pair(self.source, host)).sum();
        consider(bits, to, format!("paths out of {}", name(self.source)));
        for &host in &self.receivers {
            let others = self.members().filter(|&other| other != host);
            consider(
                bits,
                others.map(|other| pair(other, host)).sum(),
                format!("paths into {}", name(host)),
            );
        }
        if network.sharing() == Sharing::Pipe {
            return worst;
        }
        let mut machines: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for host in self.members() {
            machines.entry(network.hosts()[host].machine).or_default().push(host);
        }
        let home = machines
            .remove(&network.hosts()[self.source].machine)
            .unwrap_or_default();
        let egress = |hosts: &[usize]| {
            hosts
                .iter()
                .map(|&host| network.hosts()[host].egress.bps())
                .sum::<f64>()
        };
        let named = |hosts: &[usize]| hosts.iter().map(|&host| name(host)).collect::<Vec<_>>().join(", ");
        if !machines.is_empty() {
            consider(bits, egress(&home), format!("out of {}", named(&home)));
            let all = egress(&home) + machines.values().map(|hosts| egress(hosts)).sum::<f64>();
            consider(bits * machines.len() as f64, all, "all uplinks together".into());
        }
        for hosts in machines.values() {
            let rates = hosts.iter().map(|&host| network.hosts()[host].ingress.bps());
            consider(bits, rates.sum(), format!("into {}", named(hosts)));
        }
        if network.sharing() == Sharing::Groups {
            for (at, group) in network.groups().iter().enumerate() {
                let inside = network.holds(at, self.source);
                let crossed = self
                    .receivers
                    .iter()
                    .any(|&host| network.holds(at, host) != inside && !network.colocated(host, self.source));
                if crossed && inside {
                    consider(bits, group.up.bps(), format!("out of {}", group.name));
                } else if crossed {
                    consider(bits, group.down.bps(), format!("into {}", group.name));
                }
            }
        }
        worst
    }

    /// The time that it takes if each pair carries this many bytes and nothing else limits it: the load of the fullest
    /// link.
    pub fn load_seconds(&self, loads: impl Iterator<Item = (usize, usize, f64)>) -> f64 {
        let mut bytes: BTreeMap<usize, f64> = BTreeMap::new();
        for (m, n, load) in loads {
            self.network.for_each_link(m, n, |link| {
                *bytes.entry(self.network.link_index(link)).or_default() += load;
            });
        }
        let seconds = bytes
            .into_iter()
            .map(|(link, bytes)| 8.0 * bytes / self.network.rate(self.network.link(link)).bps());
        seconds.fold(0.0, f64::max)
    }
}

/// The network with a cap at each host that has none. `choose` picks the cap from the host's rates to or from other
/// machines, ascending.
fn capped(network: &Network, choose: impl Fn(&[f64]) -> Option<f64>) -> Network {
    let count = network.hosts().len();
    let cap = |known: BitsPerSec, rate: &dyn Fn(usize) -> Option<BitsPerSec>, host: usize| {
        if known.is_limited() {
            return known;
        }
        let others = (0..count).filter(|&other| !network.colocated(host, other));
        let rates = others
            .filter_map(rate)
            .map(BitsPerSec::bps)
            .filter(|bps| bps.is_finite());
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        choose(&rates).and_then(BitsPerSec::new).unwrap_or(known)
    };
    let mut hosts = network.hosts().to_vec();
    for (m, host) in hosts.iter_mut().enumerate() {
        host.egress = cap(host.egress, &|n| network.known_rate(m, n), m);
        host.ingress = cap(host.ingress, &|n| network.known_rate(n, m), m);
    }
    // There is one for each.
    network.clone().with_hosts(hosts).unwrap_or_else(|_| network.clone())
}

/// Orders two rates, the faster first.
pub(super) fn faster(one: BitsPerSec, two: BitsPerSec) -> Ordering {
    two.bps().total_cmp(&one.bps())
}
