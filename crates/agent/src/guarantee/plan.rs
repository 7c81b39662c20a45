//! What a controller wants guaranteed, checked.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use gavotte_limiter::{Allocation, Parameters};

use crate::contract::agents::{GuardMode, GuardRequest, GuardedHost};

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
    pub place: SocketAddrV4,
    /// What it may send at least, bit/s; `None` = nothing is guaranteed, and nothing limited.
    pub egress_bps: Option<f64>,
    /// What it may receive at least, bit/s.
    pub ingress_bps: Option<f64>,
    /// What it may send at most, bit/s.
    pub egress_limit_bps: Option<f64>,
    /// What it may receive at most, bit/s.
    pub ingress_limit_bps: Option<f64>,
}

/// All that an agent must know to keep its part.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The agent's own host.
    pub own: Hose,
    /// The others, by address.
    pub peers: BTreeMap<Ipv4Addr, Hose>,
    /// Whether marks count, and packets are made to bear them.
    pub ecn: bool,
    /// Whether no pair gets more than its guarantee.
    pub fixed: bool,
    /// The limiter's constants.
    pub parameters: Parameters,
    /// What the agents' datagrams are sealed with.
    pub key: [u8; 32],
}

impl Plan {
    /// Checks a request.
    ///
    /// # Errors
    /// Text that names what makes no sense.
    pub fn new(request: &GuardRequest) -> Result<Self, String> {
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
            set(&mut parameters, &constant.name, constant.value)?;
        }
        let (mut own, mut peers, mut names) = (None, BTreeMap::new(), HashSet::new());
        for host in &request.hosts {
            let hose = hose(host)?;
            if !names.insert(hose.name.clone()) {
                return Err(format!("host `{}` appears twice", hose.name));
            }
            if hose.name == request.self_ {
                own = Some(hose);
            } else if let Some(other) = peers.insert(*hose.place.ip(), hose) {
                return Err(format!("host `{}` has the address of another", other.name));
            }
        }
        let own = own.ok_or_else(|| format!("self: `{}` is none of the hosts", request.self_))?;
        if peers.contains_key(own.place.ip()) {
            return Err(format!("host `{}` has the address of another", own.name));
        }
        Ok(Self {
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

/// Sets one constant by its name in the limiter.
fn set(parameters: &mut Parameters, name: &str, value: f64) -> Result<(), String> {
    let Parameters {
        partition, allocation, ..
    } = parameters;
    let constant = match name {
        "guarantees" => {
            allocation.guarantees = value != 0.0;
            return Ok(());
        }
        "delta_bps" => &mut allocation.delta_bps,
        "time_scalar" => &mut allocation.time_scalar,
        "loss_decrease" => &mut allocation.loss_decrease,
        "mark_decrease" => &mut allocation.mark_decrease,
        "hold_per_loss" => &mut allocation.hold_per_loss,
        "hold_per_mark" => &mut allocation.hold_per_mark,
        "hold_most_s" => &mut allocation.hold_most_s,
        "rate_caution" => &mut allocation.rate_caution,
        "pooled_loss" => &mut allocation.pooled_loss,
        "allocation_period_s" => &mut allocation.period_s,
        "partition_period_s" => &mut partition.period_s,
        _ => return Err(format!("no constant `{name}` of the limiter")),
    };
    *constant = value;
    Ok(())
}

fn hose(host: &GuardedHost) -> Result<Hose, String> {
    let address = match host.address.parse::<IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(IpAddr::V4(address)) if !address.is_unspecified() && !address.is_multicast() => address,
        _ => return Err(format!("host `{}`: no IPv4 host at `{}`", host.name, host.address)),
    };
    let port = u16::try_from(host.data_port).ok().and_then(|port| port.checked_add(1));
    let port = port.ok_or_else(|| format!("host `{}`: no port {}", host.name, host.data_port))?;
    let rate = |bps: f64| match bps {
        0.0 => Ok(None),
        bps if bps > 0.0 && bps <= MAX_BPS => Ok(Some(bps)),
        bps => Err(format!("host `{}`: no rate of {bps} bit/s", host.name)),
    };
    Ok(Hose {
        name: host.name.clone(),
        place: SocketAddrV4::new(address, port),
        egress_bps: rate(host.egress_bps)?,
        ingress_bps: rate(host.ingress_bps)?,
        egress_limit_bps: rate(host.egress_limit_bps)?,
        ingress_limit_bps: rate(host.ingress_limit_bps)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::agents::Constant;

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
        Plan::new(&request).unwrap_err()
    }

    #[test]
    fn senseless_requests_are_named() {
        assert!(refused(|r| r.key.truncate(3)).contains("key"));
        assert!(refused(|r| r.self_ = "x".into()).contains("`x`"));
        assert!(refused(|r| r.hosts[1].address = "fd00::1".into()).contains("`b`"));
        assert!(refused(|r| r.hosts[1].address = "10.0.0.3".into()).contains("address of another"));
        assert!(refused(|r| r.hosts[1].name = "c".into()).contains("twice"));
        assert!(refused(|r| r.hosts[2].egress_bps = f64::NAN).contains("`c`"));
        assert!(refused(|r| r.constants = vec![constant("speed", 1.0)]).contains("`speed`"));
        assert!(refused(|r| r.constants = vec![constant("delta_bps", -1.0)]).contains("`delta_bps`"));
        assert!(refused(|r| r.hosts[2].data_port = 65_535).contains("65535"));
    }

    #[test]
    fn a_fixed_rate_fits_both_hoses() {
        let plan = Plan::new(&request()).unwrap();
        let target = &plan.peers[&Ipv4Addr::new(10, 0, 0, 2)];
        assert!((plan.fixed_bps(target) - 15e6).abs() < 1.0);
    }
}
