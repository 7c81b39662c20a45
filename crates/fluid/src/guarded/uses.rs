//! The results of a simulation with guarantees.

use gavotte_limiter::Held;

use crate::outcome::Outcome;

/// The results of a pair of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct PairUse {
    /// Index of the sending host.
    pub source: usize,
    /// Index of the receiving host.
    pub target: usize,
    /// Mean guarantee while the pair had something to send, in bit/s. Without a guarantee, it is zero and the mean
    /// limit is infinite.
    pub guarantee_bps: f64,
    /// Mean limit in the same time, in bit/s.
    pub limit_bps: f64,
    /// Mean rate of arrivals in the same time, in bit/s.
    pub rate_bps: f64,
    /// Share of the pair's bytes that were marked.
    pub marks: f64,
    /// Bytes lost on the path.
    pub lost_bytes: f64,
    /// Number of windows in which the pair always had something to send.
    pub windows: u32,
    /// Number of those windows in which 95 % of its guarantee arrived, or 95 % of what it sent if that is less.
    pub met: u32,
    /// The reason for its last limit.
    pub held: Option<Held>,
    /// The rate of arrivals in each window from time 0 on, in bit/s.
    pub rates_bps: Vec<f64>,
}

/// The results of a simulation with guarantees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guarded {
    /// The results that every simulation has.
    pub outcome: Outcome,
    /// Pairs of hosts that sent at any time, by source and target.
    pub pairs: Vec<PairUse>,
}
