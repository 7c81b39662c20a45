//! The duration of messages that are sent at the same time and share links: each is a flow of the fluid model.

use gavotte_fluid::{Flows, LinkId, Workload, simulate};
use gavotte_net::{Seconds, Volume};

use crate::error::TreeError;
use crate::ranks::Ranks;

/// Messages, each with its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    source: Vec<u32>,
    target: Vec<u32>,
    bytes: Vec<f64>,
    start_s: Vec<f64>,
}

/// The duration of a script, and the link that limited its last message.
#[derive(Clone, Debug)]
pub(crate) struct Priced {
    pub(crate) seconds: f64,
    pub(crate) holder: Option<LinkId>,
}

impl Script {
    /// Adds a message that starts at a given time.
    pub(crate) fn send_at(&mut self, Seconds(start_s): Seconds, source: usize, target: usize, Volume(bytes): Volume) {
        self.source.push(source as u32);
        self.target.push(target as u32);
        self.bytes.push(bytes);
        self.start_s.push(start_s);
    }

    /// The duration on a network.
    pub(crate) fn price(&self, ranks: &Ranks) -> Result<Priced, TreeError> {
        let fail = |error: gavotte_fluid::FluidError| TreeError::Fluid(error.to_string());
        let bytes: Vec<u64> = self.bytes.iter().map(|bytes| bytes.round() as u64).collect();
        let local_s = |at: usize| {
            let (source, target) = (self.source[at] as usize, self.target[at] as usize);
            ranks.local_s(source, target, Volume(self.bytes[at])).unwrap_or(0.0)
        };
        let startup_s: Vec<f64> = (0..bytes.len()).map(local_s).collect();
        let flows = Flows {
            source: &self.source,
            target: &self.target,
            bytes: &bytes,
            start_s: &self.start_s,
            startup_s: Some(&startup_s),
            ..Flows::default()
        };
        let done = simulate(ranks, &Workload::new(flows)).map_err(fail)?;
        let ends = done.finish_s.iter().enumerate();
        let last = ends.max_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at);
        Ok(Priced {
            seconds: done.end_s,
            holder: last.and_then(|at| done.holder[at]),
        })
    }
}
