//! The cost of sending from one host to another.

use gavotte_net::Volume;

use crate::error::TreeError;
use crate::paths::Paths;
use crate::shared::Shared;

/// The alpha-beta model of N hosts: sending b bytes from i to j takes `alpha_s + b * per_byte_s` seconds; infinite if
/// the pair cannot be used. The sender is busy for the bytes alone, and may send the next message during the latency.
#[derive(Clone, Debug)]
pub struct Costs {
    hosts: usize,
    pairs: Pairs,
    shared: Shared,
}

/// The values of all pairs, row = source, or the paths from which each is computed when it is needed.
#[derive(Clone, Debug)]
enum Pairs {
    Listed { alpha_s: Vec<f64>, per_byte_s: Vec<f64> },
    Computed(Paths),
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
            pairs: Pairs::Listed { alpha_s, per_byte_s },
            shared: Shared::default(),
        })
    }

    /// The costs of ranks that are too many for a list of their pairs.
    pub(crate) fn computed(paths: Paths) -> Self {
        Self {
            hosts: paths.count(),
            shared: Shared::computed(paths.clone()),
            pairs: Pairs::Computed(paths),
        }
    }

    /// The fixed seconds of a message, and those of each byte.
    #[inline]
    fn pair(&self, source: usize, target: usize) -> (f64, f64) {
        match &self.pairs {
            Pairs::Listed { alpha_s, per_byte_s } => {
                let at = source * self.hosts + target;
                (alpha_s[at], per_byte_s[at])
            }
            Pairs::Computed(paths) => paths.cost(source, target),
        }
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
        let (alpha_s, per_byte_s) = self.pair(source, target);
        alpha_s + bytes * per_byte_s
    }

    /// Seconds from the last byte's start to its arrival.
    #[inline]
    pub fn latency_s(&self, source: usize, target: usize) -> f64 {
        self.pair(source, target).0
    }

    /// Seconds for which sending `bytes` occupies the sender.
    #[inline]
    pub fn busy_s(&self, source: usize, target: usize, Volume(bytes): Volume) -> f64 {
        bytes * self.pair(source, target).1
    }

    /// Seconds for each byte from one host to another.
    pub fn per_byte_s(&self, source: usize, target: usize) -> f64 {
        self.pair(source, target).1
    }

    /// Seconds to send `bytes` between all pairs, row = source.
    pub(crate) fn matrix(&self, bytes: Volume) -> Vec<f64> {
        let pairs = (0..self.hosts).flat_map(|source| (0..self.hosts).map(move |target| (source, target)));
        pairs
            .map(|(source, target)| self.seconds(source, target, bytes))
            .collect()
    }
}
