//! Detects that the clock of packet timestamps was set.
//!
//! The kernel timestamps packets by the clock that administrators and NTP set. Slewing changes that clock and the
//! monotonic one alike; only a step changes their difference.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A larger change of the difference is a step. A smaller one may be a thread that lost its core between two readings.
const STEP: Duration = Duration::from_micros(500);

/// Number of readings at one moment; the quickest one counts.
const READINGS: usize = 3;

/// Counts the steps of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockWatch {
    origin: Instant,
    ahead_ns: Option<i128>,
    steps: u32,
}

impl ClockWatch {
    /// Starts with the present difference of the clocks.
    pub(super) fn new() -> Self {
        let mut watch = Self {
            origin: Instant::now(),
            ahead_ns: None,
            steps: 0,
        };
        watch.look();
        watch
    }

    /// Compares the clocks now. Returns the number of steps since the start.
    pub(super) fn look(&mut self) -> u32 {
        let mut readings = [(); READINGS].map(|()| {
            let before = self.origin.elapsed();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (self.origin.elapsed().saturating_sub(before), before, wall)
        });
        readings.sort_by_key(|(took, ..)| *took);
        let (_, steady, wall) = readings[0];
        self.compare(steady, wall)
    }

    /// Compares one reading of both clocks with the previous one.
    fn compare(&mut self, steady: Duration, wall: Duration) -> u32 {
        let ahead_ns = wall.as_nanos() as i128 - steady.as_nanos() as i128;
        let change_ns = ahead_ns - self.ahead_ns.unwrap_or(ahead_ns);
        self.ahead_ns = Some(ahead_ns);
        if change_ns.unsigned_abs() > STEP.as_nanos() {
            self.steps = self.steps.wrapping_add(1);
        }
        self.steps
    }
}

impl Default for ClockWatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_clock_that_nobody_sets_has_no_steps() {
        let mut watch = ClockWatch::new();
        for _ in 0..1000 {
            assert_eq!(watch.look(), 0);
        }
    }

    proptest! {
        #[test]
        fn each_step_is_counted_also_when_the_clock_is_set_back(
            gaps_us in prop::collection::vec(1u64..100_000, 1..50),
            steps_us in prop::collection::vec(prop_oneof![Just(0i64), 600..5_000_000i64, -5_000_000..-600i64], 50),
            noise_ns in prop::collection::vec(-200_000i64..200_000, 50),
        ) {
            let mut watch = ClockWatch::new();
            watch.ahead_ns = Some(1_000_000_000_000_000);
            let (mut steady_us, mut ahead_us, mut expected) = (0, 1_000_000_000_000i64, 0);
            for ((gap_us, step_us), noise_ns) in gaps_us.iter().zip(&steps_us).zip(&noise_ns) {
                steady_us += gap_us;
                ahead_us += step_us;
                expected += u32::from(*step_us != 0);
                let wall_ns = (steady_us as i64 + ahead_us) * 1000 + noise_ns / 10;
                let counted = watch.compare(Duration::from_micros(steady_us), Duration::from_nanos(wall_ns as u64));
                prop_assert_eq!(counted, expected);
            }
        }
    }
}
