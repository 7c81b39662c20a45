//! Rates. Times are `f64` seconds and sizes bytes, said by the suffixes `_s` and `_bytes`.

use std::fmt;

/// A rate in bit/s, above zero; infinite means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BitsPerSec(f64);

impl BitsPerSec {
    /// No limit at all.
    pub const UNLIMITED: Self = Self(f64::INFINITY);

    /// A rate of so many bit/s; `None` unless it is above zero.
    pub fn new(bps: f64) -> Option<Self> {
        (bps > 0.0).then_some(Self(bps))
    }

    /// In bit/s.
    pub fn bps(self) -> f64 {
        self.0
    }

    /// In bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        self.0 / 8.0
    }

    /// The lower of two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// Whether it is a limit.
    pub fn is_limited(self) -> bool {
        self.0 < f64::INFINITY
    }
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}
