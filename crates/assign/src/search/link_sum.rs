//! Costs that are sums over all links, for searches in which many links are nearly as slow as the slowest.
//!
//! The longest time then shows no progress. These sums show it for each of the links.

/// A sum over all links that is kept up to date.
#[derive(Clone, Debug)]
pub(crate) struct LinkSum {
    terms: Terms,
    sum: f64,
    /// The sum at the last `mark`.
    before: f64,
}

/// What a link adds to the sum.
#[derive(Clone, Debug)]
enum Terms {
    /// The share by which its time exceeds a goal, of which `inverse` is the inverse in seconds.
    Excess { inverse: f64 },
    /// A power of its time.
    Steep {
        power: i32,
        /// For each phase, its share of the total time, and the inverse of the time of a link that counts 1. That time
        /// is the one that contributes most of the sum. So neither many idle links nor one far too slow link changes
        /// the weight of the others.
        phases: Vec<(f64, f64)>,
    },
}

impl LinkSum {
    /// The sum of the shares by which links exceed `goal_s`. `times` are seconds: for each phase, those of all links.
    pub(crate) fn excess(goal_s: f64, times: &[&[f64]]) -> Self {
        Self::new(
            Terms::Excess {
                inverse: goal_s.recip(),
            },
            times,
        )
    }

    /// The sum of a power of all links' times, at least one of which is above 0. `times` as for `excess`.
    pub(crate) fn steep(power: i32, times: &[&[f64]]) -> Self {
        let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
        let whole: f64 = times.iter().map(|times| longest(times)).sum();
        let scale = |times: &&[f64]| {
            let longest = longest(times);
            if longest <= 0.0 {
                return (0.0, 0.0);
            }
            let shares = || times.iter().map(|seconds| (seconds / longest).powi(power));
            let (once, twice) = (shares().sum::<f64>(), shares().map(|share| share * share).sum::<f64>());
            (
                longest / whole,
                (longest * (twice / once).powf(f64::from(power).recip())).recip(),
            )
        };
        let phases = times.iter().map(scale).collect();
        Self::new(Terms::Steep { power, phases }, times)
    }

    fn new(terms: Terms, times: &[&[f64]]) -> Self {
        let mut new = Self {
            terms,
            sum: 0.0,
            before: 0.0,
        };
        for (phase, times) in times.iter().enumerate() {
            new.sum += times.iter().map(|&seconds| new.of(phase, seconds)).sum::<f64>();
        }
        new
    }

    pub(crate) fn is_steep(&self) -> bool {
        matches!(self.terms, Terms::Steep { .. })
    }

    pub(crate) fn value(&self) -> f64 {
        self.sum
    }

    /// From now on, changes can be undone.
    pub(crate) fn mark(&mut self) {
        self.before = self.sum;
    }

    /// Undoes all changes since `mark`.
    pub(crate) fn undo(&mut self) {
        self.sum = self.before;
    }

    /// Records that a link takes another time in a phase, in seconds.
    pub(crate) fn change(&mut self, phase: usize, before_s: f64, seconds: f64) {
        self.sum += self.of(phase, seconds) - self.of(phase, before_s);
    }

    fn of(&self, phase: usize, seconds: f64) -> f64 {
        match &self.terms {
            Terms::Excess { inverse } => (seconds * inverse - 1.0).max(0.0),
            Terms::Steep { power, phases } => {
                let (weight, inverse) = phases[phase];
                weight * (seconds * inverse).powi(*power)
            }
        }
    }
}
