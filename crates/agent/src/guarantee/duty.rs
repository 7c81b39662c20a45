//! Checks the guarantees that a controller requests.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use gavotte_limiter::Parameters;

use crate::contract::agents::{GuardMode, GuardRemains, GuardRequest, GuardedHost, GuardedInside};
use crate::plane::zone;

/// Largest number of hosts in one set.
const MAX_HOSTS: usize = 4000;
/// Largest number of further addresses of a host.
const MAX_FURTHER: usize = 16;
/// Highest rate of a host, in bit/s.
const MAX_BPS: f64 = 1e13;

/// The key of two agents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PairKey(pub [u8; 32]);

impl std::fmt::Debug for PairKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PairKey(..)")
    }
}

/// One host under guarantees.
#[derive(Clone, Debug, PartialEq)]
pub struct Hose {
    /// The host's name.
    pub name: String,
    /// The address that names the host in the set, the same for all agents.
    pub address: IpAddr,
    /// The host's position in the set, by which datagrams name it.
    pub position: u16,
    /// Where this agent reaches the host: the address that packets are sent to, and the port for messages about
    /// guarantees.
    pub place: SocketAddr,
    /// Further addresses of the agent's own host; empty for other hosts.
    pub further: Vec<IpAddr>,
    /// The key of the datagrams between this agent and that of the host.
    pub key: PairKey,
    /// The rate that the host is guaranteed to send, in bit/s; `None` = neither guaranteed nor limited.
    pub egress_bps: Option<f64>,
    /// The rate that the host is guaranteed to receive, in bit/s.
    pub ingress_bps: Option<f64>,
    /// The highest rate at which the host may send, in bit/s.
    pub egress_limit_bps: Option<f64>,
    /// The highest rate at which the host may receive, in bit/s.
    pub ingress_limit_bps: Option<f64>,
}

/// The container's place on the agent's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Behind the host's end of a veth.
    Device(String),
    /// In the network of the processes of a cgroup below `/sys/fs/cgroup`.
    Cgroup(String),
}

/// The bandwidth that the hosts of a tenant share.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The addresses that name the hosts. The first host divides the tenant's bandwidth among all.
    pub hosts: Vec<IpAddr>,
    /// The rate that the hosts together are guaranteed to send, in bit/s; `None` = the sum of their own guarantees.
    pub egress_bps: Option<f64>,
    /// The rate that the hosts together are guaranteed to receive, in bit/s.
    pub ingress_bps: Option<f64>,
}

/// Everything that an agent needs to keep the guarantees of one host or container.
#[derive(Clone, Debug)]
pub struct Duty {
    /// The agent's own host, or a container on it.
    pub own: Hose,
    /// The container's place; `None` for the host itself.
    pub inside: Option<Inside>,
    /// Whether the guarantees stay as static limits if the agent is killed.
    pub remains: bool,
    /// The host's tenant, if it has guarantees beyond those of its hosts.
    pub tenant: Option<Tenant>,
    /// The other hosts, by the address that names them.
    pub peers: BTreeMap<IpAddr, Hose>,
    /// The addresses that name all hosts of the set, in its order.
    pub names: Vec<IpAddr>,
    /// The signs of congestion that count.
    pub mode: GuardMode,
    /// Whether every pair is limited to its guarantee.
    pub fixed: bool,
    /// The limiter's constants.
    pub parameters: Parameters,
}

impl Duty {
    /// Whether the limiter uses ECN marks, and packets are made ECN-capable.
    pub fn ecn(&self) -> bool {
        self.mode != GuardMode::Loss
    }

    /// Whether waiting counts even where packets are marked.
    pub fn waits(&self) -> bool {
        self.mode != GuardMode::Ecn
    }

    /// Checks a request. Returns the duties of the host, if it has guarantees, and of its containers.
    ///
    /// # Errors
    /// A text that names the invalid field.
    pub fn all(request: &GuardRequest) -> Result<Vec<Self>, String> {
        let own = Some(request.self_.as_str()).filter(|name| !name.is_empty());
        let own = own.map(|name| Self::new(request, name, None));
        let inside = request
            .inside
            .iter()
            .map(|each| Self::new(request, &each.name, Some(inside(each)?)));
        let duties: Vec<Self> = own.into_iter().chain(inside).collect::<Result<_, _>>()?;
        let names: HashSet<_> = duties.iter().map(|duty| &duty.own.name).collect();
        match duties.len() {
            0 => Err("self: neither the host nor a container has a guarantee".into()),
            all if names.len() < all => Err("inside: a container appears twice".into()),
            _ => Ok(duties),
        }
    }

    fn new(request: &GuardRequest, name: &str, inside: Option<Inside>) -> Result<Self, String> {
        if request.key.len() != 32 {
            return Err(format!("key: 32 bytes, not {}", request.key.len()));
        }
        if request.hosts.len() > MAX_HOSTS {
            return Err(format!("hosts: at most {MAX_HOSTS}, not {}", request.hosts.len()));
        }
        let mode = GuardMode::try_from(request.mode).map_err(|_| format!("mode: {} is unknown", request.mode))?;
        let mut parameters = Parameters::default();
        if mode == GuardMode::Loss {
            parameters.allocation = parameters.delayed;
        }
        for constant in &request.constants {
            if !constant.value.is_finite() || constant.value < 0.0 {
                return Err(format!("constant `{}`: not {}", constant.name, constant.value));
            }
            parameters.set(&constant.name, constant.value).map_err(|names| {
                format!(
                    "the limiter has no constant `{}`; its constants are {}",
                    constant.name,
                    names.join(", ")
                )
            })?;
        }
        let (mut own, mut peers, mut names) = (None, BTreeMap::new(), HashSet::new());
        let mut addresses = Vec::new();
        for (position, host) in (0..).zip(&request.hosts) {
            let hose = hose(host, position)?;
            addresses.push(hose.address);
            if !names.insert(hose.name.clone()) {
                return Err(format!("host `{}` appears twice", hose.name));
            }
            if hose.name == name {
                own = Some(hose);
            } else if let Some(other) = peers.insert(hose.address, hose) {
                return Err(format!("host `{}` has the same address as another host", other.name));
            }
        }
        let own = own.ok_or_else(|| format!("self: `{name}` is not one of the hosts"))?;
        if peers.contains_key(&own.address) {
            return Err(format!("host `{}` has the same address as another host", own.name));
        }
        if let Some(other) = peers.values().find(|peer| peer.place.is_ipv4() != own.place.is_ipv4()) {
            return Err(format!(
                "hosts `{}` and `{}`: one has IPv4, one IPv6",
                own.name, other.name
            ));
        }
        let tenant = tenant(request, &own, &peers)?;
        Ok(Self {
            remains: request.remains == i32::from(GuardRemains::Static),
            inside,
            tenant,
            own,
            peers,
            names: addresses,
            mode,
            fixed: request.fixed,
            parameters,
        })
    }

    /// The other host at a position of the set.
    pub fn at(&self, position: u16) -> Option<IpAddr> {
        self.names.get(usize::from(position)).copied()
    }

    /// A pair's rate if no agent counts the active pairs: an equal part of either hose, in bit/s.
    pub fn fixed_bps(&self, target: &Hose) -> f64 {
        let others = self.peers.len().max(1) as f64;
        let part = |hose: Option<f64>| hose.unwrap_or(f64::INFINITY) / others;
        part(self.own.egress_bps).min(part(target.ingress_bps))
    }
}

fn inside(container: &GuardedInside) -> Result<Inside, String> {
    let GuardedInside { name, device, cgroup } = container;
    match (device.is_empty(), cgroup.is_empty()) {
        (false, true) => Ok(Inside::Device(device.clone())),
        (true, false) => Ok(Inside::Cgroup(cgroup.clone())),
        _ => Err(format!("container `{name}`: name either a device or a cgroup")),
    }
}

/// Returns the tenant of a host, if the tenant has guarantees beyond those of its hosts.
fn tenant(request: &GuardRequest, own: &Hose, peers: &BTreeMap<IpAddr, Hose>) -> Result<Option<Tenant>, String> {
    let Some(tenant) = request.tenants.iter().find(|tenant| tenant.hosts.contains(&own.name)) else {
        return Ok(None);
    };
    let address = |name: &String| {
        let peer = peers.values().find(|peer| peer.name == *name);
        peer.or((own.name == *name).then_some(own))
            .map(|hose| hose.address)
            .ok_or_else(|| format!("tenant `{}`: `{name}` is not one of the hosts", tenant.name))
    };
    let what = format!("tenant `{}`", tenant.name);
    let (egress_bps, ingress_bps) = (rate(&what, tenant.egress_bps)?, rate(&what, tenant.ingress_bps)?);
    let hosts = tenant.hosts.iter().map(address).collect::<Result<_, _>>()?;
    Ok((egress_bps.is_some() || ingress_bps.is_some()).then_some(Tenant {
        hosts,
        egress_bps,
        ingress_bps,
    }))
}

fn rate(what: &str, bps: f64) -> Result<Option<f64>, String> {
    match bps {
        0.0 => Ok(None),
        bps if bps > 0.0 && bps <= MAX_BPS => Ok(Some(bps)),
        bps => Err(format!("{what}: {bps} bit/s is not a rate")),
    }
}

fn hose(host: &GuardedHost, position: u16) -> Result<Hose, String> {
    let port = u16::try_from(host.data_port).ok().and_then(|port| port.checked_add(1));
    let port = port.ok_or_else(|| format!("host `{}`: {} is not a data port", host.name, host.data_port))?;
    let what = format!("host `{}`", host.name);
    let bare = |text: &str| {
        let address = zone::parse_bare(text, port).map(|address| address.ip());
        address.map_err(|reason| format!("{what}: {reason}"))
    };
    let address = bare(&host.address)?;
    let reached = if host.reached.is_empty() {
        &host.address
    } else {
        &host.reached
    };
    let place = zone::parse(reached, port).map_err(|reason| format!("{what}: {reason}"))?;
    if host.further.len() > MAX_FURTHER {
        return Err(format!(
            "{what}: at most {MAX_FURTHER} further addresses, not {}",
            host.further.len()
        ));
    }
    let key = host.key.as_slice().try_into();
    let key = key.map_err(|_| format!("{what}: a key of 32 bytes, not {}", host.key.len()))?;
    let further = host.further.iter().map(|text| bare(text));
    let rate = |bps: f64| rate(&what, bps);
    Ok(Hose {
        name: host.name.clone(),
        address,
        position,
        place,
        further: further.collect::<Result<_, _>>()?,
        key: PairKey(key),
        egress_bps: rate(host.egress_bps)?,
        ingress_bps: rate(host.ingress_bps)?,
        egress_limit_bps: rate(host.egress_limit_bps)?,
        ingress_limit_bps: rate(host.ingress_limit_bps)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::agents::{Constant, GuardedTenant};

    fn host(name: &str, address: &str) -> GuardedHost {
        GuardedHost {
            name: name.into(),
            address: address.into(),
            data_port: 7411,
            egress_bps: 45e6,
            ingress_bps: 30e6,
            key: vec![2; 32],
            ..GuardedHost::default()
        }
    }

    fn constant(name: &str, value: f64) -> Constant {
        Constant {
            name: name.into(),
            value,
        }
    }

    fn container(name: &str, device: &str, cgroup: &str) -> GuardedInside {
        GuardedInside {
            name: name.into(),
            device: device.into(),
            cgroup: cgroup.into(),
        }
    }

    fn tenant(hosts: &[&str]) -> GuardedTenant {
        GuardedTenant {
            name: "t".into(),
            hosts: hosts.iter().map(|&name| name.into()).collect(),
            egress_bps: 100e6,
            ingress_bps: 0.0,
        }
    }

    fn request() -> GuardRequest {
        GuardRequest {
            run_id: "run".into(),
            key: vec![1; 32],
            self_: "a".into(),
            hosts: vec![host("a", "10.0.0.1"), host("b", "10.0.0.2"), host("c", "10.0.0.3")],
            ..GuardRequest::default()
        }
    }

    fn refused(change: impl FnOnce(&mut GuardRequest)) -> String {
        let mut request = request();
        change(&mut request);
        Duty::all(&request).unwrap_err()
    }

    #[test]
    fn senseless_requests_are_named() {
        assert!(refused(|r| r.key.truncate(3)).contains("key"));
        assert!(refused(|r| r.hosts[1].key.truncate(3)).contains("`b`: a key of 32 bytes"));
        assert!(refused(|r| r.self_ = "x".into()).contains("`x`"));
        assert!(refused(|r| r.hosts[1].address = "fd00::1".into()).contains("`b`: one has IPv4, one IPv6"));
        assert!(refused(|r| r.hosts[1].address = "ff02::1".into()).contains("`b`"));
        assert!(refused(|r| r.self_.clear()).contains("neither the host"));
        assert!(refused(|r| r.inside = vec![container("b", "", "")]).contains("container `b`"));
        assert!(refused(|r| r.inside = vec![container("b", "veth0", ""); 2]).contains("twice"));
        assert!(refused(|r| r.tenants = vec![tenant(&["a", "y"])]).contains("`y`"));
        assert!(refused(|r| r.hosts[1].address = "10.0.0.3".into()).contains("same address"));
        assert!(refused(|r| r.hosts[1].reached = "::".into()).contains("`b`: `::`"));
        assert!(refused(|r| r.hosts[0].further = vec!["c".into()]).contains("`a`: `c`"));
        assert!(refused(|r| r.hosts[0].further = vec!["10.0.0.4".into(); 17]).contains("at most 16"));
        assert!(refused(|r| r.hosts[1].name = "c".into()).contains("twice"));
        assert!(refused(|r| r.hosts[2].egress_bps = f64::NAN).contains("`c`"));
        assert!(refused(|r| r.constants = vec![constant("speed", 1.0)]).contains("`speed`"));
        assert!(refused(|r| r.constants = vec![constant("delta_bps", -1.0)]).contains("`delta_bps`"));
        assert!(refused(|r| r.hosts[2].data_port = 65_535).contains("65535"));
    }

    #[test]
    fn each_mode_has_its_signs() {
        let signs = [GuardMode::Auto, GuardMode::Ecn, GuardMode::Loss].map(|mode| {
            let duty = Duty::all(&GuardRequest {
                mode: mode.into(),
                ..request()
            });
            let duty = duty.unwrap().remove(0);
            (duty.ecn(), duty.waits())
        });
        assert_eq!(signs, [(true, true), (true, false), (false, true)]);
    }

    #[test]
    fn hosts_may_be_reached_at_another_address() {
        let mut request = request();
        request.hosts[2].reached = "192.0.2.7".into();
        request.hosts[0].further = vec!["192.0.2.8".into()];
        let duty = Duty::all(&request).unwrap().remove(0);
        let named = duty.at(2).unwrap();
        assert_eq!(named, IpAddr::from([10, 0, 0, 3]));
        let host = &duty.peers[&named];
        assert_eq!((host.place.to_string().as_str(), host.position), ("192.0.2.7:7412", 2));
        assert_eq!(duty.own.further, [IpAddr::from([192, 0, 2, 8])]);
        assert_eq!(duty.at(3), None);
    }

    #[test]
    fn a_fixed_rate_fits_both_hoses() {
        let duty = Duty::all(&request()).unwrap().remove(0);
        let target = &duty.peers[&IpAddr::from([10, 0, 0, 2])];
        assert!((duty.fixed_bps(target) - 15e6).abs() < 1.0);
    }

    #[test]
    fn containers_and_tenants_are_planned_for() {
        let mut request = request();
        request.self_.clear();
        request.inside = vec![container("b", "veth0", ""), container("c", "", "pod/c")];
        request.tenants = vec![tenant(&["c", "a"])];
        let duties = Duty::all(&request).unwrap();
        assert_eq!(duties[0].inside, Some(Inside::Device("veth0".into())));
        assert_eq!((duties[0].own.name.as_str(), &duties[0].tenant), ("b", &None));
        let tenant = duties[1].tenant.as_ref().unwrap();
        assert_eq!(tenant.hosts, [IpAddr::from([10, 0, 0, 3]), IpAddr::from([10, 0, 0, 1])]);
        assert_eq!((tenant.egress_bps, tenant.ingress_bps), (Some(100e6), None));
    }
}
