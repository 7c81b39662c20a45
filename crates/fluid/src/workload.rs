//! The input of a simulation: flows, their order, and background traffic.

use gavotte_net::{Bandwidth, InputError, check_index, check_length, check_value};

use crate::background::Background;
use crate::checks::{check_cap, check_weight};
use crate::order::Order;

/// Flows in columns, one row per flow. They are borrowed, so that arrays of any origin can be used without a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flows<'a> {
    /// The sending host.
    pub source: &'a [u32],
    /// The receiving host; a flow to its own host takes no time.
    pub target: &'a [u32],
    /// The bytes of each flow.
    pub bytes: &'a [u64],
    /// Earliest start, in seconds from 0.
    pub start_s: &'a [f64],
    /// Weight from 0.001 to 1000: a flow's share of a full link is proportional to it. `None` = 1.
    pub weight: Option<&'a [f64]>,
    /// Highest rate of a flow, in bit/s; infinite = no cap. `None` = no caps.
    pub cap_bps: Option<&'a [f64]>,
    /// Time from the start to the first byte, in addition to the platform's latency. `None` = 0.
    pub startup_s: Option<&'a [f64]>,
    /// Chooses one of several equal paths, together with source and target. `None` = the row.
    pub label: Option<&'a [u64]>,
}

/// Everything that [`crate::simulate`] runs.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The flows whose finish times are computed.
    pub flows: Flows<'a>,
    /// The dependencies between flows. `None` = none.
    pub order: Option<&'a Order>,
    /// Traffic that continues until the last flow is done.
    pub background: &'a [Background],
    /// The time at which to stop even if flows are left; infinite = when the last flow is done.
    pub until_s: f64,
    /// Seed of all random choices of the background.
    pub seed: u64,
    /// Largest relative error of the rates of a full link's flows at any time, from 0 (exact) to 0.1.
    pub accuracy: f64,
}

impl<'a> Workload<'a> {
    /// Creates a workload of flows only.
    pub fn new(flows: Flows<'a>) -> Self {
        Self {
            flows,
            order: None,
            background: &[],
            until_s: f64::INFINITY,
            seed: 0,
            accuracy: 0.0,
        }
    }

    pub(crate) fn check(&self, hosts: usize) -> Result<(), InputError> {
        self.flows.check(hosts)?;
        if let Some(order) = self.order {
            check_length("the order of flows", order.flow_count(), self.flows.len())?;
        }
        for (number, background) in self.background.iter().enumerate() {
            background.check(number, hosts)?;
        }
        check_value(
            || "the accuracy".into(),
            self.accuracy,
            (0.0..=0.1).contains(&self.accuracy),
            "from 0 to 0.1",
        )?;
        check_value(
            || "the end of the simulation".into(),
            self.until_s,
            self.until_s >= 0.0,
            "from zero seconds",
        )
    }
}

impl Flows<'_> {
    /// The number of flows.
    pub fn len(&self) -> usize {
        self.source.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    pub(crate) fn weight(&self, flow: usize) -> f64 {
        self.weight.map_or(1.0, |column| column[flow])
    }

    pub(crate) fn cap_bps(&self, flow: usize) -> f64 {
        self.cap_bps.map_or(f64::INFINITY, |column| column[flow])
    }

    pub(crate) fn startup_s(&self, flow: usize) -> f64 {
        self.startup_s.map_or(0.0, |column| column[flow])
    }

    pub(crate) fn label(&self, flow: usize) -> u64 {
        self.label.map_or(flow as u64, |column| column[flow])
    }

    fn check(&self, hosts: usize) -> Result<(), InputError> {
        let count = self.len();
        check_length("the column `target`", self.target.len(), count)?;
        check_length("the column `bytes`", self.bytes.len(), count)?;
        check_length("the column `start_s`", self.start_s.len(), count)?;
        for (what, column) in [
            ("the column `weight`", self.weight),
            ("the column `cap_bps`", self.cap_bps),
            ("the column `startup_s`", self.startup_s),
        ] {
            check_length(what, column.map_or(count, <[f64]>::len), count)?;
        }
        check_length("the column `label`", self.label.map_or(count, <[u64]>::len), count)?;
        for flow in 0..count {
            self.check_flow(flow, hosts)?;
        }
        Ok(())
    }

    fn check_flow(&self, flow: usize, hosts: usize) -> Result<(), InputError> {
        let of = |column: &'static str| move || format!("{column} of flow {flow}");
        check_index(of("the source"), self.source[flow] as usize, hosts)?;
        check_index(of("the target"), self.target[flow] as usize, hosts)?;
        let from_zero = |value: f64| (0.0..f64::INFINITY).contains(&value);
        let (start_s, startup_s) = (self.start_s[flow], self.startup_s(flow));
        check_value(of("start_s"), start_s, from_zero(start_s), "from zero, and finite")?;
        check_value(
            of("startup_s"),
            startup_s,
            from_zero(startup_s),
            "from zero, and finite",
        )?;
        check_weight(of("the weight"), self.weight(flow))?;
        check_cap(of("cap_bps"), Bandwidth(self.cap_bps(flow)))
    }
}
