//! What runs over a platform: flows, their order, and traffic in the background.

use gavotte_net::{InputError, check_index, check_length, check_value};

use crate::background::Background;
use crate::checks::{check_cap, check_weight};
use crate::order::Order;

/// Flows in columns, one row a flow. Borrowed, so that arrays of any origin serve without a copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flows<'a> {
    /// The sending host.
    pub source: &'a [u32],
    /// The receiving host; a flow to its own host takes no time.
    pub target: &'a [u32],
    /// How much.
    pub bytes: &'a [u64],
    /// Earliest start, in seconds from 0.
    pub start_s: &'a [f64],
    /// Share of a full link in proportion to this, from 0.001 to 1000. `None` = 1.
    pub weight: Option<&'a [f64]>,
    /// The most that a flow sends, in bit/s; infinite = no cap. `None` = no caps.
    pub cap_bps: Option<&'a [f64]>,
    /// Time from the start to the first byte, besides the platform's latency. `None` = 0.
    pub startup_s: Option<&'a [f64]>,
    /// What picks one of several equal paths, besides source and target. `None` = the row.
    pub label: Option<&'a [u64]>,
}

/// All that [`crate::simulate`] runs.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The flows whose finish times are wanted.
    pub flows: Flows<'a>,
    /// Which of them wait for others. `None` = none.
    pub order: Option<&'a Order>,
    /// Traffic that goes on until the last flow is done.
    pub background: &'a [Background],
    /// Stop here even if flows are left; infinite = when the last flow is done.
    pub until_s: f64,
    /// Decides every random choice of the background.
    pub seed: u64,
    /// By how much of itself the rate of a full link's flows may be off at any time, from 0 (exact) to 0.1.
    pub accuracy: f64,
}

impl<'a> Workload<'a> {
    /// Flows alone.
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
    /// How many there are.
    pub fn len(&self) -> usize {
        self.source.len()
    }

    /// Whether there are none.
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
        check_cap(of("cap_bps"), self.cap_bps(flow))
    }
}
