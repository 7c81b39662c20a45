//! Divides the guarantee of a tenant among its hosts.

use gavotte_net::Bandwidth;

use crate::fill::Fill;

/// The guarantee and the demand of a tenant's host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// The host's own guarantee in bit/s, which it always keeps.
    pub least_bps: f64,
    /// The rate that the host would use, in bit/s; infinite = any.
    pub demand_bps: f64,
    /// The host's limit in bit/s; infinite = none.
    pub most_bps: f64,
}

/// Divides an aggregate guarantee of `total_bps` among the hosts of a tenant. Returns each host's hose guarantee in
/// bit/s.
///
/// 1. Each host keeps its own guarantee.
/// 2. The rest of the aggregate is shared max-min fairly among hosts with a higher demand.
/// 3. The remainder is spread evenly up to the hosts' limits, so that no host has to wait until the next division to
///    grow.
///
/// The results add up to at most `total_bps`, unless the hosts' own guarantees already exceed it.
pub fn divide(Bandwidth(total_bps): Bandwidth, needs: &[Need]) -> Vec<f64> {
    let own: f64 = needs.iter().map(|need| need.least_bps).sum();
    let fill = |left_bps: f64, have: &[f64], want: fn(&Need) -> f64| -> Vec<f64> {
        let bounds: Vec<f64> = needs
            .iter()
            .zip(have)
            .map(|(need, have)| (want(need).min(need.most_bps) - have).max(0.0))
            .collect();
        let shares = Fill::new(left_bps, &bounds).shares();
        have.iter().zip(shares).map(|(have, share)| have + share).collect()
    };
    let least: Vec<f64> = needs.iter().map(|need| need.least_bps).collect();
    let wanted = fill((total_bps - own).max(0.0), &least, |need| need.demand_bps);
    let left_bps = (total_bps - wanted.iter().sum::<f64>()).max(0.0);
    fill(left_bps, &wanted, |_| f64::INFINITY)
}
