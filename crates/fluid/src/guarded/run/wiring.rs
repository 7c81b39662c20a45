//! Creates ports, and the paths of pairs over them.

use std::collections::BTreeMap;

use gavotte_net::{Bandwidth, Volume};

use super::super::hosts::Hose;
use super::super::pair::ActivePair;
use super::super::port::Port;
use super::super::protection::Method;
use super::Run;
use crate::platform::LinkId;

/// Largest number of ports on a path.
const MOST_LEVELS: usize = 32;

/// A limit on a path: its link, if it has one, a key of its own, and the rate.
type Limit = (Option<LinkId>, usize, Bandwidth);

impl Run<'_> {
    /// Creates the pairs with their paths over ports.
    pub(super) fn wire(&mut self) {
        let flows = &self.workload.flows;
        let mut places = BTreeMap::new();
        let mut numbers: BTreeMap<(LinkId, usize), u32> = BTreeMap::new();
        let mut route = Vec::new();
        for flow in 0..flows.len() {
            let (source, target) = (flows.source[flow] as usize, flows.target[flow] as usize);
            let place = *places.entry((source, target)).or_insert(self.pairs.len());
            self.pair_of.push(place);
            if place < self.pairs.len() {
                continue;
            }
            route.clear();
            self.platform.route(source, target, place as u64, &mut route);
            let limits = self.limits(source, target);
            let rated = |link: &LinkId| (Some(*link), 0, Bandwidth(self.platform.rate(*link).bps()));
            let [sending, receiving] = limits.map(IntoIterator::into_iter);
            let way: Vec<Limit> = sending.chain(route.iter().map(rated)).chain(receiving).collect();
            let mut ports = Vec::with_capacity(way.len());
            for (link, key, rate) in way {
                if !rate.0.is_finite() || source == target {
                    continue;
                }
                let next = self.ports.len() as u32;
                let number = *numbers.entry((link.unwrap_or(LinkId(u64::MAX)), key)).or_insert(next);
                if number == next {
                    self.ports.push(Port::new(rate, &self.guarding.queues));
                    self.links.push(link);
                    self.levels.push(0);
                }
                ports.push(number);
            }
            let packet = Volume(self.guarding.queues.packet_bytes);
            self.pairs.push(ActivePair::new(source, target, ports, packet));
            self.out[source].push(place);
            self.into[target].push(place);
        }
        for _ in 0..MOST_LEVELS {
            for pair in &self.pairs {
                for two in pair.route.windows(2) {
                    let least = self.levels[two[0] as usize] + 1;
                    let next = &mut self.levels[two[1] as usize];
                    *next = (*next).max(least).min(MOST_LEVELS - 1);
                }
            }
        }
        self.level_count = self.levels.iter().max().map_or(0, |most| most + 1);
        self.by_level = vec![Vec::new(); self.level_count];
        for (port, &level) in self.levels.iter().enumerate() {
            self.by_level[level].push(port as u32);
        }
    }

    /// The limits of hosts and tenants on a path, as ports before and after the network: a key, and the limit.
    fn limits(&self, source: usize, target: usize) -> [Vec<Limit>; 2] {
        let (hoses, tenants) = (self.guarding.hoses, self.guarding.tenants);
        let of = |host: usize, side: usize, most: fn(&Hose) -> f64| {
            let mut list = vec![(None, 4 * host + side, Bandwidth(most(&hoses[host])))];
            let own = tenants
                .iter()
                .enumerate()
                .filter(|(_, tenant)| tenant.hosts.contains(&host));
            list.extend(own.map(|(number, tenant)| (None, 4 * number + 2 + side, Bandwidth(most(&tenant.hose)))));
            list
        };
        if self.guarding.method == Method::None {
            return [Vec::new(), Vec::new()];
        }
        [
            of(source, 0, |hose| hose.egress_limit_bps),
            of(target, 1, |hose| hose.ingress_limit_bps),
        ]
    }
}
