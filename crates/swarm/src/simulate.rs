//! A fluid model, from event to event, of coflows that arrive and end under a policy.

use crate::fabric::Fabric;
use crate::orders::{Coflow, Flow, Guaranteed, Policy, admit};
use crate::trace::Trace;

/// Flows that end within this time of each other end together; smaller differences are rounding errors.
const TOGETHER_S: f64 = 1e-9;

/// The treatment of coflows that arrive with a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// No coflow is promised its deadline.
    #[default]
    Open,
    /// Coflows that cannot be promised their deadline run without a promise.
    Demote,
    /// Coflows that cannot be promised their deadline do not run.
    Refuse,
}

/// The finish times of a simulated trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Time at which the last byte of each coflow was sent, in the trace's order; NaN for a coflow that was refused.
    pub finish_s: Vec<f64>,
    /// Whether each coflow was promised its deadline.
    pub guaranteed: Vec<bool>,
    /// How often the simulation asked the policy for rates.
    pub reckonings: u64,
    /// The largest number of flows that were active at the same time.
    pub most_flows: usize,
}

/// Runs a trace under a policy.
///
/// The trace and the fabric number ports in the same way. Unless `admission` is open, [`admit`] decides on arrival which
/// coflows keep their deadlines, and [`Guaranteed`] keeps them. The simulation asks the policy for rates again whenever:
///
/// 1. a coflow arrives or ends;
/// 2. the time that [`Policy::again_s`] returned has passed;
/// 3. a flow ends. With `step_s` above zero, up to that much time may pass before other flows get the rate of a flow
///    that was not its coflow's last. Larger steps make large traces affordable and never make a coflow faster.
///
/// The simulation calls `progress` from time to time with the number of finished coflows. If `progress` returns false,
/// the simulation stops and returns `None`.
///
/// # Panics
/// If the trace has more ports than the fabric.
pub fn simulate(
    trace: &Trace,
    policy: &dyn Policy,
    admission: Admission,
    fabric: &mut Fabric,
    step_s: f64,
    mut progress: impl FnMut(usize) -> bool,
) -> Option<Outcome> {
    let mut run = Run::new(trace, admission, step_s);
    let policy = Guaranteed(policy);
    while run.come(fabric) || !run.here.is_empty() {
        let rates_bps = policy.rates(&run.here, fabric);
        let for_s = run.until_next_s(&rates_bps, policy.again_s(&run.here, &rates_bps));
        run.go(&rates_bps, for_s);
        if run.outcome.reckonings.is_multiple_of(64) && !progress(run.done) {
            return None;
        }
    }
    Some(run.outcome)
}

struct Run<'a> {
    trace: &'a Trace,
    admission: Admission,
    step_s: f64,
    now_s: f64,
    /// All coflows by arrival; the first `came` of them have arrived.
    order: Vec<usize>,
    came: usize,
    here: Vec<Coflow>,
    done: usize,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, admission: Admission, step_s: f64) -> Self {
        let count = trace.coflows.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| trace.coflows[a].arrival_s.total_cmp(&trace.coflows[b].arrival_s));
        Self {
            trace,
            admission,
            step_s,
            now_s: 0.0,
            order,
            came: 0,
            here: Vec::new(),
            done: 0,
            outcome: Outcome {
                finish_s: vec![f64::NAN; count],
                guaranteed: vec![false; count],
                ..Outcome::default()
            },
        }
    }

    fn next_arrival_s(&self) -> f64 {
        let next = self.order.get(self.came);
        next.map_or(f64::INFINITY, |&at| self.trace.coflows[at].arrival_s)
    }

    /// Adds all coflows that have arrived by now. If no coflow is active, time first advances to the next arrival.
    /// Coflows without a limited flow end at once. Returns whether any coflow is active.
    fn come(&mut self, fabric: &mut Fabric) -> bool {
        loop {
            let next_s = self.next_arrival_s();
            if self.here.is_empty() && next_s < f64::INFINITY {
                self.now_s = self.now_s.max(next_s);
            }
            if next_s > self.now_s + TOGETHER_S {
                break;
            }
            let number = self.order[self.came];
            self.came += 1;
            let listed = &self.trace.coflows[number];
            let flow = |&(source, target, bytes): &(u32, u32, f64)| Flow {
                path: fabric.path(source as usize, target as usize),
                left_bytes: bytes,
            };
            let flows: Vec<Flow> = listed.flows.iter().map(flow).collect();
            let limited = |flow: &Flow| flow.left_bytes > 0.0 && !fabric.links(flow.path).is_empty();
            let flows: Vec<Flow> = flows.into_iter().filter(limited).collect();
            if flows.is_empty() {
                self.outcome.finish_s[number] = listed.arrival_s;
                self.done += 1;
                continue;
            }
            let mut coflow = Coflow {
                number: number as u64,
                arrival_s: listed.arrival_s,
                class: listed.class,
                weight: listed.weight,
                sent_bytes: 0.0,
                due_s: listed.deadline_s,
                guaranteed: false,
                flows,
            };
            if self.admission != Admission::Open && coflow.due_s < f64::INFINITY {
                coflow.guaranteed = admit(&self.here, &coflow, fabric, 1.0).is_ok();
                self.outcome.guaranteed[number] = coflow.guaranteed;
                if !coflow.guaranteed && self.admission == Admission::Refuse {
                    self.done += 1;
                    continue;
                }
            }
            self.here.push(coflow);
        }
        let under_way = self.here.iter().map(|coflow| coflow.flows.len()).sum();
        self.outcome.most_flows = self.outcome.most_flows.max(under_way);
        !self.here.is_empty()
    }

    /// How long these rates stay valid, in seconds: until the first of the events that [`simulate`] lists.
    fn until_next_s(&self, rates_bps: &[f64], again_s: f64) -> f64 {
        let mut rates = rates_bps.iter();
        let (mut flow_s, mut coflow_s) = (f64::INFINITY, f64::INFINITY);
        for coflow in &self.here {
            let mut last_s: f64 = 0.0;
            for (flow, rate) in coflow.flows.iter().zip(&mut rates) {
                let end_s = 8.0 * flow.left_bytes / rate;
                flow_s = flow_s.min(end_s);
                last_s = last_s.max(end_s);
            }
            coflow_s = coflow_s.min(last_s);
        }
        let arrival_s = self.next_arrival_s() - self.now_s;
        flow_s
            .max(self.step_s)
            .min(coflow_s)
            .min(arrival_s)
            .min(again_s)
            .max(TOGETHER_S)
    }

    /// Advances time by `for_s` at these rates.
    fn go(&mut self, rates_bps: &[f64], for_s: f64) {
        assert!(for_s < f64::INFINITY, "some flow has a rate");
        self.now_s += for_s;
        self.outcome.reckonings += 1;
        let mut rates = rates_bps.iter();
        for coflow in &mut self.here {
            coflow.due_s -= for_s;
            let mut sent_bytes = 0.0;
            coflow.flows.retain_mut(|flow| {
                let Some(rate) = rates.next() else { return true };
                let bytes = rate * for_s / 8.0;
                if flow.left_bytes - bytes <= rate * TOGETHER_S / 8.0 {
                    sent_bytes += flow.left_bytes;
                    return false;
                }
                sent_bytes += bytes;
                flow.left_bytes -= bytes;
                true
            });
            coflow.sent_bytes += sent_bytes;
            if coflow.flows.is_empty() {
                self.outcome.finish_s[coflow.number as usize] = self.now_s;
                self.done += 1;
            }
        }
        self.here.retain(|coflow| !coflow.flows.is_empty());
    }
}
