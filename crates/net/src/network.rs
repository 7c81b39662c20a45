//! A measured network: pair rates, latencies, host caps and shared groups.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::error::{NetworkError, check_index, check_length, check_value};
use crate::sparse::{Exception, Sparse, SparseParts};
use crate::units::BitsPerSec;

/// A host with its caps on traffic to and from other machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Name of the host in messages.
    pub name: String,
    /// Hosts with the same number are virtual machines of one physical machine.
    pub machine: usize,
    /// Cap on all traffic it sends.
    pub egress: BitsPerSec,
    /// Cap on all traffic it receives.
    pub ingress: BitsPerSec,
}

/// A bucket with at least this many seconds of its fill rate is a host's credit and may be half spent, as
/// `python/gavotte/terms/credit.py` says.
const CREDIT_S: f64 = 0.25;

/// A measured peak below this many times the fill rate is no peak.
const LEAST_PEAK: f64 = 1.05;

/// A token bucket: after a pause it lets its depth pass at the peak rate, and else no more than its fill rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// What a full bucket lets pass at once, in bytes.
    pub depth_bytes: f64,
    /// Rate at which it fills.
    pub fill: BitsPerSec,
    /// Rate while it lasts.
    pub peak: BitsPerSec,
}

impl Bucket {
    /// No limit at all.
    pub const NONE: Self = Self {
        depth_bytes: f64::INFINITY,
        fill: BitsPerSec::UNLIMITED,
        peak: BitsPerSec::UNLIMITED,
    };
}

/// Hosts behind a shared up and down link, such as a rack.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name of the group in messages.
    pub name: String,
    /// Indices of its hosts. Hosts of the groups inside it need not be repeated.
    pub members: Vec<usize>,
    /// Cap on traffic that leaves the group.
    pub up: BitsPerSec,
    /// Cap on traffic that enters the group.
    pub down: BitsPerSec,
    /// Index of the group that contains it.
    pub parent: Option<usize>,
}

/// The links that traffic is assumed to share (Choreo, section 4.4 and Appendix).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each ordered pair of hosts has a link of its own, and nothing else is shared.
    Pipe,
    /// Like `Pipe`, and all traffic of a host with other machines also shares its egress and ingress.
    Hose,
    /// Like `Hose`, and all traffic that leaves or enters a group also shares its up or down link.
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

/// The measurements, unchecked. The matrices are row-major, row = source; the diagonals are not read.
#[derive(Clone, Debug)]
pub struct NetworkParts {
    /// Hosts, N of them.
    pub hosts: Vec<Host>,
    /// N x N rates in bit/s; infinite = unlimited, NaN = unknown. Empty = no pair has one, only caps and groups limit.
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
/// Rates are returned pair by pair, so that no caller relies on a matrix.
#[derive(Clone, Debug)]
pub struct Network {
    pub(crate) parts: NetworkParts,
    /// For each host, the groups that contain it, ascending.
    pub(crate) around: Vec<Vec<usize>>,
    /// For each group, its hosts and those of the groups inside it, ascending.
    members: Vec<Vec<usize>>,
    /// For each host, the number of hosts on its machine, itself included.
    colocated: Vec<usize>,
    /// For each host, the depth in bytes and the peak rate of its token bucket. Empty = none is known.
    bursts: Vec<Option<(f64, BitsPerSec)>>,
    /// What replaces the matrices.
    sparse: Option<Sparse>,
}

impl Network {
    /// Checks the measurements.
    ///
    /// # Errors
    /// [`NetworkError`] names the first invalid part.
    pub fn new(parts: NetworkParts) -> Result<Self, NetworkError> {
        let count = parts.hosts.len();
        if count == 0 {
            return Err(NetworkError::NoHosts);
        }
        for (what, matrix) in [
            ("the rate matrix", &parts.rate_bps),
            ("the latency matrix", &parts.latency_s),
        ] {
            if !matrix.is_empty() {
                check_length(what, matrix.len(), count * count)?;
            }
        }
        let of = |what: &'static str, m: usize, n: usize| {
            let (source, target) = (&parts.hosts[m].name, &parts.hosts[n].name);
            move || format!("the {what} from `{source}` to `{target}`")
        };
        let between = |at: usize| Some((at / count, at % count)).filter(|(m, n)| m != n);
        for (at, &bps) in parts.rate_bps.iter().enumerate() {
            let Some((m, n)) = between(at) else { continue };
            let (fine, rule) = (bps.is_nan() || bps > 0.0, "above zero bit/s (infinity means unlimited)");
            check_value(of("rate", m, n), bps, fine, rule)?;
        }
        for (at, &seconds) in parts.latency_s.iter().enumerate() {
            let Some((m, n)) = between(at) else { continue };
            let fine = seconds.is_nan() || (0.0..f64::INFINITY).contains(&seconds);
            check_value(of("latency", m, n), seconds, fine, "from zero seconds, and finite")?;
        }
        let around = groups_around(count, &parts.groups)?;
        let mut members = vec![Vec::new(); parts.groups.len()];
        for (host, groups) in around.iter().enumerate() {
            for &group in groups {
                members[group].push(host);
            }
        }
        let mut sizes: HashMap<usize, usize> = HashMap::new();
        for host in &parts.hosts {
            *sizes.entry(host.machine).or_default() += 1;
        }
        Ok(Self {
            colocated: parts.hosts.iter().map(|host| sizes[&host.machine]).collect(),
            around,
            members,
            parts,
            bursts: Vec::new(),
            sparse: None,
        })
    }

    /// The same network with latencies of its tree and with exceptions, where it has no matrix of them.
    ///
    /// # Errors
    /// [`NetworkError`] names the first invalid part.
    pub fn with_sparse(mut self, parts: SparseParts) -> Result<Self, NetworkError> {
        let names: Vec<String> = self.parts.hosts.iter().map(|host| host.name.clone()).collect();
        self.sparse = Some(Sparse::new(parts, &names, self.parts.groups.len())?);
        Ok(self)
    }

    /// The same network with other caps of its hosts.
    ///
    /// # Errors
    /// If there is not one host for each.
    pub fn with_hosts(mut self, hosts: Vec<Host>) -> Result<Self, NetworkError> {
        check_length("the hosts", hosts.len(), self.parts.hosts.len())?;
        self.parts.hosts = hosts;
        Ok(self)
    }

    /// The same network with the token buckets of its hosts.
    ///
    /// `bursts` has the depth in bytes and the peak rate of each host's bucket; `None` = unknown.
    ///
    /// # Errors
    /// If there is not one value for each host, or a depth is negative or no number.
    pub fn with_bursts(mut self, bursts: Vec<Option<(f64, BitsPerSec)>>) -> Result<Self, NetworkError> {
        check_length("the token buckets", bursts.len(), self.parts.hosts.len())?;
        for (host, burst) in self.parts.hosts.iter().zip(&bursts) {
            if let Some((depth, _)) = *burst {
                let fine = (0.0..f64::INFINITY).contains(&depth);
                let name = || format!("the token bucket of `{}`", host.name);
                check_value(name, depth, fine, "from zero bytes, and finite")?;
            }
        }
        self.bursts = bursts;
        Ok(self)
    }

    /// The token buckets of the hosts, as given.
    pub fn bursts(&self) -> &[Option<(f64, BitsPerSec)>] {
        &self.bursts
    }

    /// The token buckets on the way from `m` to `n`: that of what `m` sends, and that of what `n` receives.
    ///
    /// A host without a cap has [`Bucket::NONE`]. What comes in passes a bucket as deep as what goes out. `None` = no
    /// cap is on the way, or one whose bucket is unknown, or deep enough to be a credit that may be spent.
    pub fn buckets(&self, m: usize, n: usize) -> Option<[Bucket; 2]> {
        if self.bursts.is_empty() || !self.capped(m, n) {
            return None;
        }
        let bucket = |host: usize, fill: BitsPerSec| {
            if !fill.is_limited() {
                return Some(Bucket::NONE);
            }
            let shallow = |(depth_bytes, _): &(f64, BitsPerSec)| 8.0 * depth_bytes < CREDIT_S * fill.bps();
            self.bursts[host].filter(shallow).map(|(depth_bytes, peak)| Bucket {
                depth_bytes,
                fill,
                // A few packets are too short to time: a measurement shows their depth, but the fill rate as their peak.
                peak: if peak.bps() > LEAST_PEAK * fill.bps() {
                    peak
                } else {
                    BitsPerSec::UNLIMITED
                },
            })
        };
        let (out, into) = (self.parts.hosts[m].egress, self.parts.hosts[n].ingress);
        if !out.is_limited() && !into.is_limited() {
            return None;
        }
        Some([bucket(m, out)?, bucket(n, into)?])
    }

    /// The hosts, in the order given.
    pub fn hosts(&self) -> &[Host] {
        &self.parts.hosts
    }

    /// The groups, in the order given.
    pub fn groups(&self) -> &[Group] {
        &self.parts.groups
    }

    /// The links that traffic shares.
    pub fn sharing(&self) -> Sharing {
        self.parts.sharing
    }

    /// The hosts of a group and of the groups inside it, ascending.
    pub fn members(&self, group: usize) -> &[usize] {
        &self.members[group]
    }

    /// Whether a host is in a group or in a group inside it.
    pub fn holds(&self, group: usize, host: usize) -> bool {
        self.around[host].contains(&group)
    }

    /// The number of hosts on a host's machine, itself included.
    pub fn colocated_count(&self, host: usize) -> usize {
        self.colocated[host]
    }

    /// Whether there is a matrix of rates, so that each pair is a link. Without one, only exceptions are.
    pub fn paired(&self) -> bool {
        !self.parts.rate_bps.is_empty()
    }

    /// The pairs that differ from the tree, by source and target; none if there is a matrix of rates.
    pub fn exceptions(&self) -> &[Exception] {
        let sparse = self.sparse.as_ref().filter(|_| !self.paired());
        sparse.map_or(&[], Sparse::exceptions)
    }

    /// The position of a pair among the exceptions, if it is one.
    pub(crate) fn exception(&self, m: usize, n: usize) -> Option<usize> {
        self.sparse.as_ref().and_then(|sparse| sparse.position(m, n))
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
        if !self.paired() {
            return self.sparse.as_ref().and_then(|sparse| sparse.rate(m, n));
        }
        let known = self.parts.rate_bps.get(m * self.parts.hosts.len() + n);
        known.and_then(|&bps| BitsPerSec::new(bps))
    }

    /// As [`Network::known_rate`]; an unknown rate counts as no limit.
    pub fn pair_rate(&self, m: usize, n: usize) -> BitsPerSec {
        self.known_rate(m, n).unwrap_or(BitsPerSec::UNLIMITED)
    }

    /// The latency in one direction from `m` to `n`, in seconds, if it is known; zero within a host.
    pub fn latency_s(&self, m: usize, n: usize) -> Option<f64> {
        if m == n {
            return Some(0.0);
        }
        if self.parts.latency_s.is_empty() {
            let sparse = self.sparse.as_ref()?;
            return sparse.latency_s(m, n, self.left(m, n));
        }
        let known = self.parts.latency_s.get(m * self.parts.hosts.len() + n);
        known.copied().filter(|seconds| !seconds.is_nan())
    }
}

/// For each host, the groups that contain it directly or through a group inside them, ascending.
fn groups_around(hosts: usize, groups: &[Group]) -> Result<Vec<Vec<usize>>, NetworkError> {
    let mut around = vec![Vec::new(); hosts];
    for (start, group) in groups.iter().enumerate() {
        for &member in &group.members {
            check_index(|| format!("a member of group `{}`", group.name), member, hosts)?;
        }
        let mut above = Some(start);
        for _ in 0..groups.len() {
            let Some(at) = above else { break };
            for &member in &group.members {
                around[member].push(at);
            }
            above = groups[at].parent;
            let what = || format!("the parent of group `{}`", groups[at].name);
            above.map_or(Ok(()), |parent| check_index(what, parent, groups.len()))?;
        }
        if above.is_some() {
            return Err(NetworkError::GroupCircle(group.name.clone()));
        }
    }
    for groups in &mut around {
        groups.sort_unstable();
        groups.dedup();
    }
    Ok(around)
}
