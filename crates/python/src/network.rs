//! Networks from the file formats, read once for all functions that use them.

use std::collections::HashMap;
use std::sync::Arc;

use gavotte_net as net;
use gavotte_net::{BitsPerSec, Exception, Link, NetworkParts, SparseParts};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;

/// A link: its kind and two indices.
type Key = (&'static str, usize, usize);

#[derive(FromPyObject)]
struct HostOf {
    name: String,
    machine: Option<String>,
    egress_bps: Option<f64>,
    ingress_bps: Option<f64>,
    burst_bytes: Option<f64>,
    peak_bps: Option<f64>,
    latency_s: Option<f64>,
}

#[derive(FromPyObject)]
struct GroupOf {
    name: String,
    members: Vec<String>,
    up_bps: Option<f64>,
    down_bps: Option<f64>,
    parent: Option<String>,
    latency_s: Option<f64>,
}

#[derive(FromPyObject)]
struct ExceptionOf {
    source: String,
    target: String,
    rate_bps: Option<f64>,
    latency_s: Option<f64>,
}

/// A `gavotte.formats.network.Network`.
#[derive(FromPyObject)]
struct NetworkOf {
    hosts: Vec<HostOf>,
    rate_bps: Vec<Vec<Option<f64>>>,
    latency_s: Vec<Vec<Option<f64>>>,
    groups: Vec<GroupOf>,
    sharing: String,
    exceptions: Vec<ExceptionOf>,
}

/// Hosts, the network that connects them, and the links that traffic loads, checked.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct Network(pub(crate) Arc<net::Network>);

#[pymethods]
impl Network {
    /// A missing cap is no limit. A pair without a rate or latency is unknown.
    #[new]
    #[pyo3(signature = (network, sharing = None))]
    fn new(network: NetworkOf, sharing: Option<&str>) -> PyResult<Self> {
        let host_at = places(network.hosts.iter().map(|host| &host.name));
        let group_at = places(network.groups.iter().map(|group| &group.name));
        let burst = |host: &HostOf| {
            let peak = rate(&host.name, host.peak_bps);
            host.burst_bytes.map(|depth| Ok((depth, peak?))).transpose()
        };
        let bursts = network.hosts.iter().map(burst).collect::<PyResult<Vec<_>>>()?;
        let nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let exception = |each: ExceptionOf| {
            Ok(Exception {
                source: place(&host_at, &each.source)?,
                target: place(&host_at, &each.target)?,
                rate_bps: nan(each.rate_bps),
                latency_s: nan(each.latency_s),
            })
        };
        let sparse = SparseParts {
            host_latency_s: network.hosts.iter().map(|host| nan(host.latency_s)).collect(),
            group_latency_s: network.groups.iter().map(|group| nan(group.latency_s)).collect(),
            exceptions: network.exceptions.into_iter().map(exception).collect::<PyResult<_>>()?,
        };
        let mut machine_at: HashMap<String, usize> = HashMap::new();
        let mut host = |(m, host): (usize, HostOf)| {
            Ok(net::Host {
                // A machine has the number of its first host; a host without a machine's name is a machine of its own.
                machine: host.machine.map_or(m, |name| *machine_at.entry(name).or_insert(m)),
                egress: rate(&host.name, host.egress_bps)?,
                ingress: rate(&host.name, host.ingress_bps)?,
                name: host.name,
            })
        };
        let hosts = network.hosts.into_iter().enumerate();
        let hosts = hosts.map(&mut host).collect::<PyResult<_>>()?;
        let group = |group: GroupOf| {
            let members = group.members.iter().map(|name| place(&host_at, name));
            Ok(net::Group {
                members: members.collect::<PyResult<_>>()?,
                up: rate(&group.name, group.up_bps)?,
                down: rate(&group.name, group.down_bps)?,
                parent: group.parent.map(|name| place(&group_at, &name)).transpose()?,
                name: group.name,
            })
        };
        let known = |rows: Vec<Vec<Option<f64>>>| {
            let values = rows.into_iter().flatten();
            values.map(nan).collect()
        };
        let parts = NetworkParts {
            hosts,
            rate_bps: known(network.rate_bps),
            latency_s: known(network.latency_s),
            groups: network.groups.into_iter().map(group).collect::<PyResult<_>>()?,
            sharing: sharing.unwrap_or(&network.sharing).parse().map_err(Error::from)?,
        };
        let mut network = net::Network::new(parts).map_err(Error::from)?;
        if bursts.iter().any(Option::is_some) {
            network = network.with_bursts(bursts).map_err(Error::from)?;
        }
        if !sparse.is_empty() {
            network = network.with_sparse(sparse).map_err(Error::from)?;
        }
        Ok(Self(Arc::new(network)))
    }

    #[getter]
    fn sharing(&self) -> String {
        self.0.sharing().to_string()
    }

    /// The number of each host's machine.
    #[getter]
    fn machine(&self) -> Vec<usize> {
        self.0.hosts().iter().map(|host| host.machine).collect()
    }

    fn pair_bps(&self, m: usize, n: usize) -> f64 {
        self.0.pair_rate(m, n).bps()
    }

    fn latency_s(&self, m: usize, n: usize) -> f64 {
        self.0.latency_s(m, n).unwrap_or(f64::NAN)
    }

    fn egress_bps(&self, host: usize) -> f64 {
        self.0.hosts()[host].egress.bps()
    }

    fn ingress_bps(&self, host: usize) -> f64 {
        self.0.hosts()[host].ingress.bps()
    }

    /// The hosts of a group and of the groups inside it.
    fn inside(&self, group: usize) -> Vec<usize> {
        self.0.members(group).to_vec()
    }

    /// The links between two hosts.
    fn links(&self, m: usize, n: usize) -> Vec<Key> {
        let mut links = Vec::new();
        self.0.for_each_link(m, n, |link| links.push(key(link)));
        links
    }

    /// The links that may decide a completion time, with their rates: pairs, caps by host, groups.
    fn deciding(&self) -> Vec<(Key, f64)> {
        let rated = |link| (key(link), self.0.rate(link).bps());
        self.deciding_links().map(rated).collect()
    }

    /// The number of these links.
    fn deciding_count(&self) -> usize {
        self.deciding_links().count()
    }
}

impl Network {
    fn deciding_links(&self) -> impl Iterator<Item = Link> + '_ {
        let (hosts, groups) = (self.0.hosts().len(), self.0.groups().len());
        let pairs = (self.0.first_pair()..self.0.link_count()).map(|pair| self.0.link(pair));
        let caps = (0..hosts).flat_map(|host| [Link::Egress(host), Link::Ingress(host)]);
        let shared = (0..groups).flat_map(|group| [Link::Up(group), Link::Down(group)]);
        let all = pairs.chain(caps).chain(shared);
        all.filter(|&link| self.0.decides(link))
    }
}

/// A rate as the file formats express it: `None` means no limit.
pub(crate) fn rate(name: &str, bps: Option<f64>) -> PyResult<BitsPerSec> {
    bps.map_or(Ok(BitsPerSec::UNLIMITED), |bps| {
        let wrong = || PyValueError::new_err(format!("a rate of `{name}` is {bps} bit/s; it must be above zero"));
        BitsPerSec::new(bps).ok_or_else(wrong)
    })
}

/// The index of each name.
pub(crate) fn places<'a>(names: impl Iterator<Item = &'a String>) -> HashMap<String, usize> {
    names.cloned().zip(0..).collect()
}

pub(crate) fn place(at: &HashMap<String, usize>, name: &str) -> PyResult<usize> {
    let unknown = || PyValueError::new_err(format!("there is no `{name}` in the network"));
    at.get(name).copied().ok_or_else(unknown)
}

fn key(link: Link) -> Key {
    match link {
        Link::Pair { source, target } => ("pair", source, target),
        Link::Egress(host) => ("out", host, 0),
        Link::Ingress(host) => ("in", host, 0),
        Link::Up(group) => ("up", group, 0),
        Link::Down(group) => ("down", group, 0),
    }
}
