//! What messages cost in addition to the network: the MPI library's protocol and the processors' work.

use std::sync::Arc;

use crate::error::ReplayError;
use crate::settings::Setting;

/// The MPI library, which decides the algorithms of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI 4.1 and 5.0, with the component `tuned`.
    OpenMpi,
    /// MPICH 4 and 5.
    Mpich,
}

/// Costs of messages at their ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The MPI library.
    pub library: Library,
    /// Algorithms that were set in place of its own choices.
    pub settings: Arc<[Setting]>,
    /// Largest message that is sent without waiting for the receiver, in bytes; larger ones announce themselves with as many.
    pub eager_bytes: u64,
    /// Bytes that a sender's socket takes before they are on the wire. They move on while the sender computes; what
    /// is left of a larger message waits for the sender's next call.
    pub socket_bytes: u64,
    /// Processor time of a message at each end, in seconds.
    pub overhead_s: f64,
    /// Processor time of each byte of a message at each end, in seconds.
    pub byte_overhead_s: f64,
    /// Time for combining one byte of a reduction, in seconds.
    pub combine_s: f64,
    /// Latency between two ranks of one host, in seconds.
    pub local_latency_s: f64,
    /// Rate between two ranks of one host, in bit/s.
    pub local_bps: f64,
    /// Most events of a replay.
    pub most_events: u64,
}

impl Default for Model {
    /// Values of TCP on servers of today.
    fn default() -> Self {
        Self {
            library: Library::OpenMpi,
            settings: Arc::new([]),
            eager_bytes: 65_536,
            socket_bytes: 262_144,
            overhead_s: 4e-6,
            byte_overhead_s: 0.0,
            combine_s: 0.25e-9,
            local_latency_s: 5e-6,
            local_bps: 2e10,
            most_events: 100_000_000,
        }
    }
}

impl Model {
    pub(crate) fn check(&self) -> Result<(), ReplayError> {
        let times = [
            ("overhead_s", self.overhead_s),
            ("byte_overhead_s", self.byte_overhead_s),
            ("combine_s", self.combine_s),
            ("local_latency_s", self.local_latency_s),
        ];
        for (name, value) in times {
            if !(0.0..1e3).contains(&value) {
                return Err(ReplayError::Input(format!("{name} is {value}; use 0 to 1000 s")));
            }
        }
        if self.socket_bytes == 0 {
            return Err(ReplayError::Input("socket_bytes is 0; use 1 or more".into()));
        }
        if self.local_bps > 0.0 {
            return Ok(());
        }
        Err(ReplayError::Input(format!(
            "local_bps is {}; use a rate above 0",
            self.local_bps
        )))
    }
}
