//! CPU cores, counted so that sums are exact.

/// The most cores that a host or task may have.
pub(crate) const MOST_CPUS: f64 = 1e6;

const NANOS_PER_CORE: f64 = 1e9;

/// CPU cores counted in whole nano-cores, so that repeated subtraction and addition never drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cores(u64);

impl Cores {
    /// A task's need: rounded down, so that three tasks of 1/3 core fit on one core.
    pub fn needed(cpus: f64) -> Self {
        Self((cpus * NANOS_PER_CORE).floor() as u64)
    }

    /// A host's capacity: rounded up, for the same reason.
    pub fn offered(cpus: f64) -> Self {
        Self((cpus * NANOS_PER_CORE).ceil() as u64)
    }

    /// The count of nano-cores.
    pub fn nanos(self) -> u64 {
        self.0
    }
}
