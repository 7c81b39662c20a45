//! Policies that decide how much of the network each of several concurrent transfers gets.
//!
//! A [`Policy`] is a pure function: its input is the active [`Coflow`]s with the bytes that their flows have left, its
//! output one rate for each flow. It is called at every arrival and end, and again after the time that
//! [`Policy::again_s`] returns. A policy keeps no state between calls, so a simulation and a controller that paces real
//! flows run the same code. The same state always gives the same rates, whatever the order of its flows.
//!
//! All policies conserve work: each flow is limited by some full link.
//!
//! The policies by name, with the rule that decides the order, and whether a coflow can starve. Sizes must be known to
//! all except `fair` and `d-clas`.
//!
//! * `fair`: no order; every flow gets its max-min share. No coflow starves.
//! * `weighted`: no order; coflows share by their weights, and their flows by bytes left. No coflow starves.
//! * `fifo`: arrival. No coflow starves.
//! * `fifo+`: arrival, with 3 % of each link for each later coflow. No coflow starves.
//! * `priority`: class, then arrival, with 5 % for the lower classes. No coflow starves within a class.
//! * `scf`: bytes left. Large coflows can starve.
//! * `sebf`: seconds that the slowest link needs. Slow coflows can starve.
//! * `d-clas`: bytes sent, in ten queues, and arrival in each queue. No coflow starves.
//! * `bssi`: bottleneck, select, scale, iterate. Coflows can starve.
//! * `edf`: deadline. Coflows without one can starve.
//!
//! Under any of them, [`Guaranteed`] keeps the deadlines of coflows that [`admit`] has admitted.

mod bssi;
mod coflow;
mod d_clas;
mod edf;
mod fair;
mod fifo;
mod fifo_plus;
mod guaranteed;
mod loads;
mod priority;
mod room;
mod scf;
mod sebf;
mod weighted;

pub use bssi::Bssi;
pub use coflow::{Coflow, Flow, Policy};
pub use d_clas::DClas;
pub use edf::Edf;
pub use fair::Fair;
pub use fifo::Fifo;
pub use fifo_plus::FifoPlus;
pub use guaranteed::{Guaranteed, Shortage, admit};
pub use priority::Priority;
pub use scf::Scf;
pub use sebf::Sebf;
pub use weighted::Weighted;

/// Creates a policy with the settings of its paper.
type Factory = fn() -> Box<dyn Policy>;

/// All policies by name.
const FACTORIES: [(&str, Factory); 10] = [
    ("fair", || Box::new(Fair)),
    ("weighted", || Box::new(Weighted)),
    ("fifo", || Box::new(Fifo)),
    ("fifo+", || Box::new(FifoPlus::default())),
    ("priority", || Box::new(Priority::default())),
    ("scf", || Box::new(Scf)),
    ("sebf", || Box::new(Sebf)),
    ("d-clas", || Box::new(DClas::default())),
    ("bssi", || Box::new(Bssi)),
    ("edf", || Box::new(Edf)),
];

/// The names that [`policy`] accepts.
pub fn names() -> impl Iterator<Item = &'static str> {
    FACTORIES.iter().map(|(name, _)| *name)
}

/// The policy of this name, with the settings of its paper.
pub fn policy(name: &str) -> Option<Box<dyn Policy>> {
    let known = FACTORIES.iter().find(|(known, _)| *known == name);
    known.map(|(_, make)| make())
}
