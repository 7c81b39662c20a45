//! Constraints other than cores and stores: tasks apart, together, spread over zones, latencies, numbers of hosts.
//!
//! A rule with a price may be broken. Its price is then added to the completion time.

use gavotte_net::{check_index, check_length};

use crate::error::ProblemError;

/// Two tasks that must be near each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxLatency {
    /// Index of the sending task.
    pub source: usize,
    /// Index of the receiving task.
    pub target: usize,
    /// The longest latency allowed in one direction, in seconds. Within a host the latency is zero. An unknown latency
    /// counts as too long.
    pub seconds: f64,
    /// Price of a longer latency in seconds; `None` = not allowed.
    pub price_s: Option<f64>,
}

/// Tasks that may not be spread over too many hosts or zones.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxHosts {
    /// Indices of the tasks.
    pub tasks: Vec<usize>,
    /// The largest number of hosts or zones they may use.
    pub most: usize,
    /// Index of the zones that count; `None` = hosts. Every host must have a zone.
    pub zoning: Option<usize>,
    /// Price of each further host or zone in seconds; `None` = not allowed.
    pub price_s: Option<f64>,
}

impl MaxHosts {
    /// The zone of a host, or the host itself.
    pub(crate) fn zone(&self, rules: &Rules, host: usize) -> usize {
        self.zoning.map_or(host, |zoning| rules.zonings[zoning][host] as usize)
    }
}

/// Zone of a host that belongs to none.
pub const NO_ZONE: u32 = u32::MAX;

/// Limits on the total need of the tasks in each zone: a resource that hosts offer, a link that carries the guarantees of
/// the tasks behind it, or the number of tasks of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Index of the zones.
    pub zoning: usize,
    /// Tasks that need anything, with their needs.
    pub needs: Vec<(usize, u64)>,
    /// The largest total need in each zone.
    pub most: Vec<u64>,
    /// The smallest total need in each zone.
    pub least: u64,
    /// Price in seconds of each part of the need above `most`; `None` = not allowed.
    pub price_s: Option<f64>,
    /// Name of the resource, if the limit is room on hosts rather than a rule.
    pub room: Option<String>,
}

/// The prices of hosts and bytes, and the limit on a placement's total price.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxPrice {
    /// Price of using each host.
    pub host: Vec<f64>,
    /// Price of a byte from host `m` to host `n` at `m * hosts + n`.
    pub per_byte: Vec<f64>,
    /// The largest total price of hosts and bytes, in the same currency.
    pub most: f64,
}

impl MaxPrice {
    /// Whether a price exceeds the limit. Sums in another order differ by less than a billionth.
    pub(crate) fn exceeded_by(&self, price: f64) -> bool {
        price > self.most * (1.0 + 1e-9) + 1e-12
    }
}

/// All rules of a problem. The default has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Groups of tasks, no two of which may share a host.
    pub apart: Vec<Vec<usize>>,
    /// Groups of tasks that must share a host.
    pub together: Vec<Vec<usize>>,
    /// Pairs of tasks with a bound on latency.
    pub max_latency: Vec<MaxLatency>,
    /// Sets of tasks with a bound on the hosts they use.
    pub max_hosts: Vec<MaxHosts>,
    /// A bound on the price of the whole placement.
    pub max_price: Option<MaxPrice>,
    /// Zones by host. Each zoning divides hosts, for instance into racks; `NO_ZONE` = in none.
    pub zonings: Vec<Vec<u32>>,
    /// Limits on the total need of the tasks in zones.
    pub quotas: Vec<Quota>,
}

/// The largest price of a broken rule in seconds.
pub(crate) const MOST_PRICE_S: f64 = 1e6;

/// A price in nanoseconds, so that sums are exact.
pub(crate) fn price_ns(price_s: f64) -> u128 {
    (price_s * 1e9).round() as u128
}

impl Rules {
    /// Returns the first rule that is invalid for this number of tasks and hosts.
    pub(crate) fn check(&self, tasks: usize, hosts: usize) -> Result<(), ProblemError> {
        let known = |task: usize, what: &str| check_index(|| format!("a task of `{what}`"), task, tasks);
        let lists = [("apart", &self.apart), ("together", &self.together)];
        for (what, groups) in lists {
            groups.iter().flatten().try_for_each(|&task| known(task, what))?;
        }
        for bound in &self.max_latency {
            known(bound.source, "max_latency")?;
            known(bound.target, "max_latency")?;
        }
        for limit in &self.max_hosts {
            limit.tasks.iter().try_for_each(|&task| known(task, "max_hosts"))?;
            if let Some(zoning) = limit.zoning {
                check_index(|| "the zones of `max_hosts`".into(), zoning, self.zonings.len())?;
            }
        }
        for zones in &self.zonings {
            check_length("the zones of hosts", zones.len(), hosts)?;
        }
        for quota in &self.quotas {
            check_index(|| "the zones of a quota".into(), quota.zoning, self.zonings.len())?;
            quota.needs.iter().try_for_each(|&(task, _)| known(task, "quota"))?;
            let zones = self.zonings[quota.zoning].iter().filter(|&&zone| zone != NO_ZONE);
            zones
                .into_iter()
                .try_for_each(|&zone| check_index(|| "a zone of a quota".into(), zone as usize, quota.most.len()))?;
        }
        for limit in self.max_hosts.iter().filter_map(|limit| limit.zoning) {
            let zones = self.zonings[limit].iter();
            zones
                .into_iter()
                .try_for_each(|&zone| check_index(|| "a zone of `max_hosts`".into(), zone as usize, hosts))?;
        }
        let prices = self.max_latency.iter().filter_map(|bound| bound.price_s);
        let prices = prices.chain(self.max_hosts.iter().filter_map(|limit| limit.price_s));
        let mut prices = prices.chain(self.quotas.iter().filter_map(|quota| quota.price_s));
        if !prices.all(|price_s| (0.0..=MOST_PRICE_S).contains(&price_s)) {
            return Err(ProblemError::RulePrice { most_s: MOST_PRICE_S });
        }
        if let Some(price) = &self.max_price {
            let shaped = price.host.len() == hosts && price.per_byte.len() == hosts * hosts;
            let mut amounts = price.host.iter().chain(&price.per_byte).chain([&price.most]);
            if !shaped || !amounts.all(|amount| amount.is_finite() && *amount >= 0.0) {
                return Err(ProblemError::Price { hosts });
            }
        }
        Ok(())
    }

    /// Whether any rule has a price.
    pub fn priced(&self) -> bool {
        self.max_latency.iter().any(|bound| bound.price_s.is_some())
            || self.max_hosts.iter().any(|limit| limit.price_s.is_some())
            || self.quotas.iter().any(|quota| quota.price_s.is_some())
    }
}
