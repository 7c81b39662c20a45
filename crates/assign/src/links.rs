//! The links that a transfer loads, each with a rate.

use crate::problem::{Problem, Sharing};

/// Something with a rate that several transfers may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// The path from one host to another.
    Pair {
        /// Index of the sending host.
        source: usize,
        /// Index of the receiving host.
        target: usize,
    },
    /// All that a host sends to other machines.
    Egress(usize),
    /// All that a host receives from other machines.
    Ingress(usize),
    /// All that leaves a group.
    Up(usize),
    /// All that enters a group.
    Down(usize),
}

impl Problem {
    /// Calls `visit` with each link that traffic from host `m` to host `n` loads.
    ///
    /// Within a host there is none. Between hosts of one machine there is the pair alone, since that traffic reaches
    /// neither the caps nor the switches.
    pub fn for_each_link(&self, m: usize, n: usize, mut visit: impl FnMut(Link)) {
        if m == n {
            return;
        }
        visit(Link::Pair { source: m, target: n });
        if self.sharing == Sharing::Pipe || self.colocated(m, n) {
            return;
        }
        visit(Link::Egress(m));
        visit(Link::Ingress(n));
        if self.sharing == Sharing::Groups {
            self.left(m, n).for_each(|g| visit(Link::Up(g)));
            self.left(n, m).for_each(|g| visit(Link::Down(g)));
        }
    }

    /// The rate of a link in bit/s, infinite where it is unlimited.
    pub fn rate_bps(&self, link: Link) -> f64 {
        match link {
            Link::Pair { source, target } => self.pair_bps(source, target),
            Link::Egress(host) => self.hosts[host].egress_bps,
            Link::Ingress(host) => self.hosts[host].ingress_bps,
            Link::Up(group) => self.groups[group].up_bps,
            Link::Down(group) => self.groups[group].down_bps,
        }
    }

    /// The link in words, such as "egress of vm3".
    pub fn link_name(&self, link: Link) -> String {
        match link {
            Link::Pair { source, target } => {
                format!("path from {} to {}", self.hosts[source].name, self.hosts[target].name)
            }
            Link::Egress(host) => format!("egress of {}", self.hosts[host].name),
            Link::Ingress(host) => format!("ingress of {}", self.hosts[host].name),
            Link::Up(group) => format!("up link of {}", self.groups[group].name),
            Link::Down(group) => format!("down link of {}", self.groups[group].name),
        }
    }

    /// How many different links there are: indices of [`Problem::link_index`] are below this.
    pub fn link_count(&self) -> usize {
        let hosts = self.hosts.len();
        hosts * hosts + 2 * hosts + 2 * self.groups.len()
    }

    /// A number for each link, for tables of loads: pairs first, then egresses, ingresses, up and down links.
    pub fn link_index(&self, link: Link) -> usize {
        let hosts = self.hosts.len();
        let after_pairs = hosts * hosts;
        match link {
            Link::Pair { source, target } => source * hosts + target,
            Link::Egress(host) => after_pairs + host,
            Link::Ingress(host) => after_pairs + hosts + host,
            Link::Up(group) => after_pairs + 2 * hosts + group,
            Link::Down(group) => after_pairs + 2 * hosts + self.groups.len() + group,
        }
    }

    /// The pair's own rate from `m` to `n` in bit/s; infinite within a host.
    pub(crate) fn pair_bps(&self, m: usize, n: usize) -> f64 {
        if m == n {
            f64::INFINITY
        } else {
            self.rate_bps[m * self.hosts.len() + n]
        }
    }

    /// The groups around `m` that do not hold `n`.
    pub(crate) fn left(&self, m: usize, n: usize) -> impl Iterator<Item = usize> + '_ {
        self.around[m].iter().copied().filter(move |&g| !self.inside[g][n])
    }
}
