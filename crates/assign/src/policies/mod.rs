//! The available placement policies.

pub(crate) mod baselines;
pub(crate) mod greedy;
pub(crate) mod policy;

use crate::error::UnknownPolicy;
use crate::policies::baselines::{MinMachines, Random, RoundRobin};
use crate::policies::greedy::Greedy;
use crate::policies::policy::Policy;

/// All policies, the best known first.
pub fn policies() -> [&'static dyn Policy; 4] {
    [&Greedy, &Random, &RoundRobin, &MinMachines]
}

/// The policy with this `name`.
///
/// # Errors
/// [`UnknownPolicy`] lists the available names.
pub fn policy(name: &str) -> Result<&'static dyn Policy, UnknownPolicy> {
    policies()
        .into_iter()
        .find(|policy| policy.name() == name)
        .ok_or_else(|| UnknownPolicy {
            name: name.to_owned(),
            known: policies().map(Policy::name).join(", "),
        })
}
