//! The links that traffic loads, each with a rate, a name and a number.

use crate::network::{Network, Sharing};
use crate::units::BitsPerSec;

/// A resource with a rate that several flows may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// The path from one host to another.
    Pair {
        /// Index of the sending host.
        source: usize,
        /// Index of the receiving host.
        target: usize,
    },
    /// All traffic from a host to other machines.
    Egress(usize),
    /// All traffic from other machines to a host.
    Ingress(usize),
    /// All traffic that leaves a group.
    Up(usize),
    /// All traffic that enters a group.
    Down(usize),
}

/// The number of links of a kind, and the kind.
type Run = (usize, fn(usize) -> Link);

impl Network {
    /// Calls `visit` with each link that traffic from host `m` to host `n` loads.
    ///
    /// 1. Within a host there is no link.
    /// 2. Between hosts of one machine there is only the pair, because that traffic reaches neither the caps nor the
    ///    switches.
    /// 3. Without a matrix of rates, only pairs that are exceptions are links.
    pub fn for_each_link(&self, m: usize, n: usize, mut visit: impl FnMut(Link)) {
        if m == n {
            return;
        }
        if self.pair_index(m, n).is_some() {
            visit(Link::Pair { source: m, target: n });
        }
        if !self.capped(m, n) {
            return;
        }
        visit(Link::Egress(m));
        if self.sharing() == Sharing::Groups {
            self.left(m, n).for_each(|group| visit(Link::Up(group)));
            self.left(n, m).for_each(|group| visit(Link::Down(group)));
        }
        visit(Link::Ingress(n));
    }

    /// Whether traffic from `m` to `n` loads the caps of both.
    pub fn capped(&self, m: usize, n: usize) -> bool {
        self.sharing() != Sharing::Pipe && !self.colocated(m, n)
    }

    /// Whether a link may be the slowest on some path. All traffic of a pair is also on both caps if it loads caps at
    /// all. So a pair as fast as either cap is never the slowest.
    pub fn decides(&self, link: Link) -> bool {
        let loaded = match link {
            Link::Pair { source: m, target: n } => {
                let cap = || self.hosts()[m].egress.min(self.hosts()[n].ingress);
                m != n && (!self.capped(m, n) || self.pair_rate(m, n) < cap())
            }
            Link::Egress(_) | Link::Ingress(_) => self.sharing() != Sharing::Pipe,
            Link::Up(_) | Link::Down(_) => self.sharing() == Sharing::Groups,
        };
        loaded && self.rate(link).is_limited()
    }

    /// The groups that contain `m` but not `n`.
    pub fn left(&self, m: usize, n: usize) -> impl Iterator<Item = usize> + '_ {
        let outside = move |&group: &usize| !self.holds(group, n);
        self.around[m].iter().copied().filter(outside)
    }

    /// The rate of a link.
    pub fn rate(&self, link: Link) -> BitsPerSec {
        match link {
            Link::Pair { source, target } => self.pair_rate(source, target),
            Link::Egress(host) => self.hosts()[host].egress,
            Link::Ingress(host) => self.hosts()[host].ingress,
            Link::Up(group) => self.groups()[group].up,
            Link::Down(group) => self.groups()[group].down,
        }
    }

    /// The name of the link in messages, such as "egress of vm3".
    pub fn link_name(&self, link: Link) -> String {
        let host = |host: usize| &self.hosts()[host].name;
        match link {
            Link::Pair { source, target } => format!("path from {} to {}", host(source), host(target)),
            Link::Egress(at) => format!("egress of {}", host(at)),
            Link::Ingress(at) => format!("ingress of {}", host(at)),
            Link::Up(group) => format!("up link of {}", self.groups()[group].name),
            Link::Down(group) => format!("down link of {}", self.groups()[group].name),
        }
    }

    /// The number of links: indices of [`Network::link_index`] are below it.
    pub fn link_count(&self) -> usize {
        let pairs = self.hosts().len() * self.hosts().len();
        let excepted = self.exceptions().len();
        self.first_pair() + if self.paired() { pairs } else { excepted }
    }

    /// A number for each link: egresses, ingresses, up links, down links, and then pairs, by source. A pair that is no
    /// link has [`Network::link_count`].
    pub fn link_index(&self, link: Link) -> usize {
        let (hosts, groups) = (self.hosts().len(), self.groups().len());
        match link {
            Link::Egress(host) => host,
            Link::Ingress(host) => hosts + host,
            Link::Up(group) => 2 * hosts + group,
            Link::Down(group) => 2 * hosts + groups + group,
            Link::Pair { source, target } => {
                let number = self.pair_index(source, target);
                number.unwrap_or_else(|| self.link_count())
            }
        }
    }

    /// The number of a pair of different hosts, if it is a link.
    pub fn pair_index(&self, m: usize, n: usize) -> Option<usize> {
        let place = if self.paired() {
            Some(m * self.hosts().len() + n)
        } else {
            self.exception(m, n)
        };
        place.map(|place| self.first_pair() + place)
    }

    /// The number of the first pair.
    pub fn first_pair(&self) -> usize {
        2 * (self.hosts().len() + self.groups().len())
    }

    /// The link of this number.
    pub fn link(&self, mut index: usize) -> Link {
        let (hosts, groups) = (self.hosts().len(), self.groups().len());
        let runs: [Run; 4] = [
            (hosts, Link::Egress),
            (hosts, Link::Ingress),
            (groups, Link::Up),
            (groups, Link::Down),
        ];
        for (count, link) in runs {
            if index < count {
                return link(index);
            }
            index -= count;
        }
        let (source, target) = match self.exceptions().get(index) {
            Some(each) => (each.source, each.target),
            None => (index / hosts, index % hosts),
        };
        Link::Pair { source, target }
    }
}
