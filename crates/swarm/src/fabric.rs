//! The rate-limited links between ports, and the path of links from one port to another.

use std::collections::HashMap;
use std::sync::Arc;

use gavotte_net::{BitsPerSec, Link, Network};

/// Links with a rate, and paths over them, numbered in the order in which callers first ask for them.
///
/// It stores only the paths that callers asked for, so a large network costs nothing in advance.
#[derive(Clone, Debug)]
pub struct Fabric {
    over: Over,
    rates_bps: Vec<f64>,
    known: Arc<Known>,
}

/// The links and paths that callers asked for. Copies of a fabric share them.
#[derive(Clone, Debug)]
struct Known {
    links: Vec<Link>,
    number: HashMap<Link, u32>,
    /// Index in `crossed` where each path's links begin, followed by the index where the last path's links end.
    first: Vec<u32>,
    crossed: Vec<u32>,
    path: HashMap<(u32, u32), Path>,
}

/// Where the links come from.
#[derive(Clone, Debug)]
enum Over {
    /// Ports on a non-blocking switch, each with an outgoing and an incoming rate.
    Ports {
        out: Vec<BitsPerSec>,
        into: Vec<BitsPerSec>,
    },
    /// A measured network; ports are hosts.
    Network(Arc<Network>),
}

/// The path from one port to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub(crate) u32);

impl Path {
    /// The path's number. Paths are numbered from zero, in the order in which callers first asked for them.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

impl Fabric {
    /// Ports on a non-blocking switch. Traffic from a port to itself loads both its directions, as in the models of
    /// Varys and Aalo, where a port represents a rack.
    pub fn ports(out: Vec<BitsPerSec>, into: Vec<BitsPerSec>) -> Self {
        Self::new(Over::Ports { out, into })
    }

    /// `count` ports with the same rate in both directions.
    pub fn uniform(count: usize, rate: BitsPerSec) -> Self {
        Self::ports(vec![rate; count], vec![rate; count])
    }

    /// A measured network, with every link that the network's sharing model loads: pairs, caps of hosts, groups.
    pub fn network(network: Arc<Network>) -> Self {
        Self::new(Over::Network(network))
    }

    fn new(over: Over) -> Self {
        Self {
            over,
            rates_bps: Vec::new(),
            known: Arc::new(Known {
                links: Vec::new(),
                number: HashMap::new(),
                first: vec![0],
                crossed: Vec::new(),
                path: HashMap::new(),
            }),
        }
    }

    /// The same links and paths with other rates, one for each of [`Fabric::rates_bps`].
    pub(crate) fn at_rates(&self, rates_bps: Vec<f64>) -> Self {
        Self {
            over: self.over.clone(),
            rates_bps,
            known: Arc::clone(&self.known),
        }
    }

    /// Number of ports.
    pub fn port_count(&self) -> usize {
        match &self.over {
            Over::Ports { out, into } => out.len().min(into.len()),
            Over::Network(network) => network.hosts().len(),
        }
    }

    /// The path from `source` to `target`.
    ///
    /// # Panics
    /// If one of the ports does not exist.
    pub fn path(&mut self, source: usize, target: usize) -> Path {
        let ends = (source as u32, target as u32);
        if let Some(&path) = self.known.path.get(&ends) {
            return path;
        }
        let mut links = Vec::new();
        match &self.over {
            Over::Ports { out, into } => {
                let both = [
                    (Link::Egress(source), out[source]),
                    (Link::Ingress(target), into[target]),
                ];
                links.extend(both.into_iter().filter(|(_, rate)| rate.is_limited()));
            }
            Over::Network(network) => network.for_each_link(source, target, |link| {
                if network.decides(link) {
                    links.push((link, network.rate(link)));
                }
            }),
        }
        let rates_bps = &mut self.rates_bps;
        let known = Arc::make_mut(&mut self.known);
        for (link, rate) in links {
            let number = *known.number.entry(link).or_insert_with(|| {
                rates_bps.push(rate.bps());
                known.links.push(link);
                known.links.len() as u32 - 1
            });
            known.crossed.push(number);
        }
        let path = Path(known.first.len() as u32 - 1);
        known.first.push(known.crossed.len() as u32);
        known.path.insert(ends, path);
        path
    }

    /// Number of paths that callers asked for.
    pub fn path_count(&self) -> usize {
        self.known.first.len() - 1
    }

    /// All paths that callers asked for, by number.
    pub fn paths(&self) -> impl Iterator<Item = Path> + use<> {
        (0..self.path_count() as u32).map(Path)
    }

    /// The links on a path, without duplicates; empty if nothing limits the path.
    pub fn links(&self, path: Path) -> &[u32] {
        let first = &self.known.first;
        &self.known.crossed[first[path.number()] as usize..first[path.number() + 1] as usize]
    }

    /// The rate of each link that is on at least one path, in bit/s.
    pub fn rates_bps(&self) -> &[f64] {
        &self.rates_bps
    }

    /// The readable name of a link, such as "egress of vm3"; ports appear by number.
    pub fn link_name(&self, link: u32) -> String {
        match (&self.over, self.known.links[link as usize]) {
            (Over::Network(network), link) => network.link_name(link),
            (Over::Ports { .. }, Link::Egress(port)) => format!("egress of port {port}"),
            (Over::Ports { .. }, Link::Ingress(port)) => format!("ingress of port {port}"),
            (Over::Ports { .. }, _) => unreachable!("ports have two links each"),
        }
    }
}
