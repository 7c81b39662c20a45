//! A measured network: pair rates, host caps and shared groups (the Network of the file formats).

use std::borrow::Cow;
use std::str::FromStr;

use crate::error::{FluidError, check_index, check_length, check_value};
use crate::platform::{LinkId, Platform, run_of};
use crate::units::BitsPerSec;

/// A host with its caps on traffic to and from other machines.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkHost {
    /// For messages.
    pub name: String,
    /// Hosts with the same number share a machine.
    pub machine: usize,
    /// Cap on all it sends.
    pub egress: BitsPerSec,
    /// Cap on all it receives.
    pub ingress: BitsPerSec,
}

/// Hosts behind one shared link.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// For messages.
    pub name: String,
    /// Indices of its hosts; those of the groups below need not be repeated.
    pub members: Vec<usize>,
    /// Cap on what leaves it.
    pub up: BitsPerSec,
    /// Cap on what enters it.
    pub down: BitsPerSec,
    /// Index of the group around it.
    pub parent: Option<usize>,
}

/// Which links a transfer loads besides its pair's own rate (Choreo, section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// None.
    Pipe,
    /// The source's egress and the target's ingress, unless both are on one machine.
    Hose,
    /// These, and each group that it leaves or enters.
    Groups,
}

impl FromStr for Sharing {
    type Err = FluidError;

    fn from_str(text: &str) -> Result<Self, FluidError> {
        match text {
            "pipe" => Ok(Self::Pipe),
            "hose" => Ok(Self::Hose),
            "groups" => Ok(Self::Groups),
            _ => Err(FluidError::Table(format!(
                "there is no sharing model `{text}`; use hose, pipe or groups"
            ))),
        }
    }
}

/// What was measured, unchecked. The matrices are row-major, row = source; the diagonals are not read.
#[derive(Clone, Debug)]
pub struct NetworkParts<'a> {
    /// Hosts, N of them.
    pub hosts: Vec<NetworkHost>,
    /// N x N rates in bit/s; infinite = unlimited.
    pub rate_bps: Cow<'a, [f64]>,
    /// N x N latencies in seconds; NaN = unknown, taken as 0. `None` = all 0.
    pub latency_s: Option<Cow<'a, [f64]>>,
    /// Shared links; read under [`Sharing::Groups`] only, but always checked.
    pub groups: Vec<Group>,
    /// Which links are shared.
    pub sharing: Sharing,
}

/// A measured network. Each ordered pair of hosts is a link of its own.
#[derive(Clone, Debug)]
pub struct Network<'a> {
    parts: NetworkParts<'a>,
    /// By host: the groups around it, in ascending order.
    around: Vec<Vec<usize>>,
}

/// What a link is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Egress(usize),
    Ingress(usize),
    Up(usize),
    Down(usize),
    Pair(usize, usize),
}

impl<'a> Network<'a> {
    /// Checks what was measured.
    ///
    /// # Errors
    /// [`FluidError`] if there is no host, a matrix has the wrong size, a rate is not above zero, a latency is negative,
    /// an index points nowhere, or a group is around itself.
    pub fn new(parts: NetworkParts<'a>) -> Result<Self, FluidError> {
        let count = parts.hosts.len();
        if count == 0 {
            return Err(FluidError::NoHosts);
        }
        check_length("the rate matrix", parts.rate_bps.len(), count * count)?;
        for (at, &bps) in parts
            .rate_bps
            .iter()
            .enumerate()
            .filter(|(at, _)| at / count != at % count)
        {
            let (m, n) = (at / count, at % count);
            let what = || format!("the rate from `{}` to `{}`", parts.hosts[m].name, parts.hosts[n].name);
            check_value(what, bps, bps > 0.0, "above zero bit/s (infinity means unlimited)")?;
        }
        if let Some(latency_s) = &parts.latency_s {
            check_length("the latency matrix", latency_s.len(), count * count)?;
            for (at, &seconds) in latency_s.iter().enumerate().filter(|(at, _)| at / count != at % count) {
                let (m, n) = (at / count, at % count);
                let what = || {
                    format!(
                        "the latency from `{}` to `{}`",
                        parts.hosts[m].name, parts.hosts[n].name
                    )
                };
                let ok = seconds.is_nan() || (0.0..f64::INFINITY).contains(&seconds);
                check_value(what, seconds, ok, "from zero seconds, and finite (NaN means unknown)")?;
            }
        }
        let around = around(count, &parts.groups)?;
        Ok(Self { parts, around })
    }

    /// What was measured.
    pub fn parts(&self) -> &NetworkParts<'a> {
        &self.parts
    }

    /// The number of a link: egresses first, then ingresses, groups up and down, pairs.
    fn id(&self, kind: Kind) -> LinkId {
        let (hosts, groups) = (self.parts.hosts.len(), self.parts.groups.len());
        let number = match kind {
            Kind::Egress(host) => host,
            Kind::Ingress(host) => hosts + host,
            Kind::Up(group) => 2 * hosts + group,
            Kind::Down(group) => 2 * hosts + groups + group,
            Kind::Pair(source, target) => 2 * (hosts + groups) + source * hosts + target,
        };
        LinkId(number as u64)
    }

    fn kind(&self, link: LinkId) -> Kind {
        let (hosts, groups) = (self.parts.hosts.len(), self.parts.groups.len());
        match run_of(link, &[hosts, hosts, groups, groups]) {
            (0, host) => Kind::Egress(host),
            (1, host) => Kind::Ingress(host),
            (2, group) => Kind::Up(group),
            (3, group) => Kind::Down(group),
            (_, pair) => Kind::Pair(pair / hosts, pair % hosts),
        }
    }

    /// The groups around `m` that do not hold `n`.
    fn left(&self, m: usize, n: usize) -> impl Iterator<Item = usize> + '_ {
        self.around[m]
            .iter()
            .copied()
            .filter(move |group| self.around[n].binary_search(group).is_err())
    }
}

impl Platform for Network<'_> {
    fn host_count(&self) -> usize {
        self.parts.hosts.len()
    }

    fn route(&self, source: usize, target: usize, _label: u64, path: &mut Vec<LinkId>) {
        if source == target {
            return;
        }
        path.push(self.id(Kind::Pair(source, target)));
        let hosts = &self.parts.hosts;
        if self.parts.sharing == Sharing::Pipe || hosts[source].machine == hosts[target].machine {
            return;
        }
        path.push(self.id(Kind::Egress(source)));
        if self.parts.sharing == Sharing::Groups {
            path.extend(self.left(source, target).map(|group| self.id(Kind::Up(group))));
            path.extend(self.left(target, source).map(|group| self.id(Kind::Down(group))));
        }
        path.push(self.id(Kind::Ingress(target)));
    }

    fn rate(&self, link: LinkId) -> BitsPerSec {
        match self.kind(link) {
            Kind::Egress(host) => self.parts.hosts[host].egress,
            Kind::Ingress(host) => self.parts.hosts[host].ingress,
            Kind::Up(group) => self.parts.groups[group].up,
            Kind::Down(group) => self.parts.groups[group].down,
            Kind::Pair(source, target) => {
                let bps = self.parts.rate_bps[source * self.parts.hosts.len() + target];
                BitsPerSec::new(bps).unwrap_or(BitsPerSec::UNLIMITED)
            }
        }
    }

    fn latency_s(&self, source: usize, target: usize) -> f64 {
        let known = self.parts.latency_s.as_ref().filter(|_| source != target);
        known.map_or(0.0, |matrix| matrix[source * self.parts.hosts.len() + target].max(0.0))
    }

    fn link_name(&self, link: LinkId) -> String {
        let host = |host: usize| &self.parts.hosts[host].name;
        match self.kind(link) {
            Kind::Egress(at) => format!("egress of {}", host(at)),
            Kind::Ingress(at) => format!("ingress of {}", host(at)),
            Kind::Up(group) => format!("up link of {}", self.parts.groups[group].name),
            Kind::Down(group) => format!("down link of {}", self.parts.groups[group].name),
            Kind::Pair(source, target) => format!("path from {} to {}", host(source), host(target)),
        }
    }
}

/// By host: the groups that hold it, or hold a group that does.
fn around(hosts: usize, groups: &[Group]) -> Result<Vec<Vec<usize>>, FluidError> {
    let mut around = vec![Vec::new(); hosts];
    for (number, group) in groups.iter().enumerate() {
        for &member in &group.members {
            check_index(|| format!("a member of group `{}`", group.name), member, hosts)?;
        }
        let mut up = Some(number);
        for _ in 0..=groups.len() {
            let Some(at) = up else { break };
            check_index(
                || format!("the parent of a group around `{}`", group.name),
                at,
                groups.len(),
            )?;
            group.members.iter().for_each(|&member| around[member].push(at));
            up = groups[at].parent;
        }
        if up.is_some() {
            return Err(FluidError::Circle {
                what: "group",
                name: group.name.clone(),
            });
        }
    }
    for list in &mut around {
        list.sort_unstable();
        list.dedup();
    }
    Ok(around)
}
