//! What a network of many hosts has instead of matrices: latencies of its tree, and the pairs that differ from it.

use crate::error::{NetworkError, check_index, check_length, check_value};
use crate::units::BitsPerSec;

/// A pair whose rate or latency the tree does not tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exception {
    /// Index of the sending host.
    pub source: usize,
    /// Index of the receiving host.
    pub target: usize,
    /// Rate of the pair in bit/s; infinite = unlimited, NaN = only caps and groups limit.
    pub rate_bps: f64,
    /// One-way latency in seconds; NaN = that of the tree.
    pub latency_s: f64,
}

/// Latencies by hosts and groups, unchecked. NaN = unknown; an empty list = none is known.
#[derive(Clone, Debug, Default)]
pub struct SparseParts {
    /// For each host, half a round trip to its own rack.
    pub host_latency_s: Vec<f64>,
    /// For each group, what is added to the latency of traffic that leaves it.
    pub group_latency_s: Vec<f64>,
    /// The pairs that differ, in any order, each once.
    pub exceptions: Vec<Exception>,
}

impl SparseParts {
    /// Whether nothing is known of any host, group or pair.
    pub fn is_empty(&self) -> bool {
        let mut latencies_s = self.host_latency_s.iter().chain(&self.group_latency_s);
        self.exceptions.is_empty() && latencies_s.all(|seconds| seconds.is_nan())
    }
}

/// Checked parts, with the exceptions of each source together.
#[derive(Clone, Debug)]
pub(crate) struct Sparse {
    host_latency_s: Vec<f64>,
    group_latency_s: Vec<f64>,
    exceptions: Vec<Exception>,
    /// The first exception of each source, and at last the number of all.
    first: Vec<usize>,
}

impl Sparse {
    /// Checks the parts of a network with these names of hosts and this number of groups.
    pub(crate) fn new(parts: SparseParts, hosts: &[String], groups: usize) -> Result<Self, NetworkError> {
        let SparseParts {
            host_latency_s,
            group_latency_s,
            mut exceptions,
        } = parts;
        for (what, values, expected) in [
            ("the latencies of hosts", &host_latency_s, hosts.len()),
            ("the latencies of groups", &group_latency_s, groups),
        ] {
            if !values.is_empty() {
                check_length(what, values.len(), expected)?;
            }
            for (at, &seconds) in values.iter().enumerate() {
                check_latency(|| format!("number {at} of {what}"), seconds)?;
            }
        }
        for each in &exceptions {
            for host in [each.source, each.target] {
                check_index(|| "a host of an exception".to_owned(), host, hosts.len())?;
            }
            let of = |what: &'static str| {
                let (source, target) = (&hosts[each.source], &hosts[each.target]);
                move || format!("the {what} from `{source}` to `{target}`")
            };
            let fine = each.rate_bps.is_nan() || each.rate_bps > 0.0;
            check_value(
                of("rate"),
                each.rate_bps,
                fine,
                "above zero bit/s (infinity means unlimited)",
            )?;
            check_latency(of("latency"), each.latency_s)?;
        }
        exceptions.sort_by_key(|each| (each.source, each.target));
        exceptions.dedup_by_key(|each| (each.source, each.target));
        let mut first = vec![0; hosts.len() + 1];
        for each in &exceptions {
            first[each.source + 1] += 1;
        }
        for host in 0..hosts.len() {
            first[host + 1] += first[host];
        }
        Ok(Self {
            host_latency_s,
            group_latency_s,
            exceptions,
            first,
        })
    }

    /// The exceptions by source and target.
    pub(crate) fn exceptions(&self) -> &[Exception] {
        &self.exceptions
    }

    /// The position of a pair among the exceptions, if it is one.
    pub(crate) fn position(&self, m: usize, n: usize) -> Option<usize> {
        let (first, end) = (self.first[m], self.first[m + 1]);
        let place = self.exceptions[first..end].binary_search_by_key(&n, |each| each.target);
        place.ok().map(|at| first + at)
    }

    /// The pair's own rate, if it is an exception with one.
    pub(crate) fn rate(&self, m: usize, n: usize) -> Option<BitsPerSec> {
        let at = self.position(m, n)?;
        BitsPerSec::new(self.exceptions[at].rate_bps)
    }

    /// The one-way latency from `m` to `n`, if it is known: half a round trip of each to its own rack, and what each
    /// group adds that contains `m` but not `n`.
    pub(crate) fn latency_s(&self, m: usize, n: usize, mut left: impl Iterator<Item = usize>) -> Option<f64> {
        let own = self.position(m, n).map(|at| self.exceptions[at].latency_s);
        if let Some(own_s) = own.filter(|seconds| !seconds.is_nan()) {
            return Some(own_s);
        }
        let of_host = |host: usize| self.host_latency_s.get(host).copied();
        let ends_s = of_host(m)? + of_host(n)?;
        let of_group = |group: usize| {
            self.group_latency_s
                .get(group)
                .copied()
                .filter(|seconds| !seconds.is_nan())
        };
        let way_s = left.try_fold(ends_s, |sum_s, group| Some(sum_s + of_group(group)?))?;
        Some(way_s).filter(|seconds| !seconds.is_nan())
    }
}

fn check_latency(what: impl Fn() -> String, seconds: f64) -> Result<(), NetworkError> {
    let fine = seconds.is_nan() || (0.0..f64::INFINITY).contains(&seconds);
    Ok(check_value(what, seconds, fine, "from zero seconds, and finite")?)
}
