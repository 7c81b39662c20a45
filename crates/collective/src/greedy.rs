//! Trees built in one pass.

use gavotte_net::Volume;

use crate::costs::Costs;
use crate::error::TreeError;
use crate::tree::Tree;

/// The binomial tree by rank, as MPICH builds it. It ignores the network.
///
/// With r = (rank - root) mod N, the parent of r is r without its lowest bit, and r sends to r + 2^k, the largest
/// first.
///
/// # Errors
///
/// If the root does not exist.
pub fn binomial(hosts: usize, root: usize) -> Result<Tree, TreeError> {
    check(hosts, root)?;
    let mut children = vec![Vec::new(); hosts];
    for relative in 0..hosts {
        let lowest = if relative == 0 {
            hosts.next_power_of_two()
        } else {
            1 << relative.trailing_zeros()
        };
        let steps = std::iter::successors(Some(lowest / 2), |step| Some(step / 2)).take_while(|&step| step > 0);
        children[(relative + root) % hosts] = steps
            .filter(|step| relative + step < hosts)
            .map(|step| (relative + step + root) % hosts)
            .collect();
    }
    Tree::new(root, children)
}

/// Fastest-Node-First (Banikazemi et al., ICPP '98; the RPCA paper, section II-C):
///
/// 1. In each round, every sender takes the host that it reaches fastest, in the order in which the senders joined. Of
///    equals, the first.
/// 2. These hosts become senders after the round.
///
/// # Errors
///
/// If the root does not exist.
pub fn fnf(costs: &Costs, root: usize, bytes: Volume) -> Result<Tree, TreeError> {
    let hosts = costs.hosts();
    check(hosts, root)?;
    let seconds = costs.matrix(bytes);
    let mut children = vec![Vec::new(); hosts];
    let mut left: Vec<usize> = (0..hosts).filter(|&host| host != root).collect();
    let mut senders = vec![root];
    while !left.is_empty() {
        for at in 0..senders.len() {
            let row = &seconds[senders[at] * hosts..][..hosts];
            let Some(best) = (0..left.len()).min_by(|&a, &b| row[left[a]].total_cmp(&row[left[b]])) else {
                break;
            };
            let receiver = left.remove(best);
            children[senders[at]].push(receiver);
            senders.push(receiver);
        }
    }
    Tree::new(root, children)
}

/// The settings of [`ecef`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eager {
    /// Whether to count how fast a receiver could then reach its nearest host, in addition to its own completion.
    pub look_ahead: bool,
    /// Largest number of children of a host; 1 makes a chain.
    pub most_children: usize,
}

impl Default for Eager {
    fn default() -> Self {
        Self {
            look_ahead: false,
            most_children: usize::MAX,
        }
    }
}

/// Earliest completion first: repeatedly adds the transfer that would complete first (Bhat, Raghavendra and Prasanna,
/// ICDCS '99). O(N^2) in practice, O(N^3) with look-ahead. Ties go to the sender and receiver with the lower number.
///
/// # Errors
///
/// If the root does not exist, or no usable pair leads to a host.
pub fn ecef(costs: &Costs, root: usize, bytes: Volume, eager: Eager) -> Result<Tree, TreeError> {
    let hosts = costs.hosts();
    check(hosts, root)?;
    let seconds = costs.matrix(bytes);
    let mut children = vec![Vec::new(); hosts];
    let mut left: Vec<usize> = (0..hosts).filter(|&host| host != root).collect();
    let mut ready_s = vec![0.0; hosts];
    let mut senders = vec![root];
    let mut next = vec![None; hosts];
    while !left.is_empty() {
        let onward_s: Vec<f64> = if eager.look_ahead {
            onward(&seconds, hosts, &left)
        } else {
            Vec::new()
        };
        let mut best: Option<(f64, usize, usize)> = None;
        for &sender in &senders {
            let row = &seconds[sender * hosts..][..hosts];
            if eager.look_ahead || next[sender].is_none() {
                next[sender] = if eager.look_ahead {
                    nearest(&left, |host| row[host] + onward_s[host])
                } else {
                    nearest(&left, |host| row[host])
                };
            }
            let Some(receiver) = next[sender] else { continue };
            let later_s = if eager.look_ahead { onward_s[receiver] } else { 0.0 };
            let done_s = ready_s[sender] + row[receiver] + later_s;
            if best.is_none_or(|(before_s, by, _)| done_s < before_s || (done_s <= before_s && sender < by)) {
                best = Some((done_s, sender, receiver));
            }
        }
        let Some((_, sender, receiver)) = best else {
            return Err(TreeError::Unreachable(left[0]));
        };
        ready_s[receiver] = ready_s[sender] + seconds[sender * hosts + receiver];
        ready_s[sender] += costs.busy_s(sender, receiver, bytes);
        children[sender].push(receiver);
        left.retain(|&host| host != receiver);
        senders.push(receiver);
        if children[sender].len() >= eager.most_children.max(1) {
            senders.retain(|&host| host != sender);
        }
        for &each in &senders {
            if next[each] == Some(receiver) {
                next[each] = None;
            }
        }
    }
    Tree::new(root, children)
}

/// The first of the hosts with the fewest seconds; `None` if no host is usable. This is the innermost loop of all
/// greedy trees: these comparisons take half the time of `min_by` and `total_cmp`.
fn nearest(left: &[usize], seconds: impl Fn(usize) -> f64) -> Option<usize> {
    let mut best = (f64::INFINITY, None);
    for &host in left {
        let here_s = seconds(host);
        if here_s < best.0 {
            best = (here_s, Some(host));
        }
    }
    best.1
}

/// For each host that is left, the seconds to the nearest other one.
fn onward(seconds: &[f64], hosts: usize, left: &[usize]) -> Vec<f64> {
    let mut onward_s = vec![0.0; hosts];
    for &from in left {
        let others = left.iter().filter(|&&to| to != from);
        let nearest_s = others
            .map(|&to| seconds[from * hosts + to])
            .fold(f64::INFINITY, f64::min);
        onward_s[from] = if nearest_s.is_finite() { nearest_s } else { 0.0 };
    }
    onward_s
}

fn check(hosts: usize, root: usize) -> Result<(), TreeError> {
    if hosts == 0 {
        return Err(TreeError::NoHosts);
    }
    (root < hosts).then_some(()).ok_or(TreeError::Root { root, hosts })
}
