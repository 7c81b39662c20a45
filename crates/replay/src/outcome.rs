//! The results of a replay.

use std::ops::{AddAssign, Mul, Sub};

/// Seconds by what they were spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// Computing of the program.
    pub compute_s: f64,
    /// Work of the MPI library: messages' overheads and the combining of reductions.
    pub overhead_s: f64,
    /// Latencies of messages, also of announcements and permits.
    pub latency_s: f64,
    /// Bytes on the wire, or before it while others of the same two ranks were on it.
    pub transfer_s: f64,
}

impl Split {
    /// The sum of all parts.
    pub fn total_s(&self) -> f64 {
        self.compute_s + self.overhead_s + self.latency_s + self.transfer_s
    }
}

impl AddAssign for Split {
    fn add_assign(&mut self, other: Self) {
        self.compute_s += other.compute_s;
        self.overhead_s += other.overhead_s;
        self.latency_s += other.latency_s;
        self.transfer_s += other.transfer_s;
    }
}

impl Sub for Split {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            compute_s: self.compute_s - other.compute_s,
            overhead_s: self.overhead_s - other.overhead_s,
            latency_s: self.latency_s - other.latency_s,
            transfer_s: self.transfer_s - other.transfer_s,
        }
    }
}

impl Mul<f64> for Split {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            compute_s: self.compute_s * factor,
            overhead_s: self.overhead_s * factor,
            latency_s: self.latency_s * factor,
            transfer_s: self.transfer_s * factor,
        }
    }
}

/// How long a program takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// When the last rank ends, in seconds from the begin of all.
    pub makespan_s: f64,
    /// What the chain of operations that decides the makespan consists of; its parts add up to the makespan.
    pub critical: Split,
    /// By rank: seconds of computing.
    pub compute_s: Vec<f64>,
    /// By rank: seconds of the MPI library's work.
    pub overhead_s: Vec<f64>,
    /// By rank: seconds of waiting for others and for the network.
    pub wait_s: Vec<f64>,
    /// By rank: when it ends, in seconds.
    pub finish_s: Vec<f64>,
    /// Events that were replayed.
    pub events: u64,
    /// Seconds of the makespan that were extrapolated from loops in a steady state.
    pub extrapolated_s: f64,
}
