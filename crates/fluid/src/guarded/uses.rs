//! What a simulation with guarantees tells.

use gavotte_limiter::Held;

use crate::outcome::Outcome;

/// What a pair of hosts had.
#[derive(Clone, Debug, PartialEq)]
pub struct PairUse {
    /// Index of the sending host.
    pub source: usize,
    /// Index of the receiving host.
    pub target: usize,
    /// Means over the time in which it had something to send, bit/s. Without a guarantee the first is zero and the second
    /// infinite.
    pub guarantee_bps: f64,
    /// Its limiter.
    pub limit_bps: f64,
    /// What arrived.
    pub rate_bps: f64,
    /// Share of its bytes that was marked.
    pub marks: f64,
    /// What was lost on the way.
    pub lost_bytes: f64,
    /// Windows in which it had something to send all the time, and in how many of them 95 % of its guarantee arrived, or
    /// of what it sent if that is less.
    pub windows: u32,
    /// Of these.
    pub met: u32,
    /// What decided its limit last.
    pub held: Option<Held>,
    /// What arrived in each window from time 0 on, bit/s.
    pub rates_bps: Vec<f64>,
}

/// What a simulation with guarantees tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guarded {
    /// As of any simulation.
    pub outcome: Outcome,
    /// Pairs of hosts that ever sent, by source and target.
    pub pairs: Vec<PairUse>,
}
