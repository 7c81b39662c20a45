//! Loops whose passes take the same time: when that is so, and what the passes that are left will take.

use std::collections::VecDeque;

use crate::outcome::Split;

/// Largest relative difference between the mean times of two successive windows of passes.
const CONVERGED: f64 = 1e-3;
/// Least passes of a window.
const LEAST: usize = 3;
/// Passes after which a steady state is looked for.
const FIRST: u64 = 8;
/// Most passes of a window. With these many, computing times that vary have the mean of all passes within `LOOSE`.
const MOST: usize = 256;
/// Largest relative difference between two windows of `MOST` passes.
const LOOSE: f64 = 1e-2;
/// Passes at the end of a loop that are always replayed, since ranks leave it at different times.
const KEPT: u64 = 3;

/// The end of a pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lap {
    pub(crate) time_s: f64,
    pub(crate) compute_s: f64,
    pub(crate) overhead_s: f64,
    pub(crate) wait_s: f64,
    pub(crate) path: Split,
}

/// The ends of the last passes of a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Laps {
    ends: VecDeque<Lap>,
    /// All passes that ended.
    count: u64,
}

impl Laps {
    pub(crate) fn push(&mut self, lap: Lap) {
        if self.ends.len() > 2 * MOST {
            self.ends.pop_front();
        }
        self.ends.push_back(lap);
        self.count += 1;
    }

    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.count = 0;
    }

    /// Whether it is time to look for a steady state: after 8, 16, 32... passes, and then after each 512.
    pub(crate) fn is_due(&self) -> bool {
        self.count >= FIRST && (self.count.is_power_of_two() || self.count.is_multiple_of(2 * MOST as u64))
    }
}

/// The mean of one pass.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) time_s: f64,
    pub(crate) compute_s: f64,
    pub(crate) overhead_s: f64,
    pub(crate) wait_s: f64,
    pub(crate) path: Split,
}

/// A steady state: how many passes to leave out, and the mean pass of each rank.
pub(crate) struct Steady {
    pub(crate) passes: u64,
    pub(crate) of_ranks: Vec<Pass>,
    /// The mean over all ranks, which is the period of the loop.
    pub(crate) period_s: f64,
}

/// Finds a steady state in a loop of all ranks that have not ended.
///
/// 1. Each rank has finished at least two windows of passes.
/// 2. The mean times of both windows differ by at most 0.1 %, or 1 % for windows of 256 passes.
/// 3. All ranks have the same mean time, so none drifts away from the others.
/// 4. What is left is longer than what was looked at.
pub(crate) fn steady<'a>(loops: impl Iterator<Item = Option<(&'a Laps, u64)>>) -> Option<Steady> {
    let loops: Vec<(&Laps, u64)> = loops.collect::<Option<_>>()?;
    let window = loops
        .iter()
        .map(|(laps, _)| laps.ends.len().saturating_sub(1) / 2)
        .min()?
        .min(MOST);
    let passes = loops.iter().map(|(_, left)| *left).min()?.saturating_sub(KEPT);
    if window < LEAST || passes < 2 * window as u64 {
        return None;
    }
    let tolerance = if window < MOST { CONVERGED } else { LOOSE };
    let close = |a: f64, b: f64| (a - b).abs() <= tolerance * a.max(b);
    let mut of_ranks = Vec::with_capacity(loops.len());
    for (laps, _) in &loops {
        let ends = &laps.ends;
        let (last, middle, first) = (
            ends[ends.len() - 1],
            ends[ends.len() - 1 - window],
            ends[ends.len() - 1 - 2 * window],
        );
        if !close(last.time_s - middle.time_s, middle.time_s - first.time_s) {
            return None;
        }
        let share = 1.0 / (2 * window) as f64;
        of_ranks.push(Pass {
            time_s: (last.time_s - first.time_s) * share,
            compute_s: (last.compute_s - first.compute_s) * share,
            overhead_s: (last.overhead_s - first.overhead_s) * share,
            wait_s: (last.wait_s - first.wait_s) * share,
            path: (last.path - first.path) * share,
        });
    }
    let period_s = of_ranks.iter().map(|pass| pass.time_s).sum::<f64>() / of_ranks.len() as f64;
    // Ranks that do not depend on each other may have different periods: then none of them can be left out.
    let together = of_ranks
        .iter()
        .all(|pass| (pass.time_s - period_s).abs() <= tolerance * period_s);
    together.then_some(Steady {
        passes,
        of_ranks,
        period_s,
    })
}
