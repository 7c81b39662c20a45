//! Placement policies, each known by a name.

use crate::baselines::{MinMachines, Random, RoundRobin};
use crate::error::{PlaceError, UnknownPolicy};
use crate::greedy::Greedy;
use crate::problem::{Assignment, Problem};

/// A way to place tasks.
pub trait Policy: Sync {
    /// The name on the command line and in files.
    fn name(&self) -> &'static str;

    /// Gives every task a host with room for it.
    ///
    /// `seed` decides every random choice; policies without any ignore it.
    ///
    /// # Errors
    /// [`PlaceError`] if this policy finds no placement. Unless it is [`PlaceError::TooLarge`], one may still exist.
    fn place(&self, problem: &Problem, seed: u64) -> Result<Assignment, PlaceError>;
}

/// All policies, the best known first.
pub fn policies() -> [&'static dyn Policy; 4] {
    [&Greedy, &Random, &RoundRobin, &MinMachines]
}

/// The policy called `name`.
///
/// # Errors
/// [`UnknownPolicy`] lists the names there are.
pub fn policy(name: &str) -> Result<&'static dyn Policy, UnknownPolicy> {
    policies()
        .into_iter()
        .find(|policy| policy.name() == name)
        .ok_or_else(|| UnknownPolicy {
            name: name.to_owned(),
            known: policies().map(Policy::name).join(", "),
        })
}
