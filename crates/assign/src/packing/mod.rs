//! Which task is on which host, and what else fits.
//!
//! * [`units_on_hosts`]: an assignment of units that a search changes move by move, under all rules.
//! * [`task_by_task`]: an assignment that a policy fills one task after the other.
//! * [`capacity_left`]: cores, memory and storage left on each host.

pub(crate) mod capacity_left;
pub(crate) mod task_by_task;
pub(crate) mod units_on_hosts;
