//! Additional delay that varies slowly enough for packets to keep their order.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::time::Nanos;

/// Time between two random values of the extra delay, in units of the jitter.
///
/// The delay therefore changes by at most one second in four seconds. A dense stream is stretched or compressed by at
/// most a quarter, and no packet can overtake another.
const KNOT_JITTERS: u64 = 4;

/// Draws a value uniformly from 0 to the jitter every four jitters, and interpolates linearly between the values.
#[derive(Debug)]
pub(crate) struct Jitter {
    most: Nanos,
    random: SmallRng,
    knot: Nanos,
    from_ns: f64,
    to_ns: f64,
}

impl Jitter {
    pub(crate) fn new(most: Nanos, seed: u64) -> Self {
        let mut jitter = Self {
            most,
            random: SmallRng::seed_from_u64(seed),
            knot: Nanos::ZERO,
            from_ns: 0.0,
            to_ns: 0.0,
        };
        jitter.from_ns = jitter.draw_ns();
        jitter.to_ns = jitter.draw_ns();
        jitter
    }

    /// Returns the extra delay at a time; times must never decrease.
    pub(crate) fn at(&mut self, now: Nanos) -> Nanos {
        if self.most == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let span = Nanos(self.most.0.saturating_mul(KNOT_JITTERS));
        let passed = now.saturating_sub(self.knot).0 / span.0;
        if passed > 0 {
            self.knot = Nanos(self.knot.0 + passed * span.0);
            // After a pause of several intervals, both ends of the line are new.
            self.from_ns = if passed == 1 { self.to_ns } else { self.draw_ns() };
            self.to_ns = self.draw_ns();
        }
        let share = now.saturating_sub(self.knot).as_f64() / span.as_f64();
        Nanos::from_f64(self.from_ns + (self.to_ns - self.from_ns) * share)
    }

    fn draw_ns(&mut self) -> f64 {
        self.random.random_range(0.0..=self.most.as_f64())
    }
}
