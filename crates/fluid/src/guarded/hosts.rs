//! The agents: what each host divides, counts and reports, with the code of `gavotte-limiter`.

use std::collections::BTreeMap;

use gavotte_limiter::{Arrivals, Common, End, Need, Parameters, Partitioner, divide};
use gavotte_net::{Bandwidth, Seconds};

/// The guarantees and limits of a host, in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hose {
    /// The rate that the host is guaranteed to send; zero = no guarantee.
    pub egress_bps: f64,
    /// The rate that the host is guaranteed to receive.
    pub ingress_bps: f64,
    /// The highest rate at which the host may send; infinite = no limit.
    pub egress_limit_bps: f64,
    /// The highest rate at which the host may receive.
    pub ingress_limit_bps: f64,
}

impl Hose {
    /// The hose of a host without guarantees and limits.
    pub const NONE: Self = Self {
        egress_bps: 0.0,
        ingress_bps: 0.0,
        egress_limit_bps: f64::INFINITY,
        ingress_limit_bps: f64::INFINITY,
    };
}

/// Hosts with an aggregate guarantee.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Indices of the tenant's hosts.
    pub hosts: Vec<usize>,
    /// Guarantees and limits of all its hosts together.
    pub hose: Hose,
}

/// One host with a guarantee.
pub(crate) struct Agent {
    pub(crate) sending: Partitioner<usize>,
    pub(crate) receiving: Partitioner<usize>,
    /// Arrivals by pair.
    pub(crate) arrivals: Arrivals<usize>,
    /// What waits on all pairs.
    pub(crate) common: Common<usize>,
    /// Bytes sent and received since the last division.
    pub(crate) sent_bytes: f64,
    pub(crate) received_bytes: f64,
    /// The time of its next turn.
    pub(crate) next_s: f64,
}

impl Agent {
    /// Creates an agent whose first turn is at `phase` of its period.
    pub(crate) fn new(hose: &Hose, parameters: &Parameters, phase: f64) -> Self {
        Self {
            sending: Partitioner::new(End::Source, Bandwidth(hose.egress_bps), &parameters.partition),
            receiving: Partitioner::new(End::Target, Bandwidth(hose.ingress_bps), &parameters.partition),
            arrivals: Arrivals::new(),
            common: Common::default(),
            sent_bytes: 0.0,
            received_bytes: 0.0,
            next_s: phase * parameters.allocation.period_s,
        }
    }
}

/// Divides the tenants' bandwidth among their hosts, by the bytes of each host since the last division.
pub(crate) fn share_tenants(
    tenants: &[Tenant],
    hoses: &[Hose],
    agents: &mut BTreeMap<usize, Agent>,
    Seconds(elapsed_s): Seconds,
    parameters: &Parameters,
) {
    let rules = &parameters.partition;
    let need = |least_bps: f64, most_bps: f64, bytes: f64, hose_bps: f64| {
        let rate_bps = 8.0 * bytes / elapsed_s;
        let full = rate_bps >= rules.full_use * hose_bps;
        let demand_bps = if full { f64::INFINITY } else { rules.growth * rate_bps };
        Need {
            least_bps,
            demand_bps,
            most_bps,
        }
    };
    for tenant in tenants {
        let own: Vec<(Hose, &Agent)> = tenant.hosts.iter().map(|host| (hoses[*host], &agents[host])).collect();
        let out: Vec<Need> = own
            .iter()
            .map(|(hose, agent)| {
                need(
                    hose.egress_bps,
                    hose.egress_limit_bps,
                    agent.sent_bytes,
                    agent.sending.hose_bps(),
                )
            })
            .collect();
        let into: Vec<Need> = own
            .iter()
            .map(|(hose, agent)| {
                need(
                    hose.ingress_bps,
                    hose.ingress_limit_bps,
                    agent.received_bytes,
                    agent.receiving.hose_bps(),
                )
            })
            .collect();
        let shares = divide(Bandwidth(tenant.hose.egress_bps), &out)
            .into_iter()
            .zip(divide(Bandwidth(tenant.hose.ingress_bps), &into));
        for (host, (egress_bps, ingress_bps)) in tenant.hosts.iter().zip(shares) {
            let agent = agents.get_mut(host).expect("a tenant's hosts have agents");
            agent.sending.set_hose(Bandwidth(egress_bps));
            agent.receiving.set_hose(Bandwidth(ingress_bps));
            (agent.sent_bytes, agent.received_bytes) = (0.0, 0.0);
        }
    }
}
