//! A network as it was measured: pair rates, latencies, host caps and shared groups.

use std::fmt;
use std::str::FromStr;

use crate::error::{NetworkError, check_index, check_length, check_value};
use crate::units::BitsPerSec;

/// A host with its caps on traffic to and from other machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// For messages.
    pub name: String,
    /// Hosts with the same number are virtual machines of one physical machine.
    pub machine: usize,
    /// Cap on all it sends.
    pub egress: BitsPerSec,
    /// Cap on all it receives.
    pub ingress: BitsPerSec,
}

/// Hosts behind a shared up and down link, such as a rack.
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

/// Which links traffic is thought to share (Choreo, section 4.4 and Appendix).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each ordered pair of hosts has a link of its own, and nothing else is shared.
    Pipe,
    /// Besides, each host's egress and ingress are shared by all it exchanges with other machines.
    Hose,
    /// Besides, each group's up and down link are shared by all that leaves and enters it.
    Groups,
}

impl FromStr for Sharing {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        match text {
            "pipe" => Ok(Self::Pipe),
            "hose" => Ok(Self::Hose),
            "groups" => Ok(Self::Groups),
            _ => Err(NetworkError::UnknownSharing(text.to_owned())),
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipe => "pipe",
            Self::Hose => "hose",
            Self::Groups => "groups",
        })
    }
}

/// What was measured, unchecked. The matrices are row-major, row = source; the diagonals are not read.
#[derive(Clone, Debug)]
pub struct NetworkParts {
    /// Hosts, N of them.
    pub hosts: Vec<Host>,
    /// N x N rates in bit/s; infinite = unlimited, NaN = unknown.
    pub rate_bps: Vec<f64>,
    /// N x N one-way latencies in seconds; NaN = unknown. Empty = none known.
    pub latency_s: Vec<f64>,
    /// Shared links; loaded under [`Sharing::Groups`] only, but always checked.
    pub groups: Vec<Group>,
    /// Which links are shared.
    pub sharing: Sharing,
}

/// A checked network: every index is in range, every rate is above zero or unknown, no group is around itself.
///
/// Rates of pairs are told one by one, so that nothing outside relies on their being kept as a matrix.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) parts: NetworkParts,
    /// By host: the groups around it, ascending.
    pub(crate) around: Vec<Vec<usize>>,
    /// `inside[g][m]`: host `m` is in group `g` or in a group below it.
    inside: Vec<Vec<bool>>,
}

impl Network {
    /// Checks what was measured.
    ///
    /// # Errors
    /// [`NetworkError`] names the first part that makes no sense.
    pub fn new(parts: NetworkParts) -> Result<Self, NetworkError> {
        let count = parts.hosts.len();
        if count == 0 {
            return Err(NetworkError::NoHosts);
        }
        check_length("the rate matrix", parts.rate_bps.len(), count * count)?;
        if !parts.latency_s.is_empty() {
            check_length("the latency matrix", parts.latency_s.len(), count * count)?;
        }
        let of = |what: &'static str, m: usize, n: usize| {
            let (source, target) = (&parts.hosts[m].name, &parts.hosts[n].name);
            move || format!("the {what} from `{source}` to `{target}`")
        };
        for (m, n) in (0..count * count)
            .map(|at| (at / count, at % count))
            .filter(|(m, n)| m != n)
        {
            let bps = parts.rate_bps[m * count + n];
            let fine = bps.is_nan() || bps > 0.0;
            check_value(
                of("rate", m, n),
                bps,
                fine,
                "above zero bit/s (infinity means unlimited)",
            )?;
            let seconds = parts.latency_s.get(m * count + n).copied().unwrap_or(f64::NAN);
            let fine = seconds.is_nan() || (0.0..f64::INFINITY).contains(&seconds);
            check_value(of("latency", m, n), seconds, fine, "from zero seconds, and finite")?;
        }
        let inside = insides(count, &parts.groups)?;
        let around = |m: usize| (0..inside.len()).filter(|&group| inside[group][m]).collect();
        Ok(Self {
            around: (0..count).map(around).collect(),
            inside,
            parts,
        })
    }

    /// The hosts, in the order given.
    pub fn hosts(&self) -> &[Host] {
        &self.parts.hosts
    }

    /// The groups, in the order given.
    pub fn groups(&self) -> &[Group] {
        &self.parts.groups
    }

    /// Which links traffic shares.
    pub fn sharing(&self) -> Sharing {
        self.parts.sharing
    }

    /// By host, whether it is in this group or in a group below it.
    pub fn inside(&self, group: usize) -> &[bool] {
        &self.inside[group]
    }

    /// Whether `m` and `n` are one host, or two on one physical machine.
    pub fn colocated(&self, m: usize, n: usize) -> bool {
        self.parts.hosts[m].machine == self.parts.hosts[n].machine
    }

    /// The pair's own rate from `m` to `n` if it is known; unlimited within a host.
    pub fn known_rate(&self, m: usize, n: usize) -> Option<BitsPerSec> {
        if m == n {
            return Some(BitsPerSec::UNLIMITED);
        }
        BitsPerSec::new(self.parts.rate_bps[m * self.parts.hosts.len() + n])
    }

    /// As [`Network::known_rate`]; an unknown rate counts as no limit.
    pub fn pair_rate(&self, m: usize, n: usize) -> BitsPerSec {
        self.known_rate(m, n).unwrap_or(BitsPerSec::UNLIMITED)
    }

    /// One way from `m` to `n`, in seconds, if it is known; zero within a host.
    pub fn latency_s(&self, m: usize, n: usize) -> Option<f64> {
        if m == n {
            return Some(0.0);
        }
        let known = self.parts.latency_s.get(m * self.parts.hosts.len() + n);
        known.copied().filter(|seconds| !seconds.is_nan())
    }
}

/// Members of each group with those of the groups below it.
fn insides(hosts: usize, groups: &[Group]) -> Result<Vec<Vec<bool>>, NetworkError> {
    let mut inside = vec![vec![false; hosts]; groups.len()];
    for (start, group) in groups.iter().enumerate() {
        for &member in &group.members {
            check_index(|| format!("a member of group `{}`", group.name), member, hosts)?;
        }
        let mut above = Some(start);
        for _ in 0..groups.len() {
            let Some(at) = above else { break };
            group.members.iter().for_each(|&member| inside[at][member] = true);
            above = groups[at].parent;
            let what = || format!("the parent of group `{}`", groups[at].name);
            above.map_or(Ok(()), |parent| check_index(what, parent, groups.len()))?;
        }
        if above.is_some() {
            return Err(NetworkError::GroupCircle(group.name.clone()));
        }
    }
    Ok(inside)
}
