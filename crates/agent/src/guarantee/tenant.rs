//! What the hosts of a tenant have together, divided among them by the first of them.
//!
//! Every quarter of a second each host tells the first what it would send and receive; that divides
//! ([`gavotte_limiter::divide`]) and tells each its part. No host ever has less than its own guarantee, and a host that does
//! hear for a second has that and no more, so that parts sum to no more than the tenant's, whoever is lost.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gavotte_limiter::{Need, Partition, divide};

use crate::guarantee::duty::{Duty, Hose};
use crate::guarantee::talk::Matter;

/// How often hosts say what they want.
const PERIOD_S: f64 = 0.25;

/// What a host sends and receives, or may; bit/s.
type Ways = [f64; 2];

/// A host's part in its tenant.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// What others want, and when they said so; of the dividing host.
    wanted: BTreeMap<IpAddr, (f64, Ways)>,
    /// What this host may have, and when it heard so.
    given: Option<(f64, Ways)>,
    bytes: [u64; 2],
    since_s: f64,
}

impl Part {
    /// Notes what was sent and received.
    pub(super) fn count(&mut self, way: usize, bytes: u64) {
        self.bytes[way] += bytes;
    }

    /// Takes what another host says of it.
    pub(super) fn hear(&mut self, duty: &Duty, from: IpAddr, now_s: f64, matter: Matter) {
        let Some(tenant) = &duty.tenant else {
            return;
        };
        let first = tenant.hosts[0];
        match matter {
            Matter::Need(ways) if first == duty.own.place.ip() && tenant.hosts.contains(&from) => {
                self.wanted.insert(from, (now_s, ways));
            }
            Matter::Share(ways) if first == from => self.given = Some((now_s, ways)),
            _ => {}
        }
    }

    /// What the host may send and receive at least now: its own guarantees or more. `None` = nothing is guaranteed.
    pub(super) fn hoses_bps(&self, duty: &Duty, now_s: f64) -> [Option<f64>; 2] {
        let silence_s = duty.parameters.partition.silence_s;
        let given = self.given.filter(|(at_s, _)| now_s - at_s <= silence_s);
        let own = [duty.own.egress_bps, duty.own.ingress_bps];
        std::array::from_fn(|way| own[way].map(|bps| given.map_or(bps, |(_, ways)| ways[way].max(bps))))
    }

    /// What to tell whom, once a period.
    pub(super) fn say(&mut self, duty: &Duty, now_s: f64) -> Vec<(IpAddr, Matter)> {
        let elapsed_s = now_s - self.since_s;
        let Some(tenant) = duty.tenant.as_ref().filter(|_| elapsed_s >= PERIOD_S) else {
            return Vec::new();
        };
        let Partition {
            full_use,
            growth,
            silence_s,
            ..
        } = duty.parameters.partition;
        let hoses_bps = self.hoses_bps(duty, now_s);
        let wanted: Ways = std::array::from_fn(|way| {
            let rate_bps = 8.0 * self.bytes[way] as f64 / elapsed_s;
            let full = hoses_bps[way].is_some_and(|bps| rate_bps >= full_use * bps);
            if full { f64::INFINITY } else { growth * rate_bps }
        });
        (self.bytes, self.since_s) = ([0; 2], now_s);
        let own = duty.own.place.ip();
        if tenant.hosts[0] != own {
            return vec![(tenant.hosts[0], Matter::Need(wanted))];
        }
        self.wanted.insert(own, (now_s, wanted));
        self.wanted
            .retain(|host, (at_s, _)| now_s - *at_s <= silence_s && tenant.hosts.contains(host));
        let hoses: Vec<&Hose> = tenant
            .hosts
            .iter()
            .map(|host| duty.peers.get(host).unwrap_or(&duty.own))
            .collect();
        let way = |way: usize, total_bps: Option<f64>, own: fn(&Hose) -> (Option<f64>, Option<f64>)| -> Vec<f64> {
            let needs: Vec<Need> = hoses
                .iter()
                .map(|hose| {
                    let (least_bps, most_bps) = own(hose);
                    let heard = self.wanted.get(&hose.place.ip());
                    // Who is not heard has its own guarantee and no more: it does not hear either.
                    let most_bps = if heard.is_some() { most_bps } else { least_bps };
                    Need {
                        least_bps: least_bps.unwrap_or(0.0),
                        demand_bps: heard.map_or(0.0, |(_, ways)| ways[way]),
                        most_bps: most_bps.unwrap_or(f64::INFINITY),
                    }
                })
                .collect();
            let own_bps = needs.iter().map(|need| need.least_bps).sum();
            divide(total_bps.unwrap_or(own_bps), &needs)
        };
        let egress = way(0, tenant.egress_bps, |hose| (hose.egress_bps, hose.egress_limit_bps));
        let ingress = way(1, tenant.ingress_bps, |hose| (hose.ingress_bps, hose.ingress_limit_bps));
        let mut told = Vec::new();
        for ((host, egress_bps), ingress_bps) in tenant.hosts.iter().zip(egress).zip(ingress) {
            if *host == own {
                self.given = Some((now_s, [egress_bps, ingress_bps]));
            } else if self.wanted.contains_key(host) {
                told.push((*host, Matter::Share([egress_bps, ingress_bps])));
            }
        }
        told
    }
}
