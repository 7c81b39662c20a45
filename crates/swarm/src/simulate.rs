//! Coflows that come and go under a policy: when each is done. A fluid model, from event to event.

use crate::fabric::Fabric;
use crate::orders::{Coflow, Flow, Policy};
use crate::trace::Trace;

/// Flows that end within this time of each other end together: less is rounding.
const TOGETHER_S: f64 = 1e-9;

/// When coflows were done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// By coflow of the trace: when its last byte was sent.
    pub finish_s: Vec<f64>,
    /// How often the policy was asked for rates.
    pub reckonings: u64,
    /// The most flows that were under way at once.
    pub most_flows: usize,
}

/// Runs a trace under a policy.
///
/// Ports of the trace are those of the fabric, by number. Rates are reckoned anew whenever a coflow comes or ends, the
/// policy asks for it, or a flow ends; with `step_s` above zero, the end of a flow that is not the last of its coflow may
/// wait that long until its share is given to others, which makes large traces affordable and never a coflow faster.
///
/// `progress` is called now and then with coflows done; if it says no, the outcome is `None`.
///
/// # Panics
/// If the trace has more ports than the fabric.
pub fn simulate(
    trace: &Trace,
    policy: &dyn Policy,
    fabric: &mut Fabric,
    step_s: f64,
    mut progress: impl FnMut(usize) -> bool,
) -> Option<Outcome> {
    let mut run = Run::new(trace, step_s);
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
    step_s: f64,
    now_s: f64,
    /// Coflows by arrival, and how many of them have come.
    order: Vec<usize>,
    came: usize,
    here: Vec<Coflow>,
    done: usize,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, step_s: f64) -> Self {
        let count = trace.coflows.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| trace.coflows[a].arrival_s.total_cmp(&trace.coflows[b].arrival_s));
        Self {
            trace,
            step_s,
            now_s: 0.0,
            order,
            came: 0,
            here: Vec::new(),
            done: 0,
            outcome: Outcome {
                finish_s: vec![f64::NAN; count],
                ..Outcome::default()
            },
        }
    }

    fn next_arrival_s(&self) -> f64 {
        let next = self.order.get(self.came);
        next.map_or(f64::INFINITY, |&at| self.trace.coflows[at].arrival_s)
    }

    /// Takes in all that have arrived by now; where nothing is under way, now is when the next one arrives. Coflows that
    /// nothing limits are done at once. Whether there is something to do.
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
            self.here.push(Coflow {
                number: number as u64,
                arrival_s: listed.arrival_s,
                class: listed.class,
                weight: listed.weight,
                sent_bytes: 0.0,
                flows,
            });
        }
        let under_way = self.here.iter().map(|coflow| coflow.flows.len()).sum();
        self.outcome.most_flows = self.outcome.most_flows.max(under_way);
        !self.here.is_empty()
    }

    /// How long these rates hold.
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

    /// Lets time pass at these rates.
    fn go(&mut self, rates_bps: &[f64], for_s: f64) {
        assert!(for_s < f64::INFINITY, "some flow has a rate");
        self.now_s += for_s;
        self.outcome.reckonings += 1;
        let mut rates = rates_bps.iter();
        for coflow in &mut self.here {
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
