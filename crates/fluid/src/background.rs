//! Background traffic: random, but the same for the same seed.

use gavotte_net::{Bandwidth, InputError, check_index, check_value};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::checks::{check_cap, check_weight};
use crate::switches::mix;

/// The pattern of background traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Flows of exponential size arrive at exponential intervals.
    Poisson {
        /// Mean arrivals per second.
        per_s: f64,
        /// Mean size.
        mean_bytes: f64,
    },
    /// One flow sends as much as possible for an exponential time, then pauses for an exponential time. The first state
    /// is random, with the long-run probabilities.
    OnOff {
        /// Mean time of sending.
        mean_on_s: f64,
        /// Mean length of a pause.
        mean_off_s: f64,
    },
}

/// A source of background traffic between two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Background {
    /// The sending host.
    pub source: u32,
    /// The receiving host.
    pub target: u32,
    /// The times at which it sends.
    pub pattern: Pattern,
    /// Weight of each of its flows.
    pub weight: f64,
    /// Highest rate of each of its flows, in bit/s; infinite = no cap.
    pub cap_bps: f64,
}

impl Background {
    pub(crate) fn check(&self, number: usize, hosts: usize) -> Result<(), InputError> {
        let of = |part: &'static str| move || format!("{part} of background {number}");
        check_index(of("the source"), self.source as usize, hosts)?;
        check_index(of("the target"), self.target as usize, hosts)?;
        let (what, values) = match self.pattern {
            Pattern::Poisson { per_s, mean_bytes } => {
                (["the arrivals per second", "the mean size"], [per_s, mean_bytes])
            }
            Pattern::OnOff { mean_on_s, mean_off_s } => (
                ["the mean time of sending", "the mean time of rest"],
                [mean_on_s, mean_off_s],
            ),
        };
        for (what, value) in what.into_iter().zip(values) {
            check_value(
                of(what),
                value,
                value > 0.0 && value < f64::INFINITY,
                "above zero, and finite",
            )?;
        }
        check_weight(of("the weight"), self.weight)?;
        check_cap(of("the cap"), Bandwidth(self.cap_bps))
    }
}

/// The next action of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Starts a flow of this many bytes; an infinite flow runs until `Stop`.
    Start(f64),
    /// Stops its flow.
    Stop,
}

/// The steps of one source in order.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    pattern: Pattern,
    rng: Xoshiro256PlusPlus,
    sending: bool,
}

impl Steps {
    /// Each source has its own random generator, so that an additional source does not change the others.
    pub(crate) fn new(pattern: Pattern, seed: u64, number: usize) -> Self {
        Self {
            pattern,
            rng: Xoshiro256PlusPlus::seed_from_u64(mix(seed, number as u64)),
            sending: false,
        }
    }

    /// Seconds until the first step.
    pub(crate) fn first_s(&mut self) -> f64 {
        match self.pattern {
            Pattern::Poisson { per_s, .. } => self.exponential(1.0 / per_s),
            Pattern::OnOff { mean_on_s, mean_off_s } => {
                let on = self.rng.random::<f64>() * (mean_on_s + mean_off_s) < mean_on_s;
                if on { 0.0 } else { self.exponential(mean_off_s) }
            }
        }
    }

    /// The next step, and the seconds until the step after it.
    pub(crate) fn step(&mut self) -> (Step, f64) {
        match self.pattern {
            Pattern::Poisson { per_s, mean_bytes } => {
                let bytes = self.exponential(mean_bytes);
                (Step::Start(bytes), self.exponential(1.0 / per_s))
            }
            Pattern::OnOff { mean_on_s, mean_off_s } => {
                self.sending = !self.sending;
                if self.sending {
                    (Step::Start(f64::INFINITY), self.exponential(mean_on_s))
                } else {
                    (Step::Stop, self.exponential(mean_off_s))
                }
            }
        }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        // From (0, 1], so that the logarithm is finite.
        -mean * (1.0 - self.rng.random::<f64>()).ln()
    }
}
