//! Which transfers get how much of the network while they are under way at once.
//!
//! A [`Policy`] is a pure function from what is under way, [`Coflow`]s with the bytes that their flows have left, to one
//! rate a flow. It is asked at every arrival and end, and as often as it wants by [`Policy::again_s`]. It keeps nothing
//! between calls, so a simulation and a controller that paces real flows drive the same code, and the same state always
//! gives the same rates, whatever the order of its flows.
//!
//! All policies conserve work: each flow is held back by some link that is full.
//!
//! | name | order | sizes | can starve |
//! | --- | --- | --- | --- |
//! | `fair` | none: every flow its max-min share | unknown | no |
//! | `weighted` | none: coflows share by their weights, their flows by bytes left | known | no |
//! | `fifo` | arrival | known | no |
//! | `fifo+` | arrival, with 3 % for each later coflow | known | no |
//! | `priority` | class, then arrival, with 5 % for the lower classes | known | within a class no |
//! | `scf` | bytes left | known | large coflows |
//! | `sebf` | seconds that the slowest link needs | known | slow coflows |
//! | `d-clas` | bytes sent, in ten queues, arrival in each | unknown | no |
//! | `bssi` | bottleneck, select, scale, iterate | known | yes |

mod bssi;
mod coflow;
mod d_clas;
mod fair;
mod fifo;
mod fifo_plus;
mod loads;
mod priority;
mod room;
mod scf;
mod sebf;
mod weighted;

pub use bssi::Bssi;
pub use coflow::{Coflow, Flow, Policy};
pub use d_clas::DClas;
pub use fair::Fair;
pub use fifo::Fifo;
pub use fifo_plus::FifoPlus;
pub use priority::Priority;
pub use scf::Scf;
pub use sebf::Sebf;
pub use weighted::Weighted;

/// Makes a policy as its paper has it.
type Factory = fn() -> Box<dyn Policy>;

/// All policies by name.
const FACTORIES: [(&str, Factory); 9] = [
    ("fair", || Box::new(Fair)),
    ("weighted", || Box::new(Weighted)),
    ("fifo", || Box::new(Fifo)),
    ("fifo+", || Box::new(FifoPlus::default())),
    ("priority", || Box::new(Priority::default())),
    ("scf", || Box::new(Scf)),
    ("sebf", || Box::new(Sebf)),
    ("d-clas", || Box::new(DClas::default())),
    ("bssi", || Box::new(Bssi)),
];

/// The names that [`policy`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    FACTORIES.iter().map(|(name, _)| *name)
}

/// A policy by its name, with the settings of its paper.
pub fn policy(name: &str) -> Option<Box<dyn Policy>> {
    let known = FACTORIES.iter().find(|(known, _)| *known == name);
    known.map(|(_, make)| make())
}
