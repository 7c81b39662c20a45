//! The guarantee of a tenant, shared among its hosts.

use crate::fill::Fill;

/// What a host of a tenant has and wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Its own guarantee, bit/s, which it keeps in any case.
    pub least_bps: f64,
    /// What it would use, bit/s; infinite = all that it gets.
    pub demand_bps: f64,
    /// Its limit, bit/s; infinite = none.
    pub most_bps: f64,
}

/// Hose guarantees for the hosts of a tenant with an aggregate guarantee of `total_bps`: by host, in bit/s.
///
/// Each host keeps its own guarantee. What the aggregate is above the sum of those is shared max-min fairly among hosts
/// that want more; what then is left is spread evenly up to the hosts' limits, so that none has to wait for its next
/// turn to grow. The result sums to `total_bps` at most, unless the hosts' own guarantees already exceed it.
pub fn divide(total_bps: f64, needs: &[Need]) -> Vec<f64> {
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
