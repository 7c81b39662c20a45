//! The limited links between ports, and the ways over them.

use std::collections::HashMap;
use std::sync::Arc;

use gavotte_net::{BitsPerSec, Link, Network};

/// Links with a rate, and ways over them, numbered as they are first asked for.
///
/// It holds no more than what was asked for, so a large network costs nothing by itself.
#[derive(Clone, Debug)]
pub struct Fabric {
    over: Over,
    rates_bps: Vec<f64>,
    links: Vec<Link>,
    number: HashMap<Link, u32>,
    /// Where the links of each path begin in `crossed`, and where the last one ends.
    first: Vec<u32>,
    crossed: Vec<u32>,
    path: HashMap<(u32, u32), Path>,
}

/// What the links belong to.
#[derive(Clone, Debug)]
enum Over {
    /// Ports on a switch that never blocks, each with a rate out and in.
    Ports {
        out: Vec<BitsPerSec>,
        into: Vec<BitsPerSec>,
    },
    /// A measured network; ports are hosts.
    Network(Arc<Network>),
}

/// The way from one port to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub(crate) u32);

impl Path {
    /// Paths are numbered from zero, in the order in which they were first asked for.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

impl Fabric {
    /// Ports on a switch that never blocks. What a port sends to itself loads it both ways, as in the models of Varys
    /// and Aalo, where a port stands for a rack.
    pub fn ports(out: Vec<BitsPerSec>, into: Vec<BitsPerSec>) -> Self {
        Self::new(Over::Ports { out, into })
    }

    /// So many ports of one rate both ways.
    pub fn uniform(count: usize, rate: BitsPerSec) -> Self {
        Self::ports(vec![rate; count], vec![rate; count])
    }

    /// A measured network, with all links that it says traffic loads: pairs, caps of hosts, groups.
    pub fn network(network: Arc<Network>) -> Self {
        Self::new(Over::Network(network))
    }

    fn new(over: Over) -> Self {
        Self {
            over,
            rates_bps: Vec::new(),
            links: Vec::new(),
            number: HashMap::new(),
            first: vec![0],
            crossed: Vec::new(),
            path: HashMap::new(),
        }
    }

    /// How many ports there are.
    pub fn port_count(&self) -> usize {
        match &self.over {
            Over::Ports { out, into } => out.len().min(into.len()),
            Over::Network(network) => network.hosts().len(),
        }
    }

    /// The way from `source` to `target`.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn path(&mut self, source: usize, target: usize) -> Path {
        let ends = (source as u32, target as u32);
        if let Some(&known) = self.path.get(&ends) {
            return known;
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
        for (link, rate) in links {
            let number = *self.number.entry(link).or_insert_with(|| {
                self.rates_bps.push(rate.bps());
                self.links.push(link);
                self.links.len() as u32 - 1
            });
            self.crossed.push(number);
        }
        let path = Path(self.first.len() as u32 - 1);
        self.first.push(self.crossed.len() as u32);
        self.path.insert(ends, path);
        path
    }

    /// How many paths were asked for.
    pub fn path_count(&self) -> usize {
        self.first.len() - 1
    }

    /// Those, by their numbers.
    pub fn paths(&self) -> impl Iterator<Item = Path> + use<> {
        (0..self.path_count() as u32).map(Path)
    }

    /// The links on a path, none twice; empty where nothing limits it.
    pub fn links(&self, path: Path) -> &[u32] {
        &self.crossed[self.first[path.number()] as usize..self.first[path.number() + 1] as usize]
    }

    /// The rate of each link that is on some path, in bit/s.
    pub fn rates_bps(&self) -> &[f64] {
        &self.rates_bps
    }

    /// A link in words, such as "egress of vm3"; ports by their number.
    pub fn link_name(&self, link: u32) -> String {
        match (&self.over, self.links[link as usize]) {
            (Over::Network(network), link) => network.link_name(link),
            (Over::Ports { .. }, Link::Egress(port)) => format!("egress of port {port}"),
            (Over::Ports { .. }, Link::Ingress(port)) => format!("ingress of port {port}"),
            (Over::Ports { .. }, _) => unreachable!("ports have two links each"),
        }
    }
}
