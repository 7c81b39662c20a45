//! The placement policies there are.

use crate::baselines::{MinMachines, Random, RoundRobin};
use crate::error::UnknownPolicy;
use crate::greedy::Greedy;
use crate::policy::Policy;

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
