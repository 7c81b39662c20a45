//! What is left to do after a search: single moves at the bottleneck, as long as one helps and there is time.

use crate::loads::Rates;
use crate::problem::{Assignment, Problem};
use crate::search::Search;

/// Most units times hosts for which a placement is polished. At scale that takes too long for what it gains.
const PLACES: usize = 100_000;

/// Exchanges between two units that may be looked at, for each step of the search; about a twelfth of what its steps
/// look at themselves, and never so few that sparse problems are left half done.
const LOOKS_PER_STEP: u64 = 4;
const FEWEST_LOOKS: u64 = 500_000;

impl Search<'_> {
    /// Makes the best single move at the bottleneck until none helps, or until work or time is up.
    ///
    /// To try all moves of 64 tasks that all exchange bytes takes half a second, and many of them may help.
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
            if other.seconds >= problem.evaluate(&assignment).seconds {
                break;
            }
            for (task, host) in other.moves {
                assignment.0[task] = host;
            }
        }
        assignment
    }
}
