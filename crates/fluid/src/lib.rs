//! Simulates flows that share a network max-min fairly: when each finishes, and what each link carries.
//!
//! The input is a [`Platform`] and a [`Workload`]. A platform is a described [`Topology`], a measured
//! [`Network`](gavotte_net::Network), or your own. A workload has flows with start times, sizes, weights and caps, an [`Order`] among
//! them, and [`Background`] traffic. [`simulate`] returns the [`Outcome`]; [`rates`] the rates of flows that all run at the same time.
//!
//! The model: a flow is a fluid that starts after a latency. It gets its max-min fair share of the links on its path,
//! and a new share whenever another flow starts or ends. There are no packets, queues or loss, so the model fits long
//! flows.
//!
//! Units: bit/s, bytes and seconds. No code here reads a clock or an environment variable; the same input and seed
//! always give the same output.
//!
//! ```
//! use gavotte_fluid::{Flows, Topology, TopologyParts, Workload, simulate};
//! use gavotte_net::BitsPerSec;
//!
//! let gigabit = BitsPerSec::new(1e9).unwrap();
//! let network = Topology::new(TopologyParts::racks(4, 2, gigabit, gigabit))?;
//! // Two flows leave host 0; when the first is done, the second has the link for itself.
//! let (source, target) = ([0, 0], [1, 2]);
//! let flows = Flows { source: &source, target: &target, bytes: &[125_000_000, 250_000_000], start_s: &[0.0, 0.0], ..Flows::default() };
//! let outcome = simulate(&network, &Workload::new(flows))?;
//! assert_eq!(outcome.finish_s, [2.0, 3.0]);
//! # Ok::<(), gavotte_fluid::FluidError>(())
//! ```

mod background;
mod checks;
mod error;
mod guarded;
mod network;
mod order;
mod outcome;
mod platform;
mod run;
mod sharing;
mod switches;
mod table;
mod topology;
mod traffic;
mod wire;
mod workload;

pub use background::{Background, Pattern};
pub use error::FluidError;
pub use guarded::{Guarded, Guarding, Hose, Method, PairUse, Protection, Queues, Tenant, simulate_guarded};
pub use order::Order;
pub use outcome::{LinkUse, Outcome};
pub use platform::{LinkId, Platform};
pub use run::{rates, simulate};
pub use table::{FlowTable, write_finish};
pub use topology::{Machine, Switch, Topology, TopologyParts, Uplink};
pub use wire::{Transfer, Wire};
pub use workload::{Flows, Workload};
