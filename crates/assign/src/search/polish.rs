//! The polish after a search: single moves at the bottleneck, as long as one helps and time is left.

use crate::problem::{Assignment, Problem};
use crate::search::Search;
use crate::search::link_loads::Rates;

/// The largest number of units times hosts for which a placement is polished. Above it, polishing takes too long for
/// its gain.
const PLACES: usize = 100_000;

/// Exchanges between two units that polishing may examine for each step of the search.
///
/// That is about a twelfth of the exchanges that the steps examine themselves. It is enough to finish sparse problems.
const LOOKS_PER_STEP: u64 = 4;
const FEWEST_LOOKS: u64 = 500_000;

impl Search<'_> {
    /// Makes the best single move at the bottleneck until none helps, or until work or time is used up.
    ///
    /// Trying all moves of 64 tasks that all exchange bytes takes half a second, and many such moves may help.
    pub(crate) fn polish(&self, problem: &Problem, rates: &Rates, mut assignment: Assignment) -> Assignment {
        if problem.units.len() * problem.capacity.len() > PLACES {
            return assignment;
        }
        let mut left = self.steps.saturating_mul(LOOKS_PER_STEP).max(FEWEST_LOOKS);
        let mut more = |looks: u64| {
            left = left.saturating_sub(looks);
            left > 0 && !(self.late)()
        };
        while let Some(other) = problem.best_move(&assignment, rates, &mut more) {
            if other.seconds >= problem.evaluate(&assignment).total_s() {
                break;
            }
            for (task, host) in other.moves {
                assignment.0[task] = host;
            }
        }
        assignment
    }
}
