//! The shared bandwidth of a tenant, which the tenant's first host divides among all its hosts.
//!
//! 1. Every quarter of a second, each host sends the first host the rates at which it could send and receive.
//! 2. The first host divides the tenant's bandwidth ([`gavotte_limiter::divide`]) and sends each host its share.
//! 3. No host ever has less than its own guarantee.
//! 4. A host that receives no share for a second has its own guarantee and no more. The shares therefore never exceed
//!    the tenant's total, whichever host is lost.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gavotte_limiter::{Need, Partition, divide};
use gavotte_net::Bandwidth;

use crate::guarantee::duty::{Duty, Hose};
use crate::guarantee::talk::Matter;

/// How often hosts report their needs.
const PERIOD_S: f64 = 0.25;

/// Rates for sending and receiving, in bit/s.
type Ways = [f64; 2];

/// A host's part in its tenant.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// On the dividing host: the needs of the hosts, and when each was received.
    wanted: BTreeMap<IpAddr, (f64, Ways)>,
    /// This host's share, and when it was received.
    given: Option<(f64, Ways)>,
    bytes: [u64; 2],
    since_s: f64,
}

impl Part {
    /// Records traffic that was sent (way 0) or received (way 1).
    pub(super) fn count(&mut self, way: usize, bytes: u64) {
        self.bytes[way] += bytes;
    }

    /// Handles a datagram of another host about the tenant.
    pub(super) fn hear(&mut self, duty: &Duty, from: IpAddr, now_s: f64, matter: Matter) {
        let Some(tenant) = &duty.tenant else {
            return;
        };
        let first = tenant.hosts[0];
        match matter {
            Matter::Need(ways) if first == duty.own.address && tenant.hosts.contains(&from) => {
                self.wanted.insert(from, (now_s, ways));
            }
            Matter::Share(ways) if first == from => self.given = Some((now_s, ways)),
            _ => {}
        }
    }

    /// The rates that the host is currently guaranteed to send and receive: its own guarantees or more. `None` =
    /// nothing is guaranteed.
    pub(super) fn hoses_bps(&self, duty: &Duty, now_s: f64) -> [Option<f64>; 2] {
        let silence_s = duty.parameters.partition.silence_s;
        let given = self.given.filter(|(at_s, _)| now_s - at_s <= silence_s);
        let own = [duty.own.egress_bps, duty.own.ingress_bps];
        std::array::from_fn(|way| own[way].map(|bps| given.map_or(bps, |(_, ways)| ways[way].max(bps))))
    }

    /// The datagrams to send, once a period.
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
        let own = duty.own.address;
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
                    let heard = self.wanted.get(&hose.address);
                    // A silent host gets its own guarantee and no more, since it may not receive its share either.
                    let most_bps = if heard.is_some() { most_bps } else { least_bps };
                    Need {
                        least_bps: least_bps.unwrap_or(0.0),
                        demand_bps: heard.map_or(0.0, |(_, ways)| ways[way]),
                        most_bps: most_bps.unwrap_or(f64::INFINITY),
                    }
                })
                .collect();
            let own_bps = needs.iter().map(|need| need.least_bps).sum();
            divide(Bandwidth(total_bps.unwrap_or(own_bps)), &needs)
        };
        let egress = way(0, tenant.egress_bps, |hose| (hose.egress_bps, hose.egress_limit_bps));
        let ingress = way(1, tenant.ingress_bps, |hose| (hose.ingress_bps, hose.ingress_limit_bps));
        let mut shares = Vec::new();
        for ((host, egress_bps), ingress_bps) in tenant.hosts.iter().zip(egress).zip(ingress) {
            if *host == own {
                self.given = Some((now_s, [egress_bps, ingress_bps]));
            } else if self.wanted.contains_key(host) {
                shares.push((*host, Matter::Share([egress_bps, ingress_bps])));
            }
        }
        shares
    }
}
