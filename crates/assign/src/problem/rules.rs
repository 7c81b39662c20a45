//! Constraints other than room: tasks apart, tasks together, latencies, numbers of hosts.

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
}

/// Tasks that may not be spread over too many hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxHosts {
    /// Indices of the tasks.
    pub tasks: Vec<usize>,
    /// The largest number of hosts they may use.
    pub most: usize,
}

/// A limit on the total need of the tasks on some hosts, for example for a link that carries all their guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Indices of the hosts.
    pub hosts: Vec<usize>,
    /// The need of each task, by task.
    pub needs: Vec<u64>,
    /// The largest total need of the tasks on these hosts.
    pub most: u64,
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
    /// Sets of hosts with a limit on the total need of their tasks.
    pub quotas: Vec<Quota>,
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
        }
        for quota in &self.quotas {
            check_length("the needs of a quota", quota.needs.len(), tasks)?;
            let known = |&host: &usize| check_index(|| "a host of a quota".into(), host, hosts);
            quota.hosts.iter().try_for_each(known)?;
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
}
