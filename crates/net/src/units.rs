//! Units. A parameter of one of these types cannot be taken for a number of another unit. Fields, results and arrays are
//! plain numbers, whose names end in their unit: `_s`, `_bytes`, `_bps`.

use std::fmt;

/// A rate in bit/s, above zero; infinite means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BitsPerSec(f64);

impl BitsPerSec {
    /// No limit at all.
    pub const UNLIMITED: Self = Self(f64::INFINITY);

    /// A rate of `bps` bit/s; `None` unless it is above zero.
    pub fn new(bps: f64) -> Option<Self> {
        (bps > 0.0).then_some(Self(bps))
    }

    /// The rate in bit/s.
    pub fn bps(self) -> f64 {
        self.0
    }

    /// The rate in bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        self.0 / 8.0
    }

    /// The lower of the two rates.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// Whether it is finite.
    pub fn is_limited(self) -> bool {
        self.0 < f64::INFINITY
    }
}

impl fmt::Display for BitsPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

/// A time or a duration in seconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// An amount of data in bytes, of which fractions count: a piece of a message, or the product of a rate and a time.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Volume(pub f64);

/// A limit, a share or a guarantee in bit/s. It may be zero, unlike the rate of a link; infinite means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Bandwidth(pub f64);

impl Bandwidth {
    /// No limit at all.
    pub const UNLIMITED: Self = Self(f64::INFINITY);

    /// The bandwidth in bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        self.0 / 8.0
    }
}
