//! Proven lower bounds on the completion time.
//!
//! * [`star_knapsack`]: one task and its neighbours, in closed form.
//! * [`set_packing`]: the sets of tasks that hosts can hold within a time; from [`connected_sets`], and from [`sets_by_pair_rates`] if
//!   each pair of hosts has its own rate.
//! * [`host_groups`]: what hosts, alone and in groups, exchange at most with all others, if each pair has its own rate.
//! * [`flows`]: flows that no host can keep inside; cheap for many tasks.
//! * [`joint_demand`]: the time within which all hosts together offer fewer cores or bytes than all tasks need.

pub(crate) mod connected_sets;
pub(crate) mod flows;
pub(crate) mod host_groups;
pub(crate) mod joint_demand;
pub(crate) mod set_packing;
pub(crate) mod sets_by_pair_rates;
pub(crate) mod star_knapsack;
