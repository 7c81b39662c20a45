//! What a controller wants guaranteed, checked.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use gavotte_limiter::{Allocation, Parameters};

use crate::contract::agents::{GuardMode, GuardRemains, GuardRequest, GuardedHost, GuardedInside};

/// Most hosts of one set.
const MAX_HOSTS: usize = 4000;
/// No host sends or receives faster, bit/s.
const MAX_BPS: f64 = 1e13;

/// One host under guarantees.
#[derive(Clone, Debug, PartialEq)]
pub struct Hose {
    /// Its name.
    pub name: String,
    /// Where its agent hears of guarantees.
    pub place: SocketAddr,
    /// What it may send at least, bit/s; `None` = nothing is guaranteed, and nothing limited.
    pub egress_bps: Option<f64>,
    /// What it may receive at least, bit/s.
    pub ingress_bps: Option<f64>,
    /// What it may send at most, bit/s.
    pub egress_limit_bps: Option<f64>,
    /// What it may receive at most, bit/s.
    pub ingress_limit_bps: Option<f64>,
}

/// Where a container is, on the agent's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Behind the host's end of a veth.
    Device(String),
    /// Of the processes of a cgroup, below `/sys/fs/cgroup`.
    Cgroup(String),
}

/// What the hosts of a tenant have together.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The hosts' addresses. The first divides what they have among them.
    pub hosts: Vec<IpAddr>,
    /// What they may send at least, bit/s; `None` = what each has.
    pub egress_bps: Option<f64>,
    /// What they may receive at least.
    pub ingress_bps: Option<f64>,
}

/// All that an agent must know to keep its part.
#[derive(Clone, Debug)]
pub struct Duty {
    /// The agent's own host, or a container there.
    pub own: Hose,
    /// Where the container is; `None` for the host itself.
    pub inside: Option<Inside>,
    /// Whether the guarantees stay as static limits if the agent is killed.
    pub remains: bool,
    /// The tenant that it is a host of, if that has more than its hosts.
    pub tenant: Option<Tenant>,
    /// The others, by address.
    pub peers: BTreeMap<IpAddr, Hose>,
    /// Whether marks count, and packets are made to bear them.
    pub ecn: bool,
    /// Whether no pair gets more than its guarantee.
    pub fixed: bool,
    /// The limiter's constants.
    pub parameters: Parameters,
    /// What the agents' datagrams are sealed with.
    pub key: [u8; 32],
}

impl Duty {
    /// Checks a request: the duties of the host, if it has guarantees, and of its containers.
    ///
    /// # Errors
    /// Text that names what makes no sense.
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
        let key = request.key.as_slice().try_into();
        let key = key.map_err(|_| format!("key: 32 bytes, not {}", request.key.len()))?;
        if request.hosts.len() > MAX_HOSTS {
            return Err(format!("hosts: at most {MAX_HOSTS}, not {}", request.hosts.len()));
        }
        let ecn = request.mode == i32::from(GuardMode::Ecn);
        let mut parameters = Parameters::default();
        if !ecn {
            parameters.allocation = Allocation::loss();
        }
        for constant in &request.constants {
            if !constant.value.is_finite() || constant.value < 0.0 {
                return Err(format!("constant `{}`: not {}", constant.name, constant.value));
            }
            parameters.set(&constant.name, constant.value).map_err(|names| {
                format!(
                    "no constant `{}` of the limiter; there are {}",
                    constant.name,
                    names.join(", ")
                )
            })?;
        }
        let (mut own, mut peers, mut names) = (None, BTreeMap::new(), HashSet::new());
        for host in &request.hosts {
            let hose = hose(host)?;
            if !names.insert(hose.name.clone()) {
                return Err(format!("host `{}` appears twice", hose.name));
            }
            if hose.name == name {
                own = Some(hose);
            } else if let Some(other) = peers.insert(hose.place.ip(), hose) {
                return Err(format!("host `{}` has the address of another", other.name));
            }
        }
        let own = own.ok_or_else(|| format!("self: `{name}` is none of the hosts"))?;
        if peers.contains_key(&own.place.ip()) {
            return Err(format!("host `{}` has the address of another", own.name));
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
            ecn,
            fixed: request.fixed,
            parameters,
            key,
        })
    }

    /// What a pair may have though nobody says how many others are active: an equal part of either hose, bit/s.
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
        _ => Err(format!("container `{name}`: either a device or a cgroup")),
    }
}

/// The tenant of a host, when it has more than its hosts.
fn tenant(request: &GuardRequest, own: &Hose, peers: &BTreeMap<IpAddr, Hose>) -> Result<Option<Tenant>, String> {
    let Some(tenant) = request.tenants.iter().find(|tenant| tenant.hosts.contains(&own.name)) else {
        return Ok(None);
    };
    let address = |name: &String| {
        let peer = peers.values().find(|peer| peer.name == *name);
        peer.or((own.name == *name).then_some(own))
            .map(|hose| hose.place.ip())
            .ok_or_else(|| format!("tenant `{}`: `{name}` is none of the hosts", tenant.name))
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
        bps => Err(format!("{what}: no rate of {bps} bit/s")),
    }
}

fn hose(host: &GuardedHost) -> Result<Hose, String> {
    let address = match host.address.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(address) if !address.is_unspecified() && !address.is_multicast() => address,
        _ => return Err(format!("host `{}`: no host at `{}`", host.name, host.address)),
    };
    let port = u16::try_from(host.data_port).ok().and_then(|port| port.checked_add(1));
    let port = port.ok_or_else(|| format!("host `{}`: no port {}", host.name, host.data_port))?;
    let what = format!("host `{}`", host.name);
    let rate = |bps: f64| rate(&what, bps);
    Ok(Hose {
        name: host.name.clone(),
        place: SocketAddr::new(address, port),
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
        assert!(refused(|r| r.self_ = "x".into()).contains("`x`"));
        assert!(refused(|r| r.hosts[1].address = "fd00::1".into()).contains("`b`: one has IPv4, one IPv6"));
        assert!(refused(|r| r.hosts[1].address = "ff02::1".into()).contains("`b`"));
        assert!(refused(|r| r.self_.clear()).contains("neither the host"));
        assert!(refused(|r| r.inside = vec![container("b", "", "")]).contains("container `b`"));
        assert!(refused(|r| r.inside = vec![container("b", "veth0", ""); 2]).contains("twice"));
        assert!(refused(|r| r.tenants = vec![tenant(&["a", "y"])]).contains("`y`"));
        assert!(refused(|r| r.hosts[1].address = "10.0.0.3".into()).contains("address of another"));
        assert!(refused(|r| r.hosts[1].name = "c".into()).contains("twice"));
        assert!(refused(|r| r.hosts[2].egress_bps = f64::NAN).contains("`c`"));
        assert!(refused(|r| r.constants = vec![constant("speed", 1.0)]).contains("`speed`"));
        assert!(refused(|r| r.constants = vec![constant("delta_bps", -1.0)]).contains("`delta_bps`"));
        assert!(refused(|r| r.hosts[2].data_port = 65_535).contains("65535"));
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
