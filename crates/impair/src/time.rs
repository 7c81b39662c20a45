//! Times and durations in whole nanoseconds.

use std::time::Duration;

/// A time since an epoch of the caller's choice, or a duration, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The epoch, or an empty duration.
    pub const ZERO: Self = Self(0);

    /// The duration from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub fn saturating_sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The time `span` after `self`.
    #[must_use]
    pub fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The number of nanoseconds as a floating-point number.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Converts a floating-point number of nanoseconds; negative numbers become zero.
    pub fn from_f64(nanos: f64) -> Self {
        Self(nanos.max(0.0).round() as u64)
    }

    /// Converts seconds; negative numbers become zero.
    pub fn from_seconds(seconds: f64) -> Self {
        Self::from_f64(seconds * 1e9)
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}
