//! The cost of sending from one host to another.

use gavotte_net::Volume;

use crate::error::TreeError;
use crate::shared::Shared;

/// The alpha-beta model of N hosts: sending b bytes from i to j takes `alpha_s + b * per_byte_s` seconds; infinite if
/// the pair cannot be used. The sender is busy for the bytes alone, and may send the next message during the latency.
#[derive(Clone, Debug)]
pub struct Costs {
    hosts: usize,
    alpha_s: Vec<f64>,
    per_byte_s: Vec<f64>,
    shared: Shared,
}

impl Costs {
    /// Checks the matrices, row = source; diagonals are not read.
    ///
    /// # Errors
    ///
    /// If there are no hosts, a matrix has another size, or a time is negative or not a number.
    pub fn new(hosts: usize, mut alpha_s: Vec<f64>, mut per_byte_s: Vec<f64>) -> Result<Self, TreeError> {
        if hosts == 0 {
            return Err(TreeError::NoHosts);
        }
        for matrix in [&alpha_s, &per_byte_s] {
            if matrix.len() != hosts * hosts {
                let entries = matrix.len();
                return Err(TreeError::Shape { entries, hosts });
            }
            let wrong = |&(at, value): &(usize, &f64)| (value.is_nan() || *value < 0.0) && at / hosts != at % hosts;
            if let Some((at, &value)) = matrix.iter().enumerate().find(wrong) {
                let (source_host, target) = (at / hosts, at % hosts);
                return Err(TreeError::Cost {
                    source_host,
                    target,
                    value,
                });
            }
        }
        for (alpha_s, per_byte_s) in alpha_s.iter_mut().zip(&mut per_byte_s) {
            // Only one of the two is infinite; otherwise zero bytes would take 0 x infinity.
            if per_byte_s.is_infinite() {
                (*alpha_s, *per_byte_s) = (f64::INFINITY, 0.0);
            }
        }
        Ok(Self {
            hosts,
            alpha_s,
            per_byte_s,
            shared: Shared::default(),
        })
    }

    /// The same costs, with links that pairs share.
    pub(crate) fn sharing(self, shared: Shared) -> Self {
        Self { shared, ..self }
    }

    /// The links that pairs share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The number of hosts N.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Seconds to send `bytes` from one host to another.
    #[inline]
    pub fn seconds(&self, source: usize, target: usize, Volume(bytes): Volume) -> f64 {
        let at = source * self.hosts + target;
        self.alpha_s[at] + bytes * self.per_byte_s[at]
    }

    /// Seconds from the last byte's start to its arrival.
    #[inline]
    pub fn latency_s(&self, source: usize, target: usize) -> f64 {
        self.alpha_s[source * self.hosts + target]
    }

    /// Seconds for which sending `bytes` occupies the sender.
    #[inline]
    pub fn busy_s(&self, source: usize, target: usize, Volume(bytes): Volume) -> f64 {
        bytes * self.per_byte_s[source * self.hosts + target]
    }

    /// Seconds for each byte from one host to another.
    pub fn per_byte_s(&self, source: usize, target: usize) -> f64 {
        self.per_byte_s[source * self.hosts + target]
    }

    /// Seconds to send `bytes` between all pairs, row = source.
    pub(crate) fn matrix(&self, Volume(bytes): Volume) -> Vec<f64> {
        let pairs = self.alpha_s.iter().zip(&self.per_byte_s);
        pairs
            .map(|(alpha_s, per_byte_s)| alpha_s + bytes * per_byte_s)
            .collect()
    }
}
