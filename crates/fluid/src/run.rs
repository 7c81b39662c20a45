//! The event loop: from one start or end of a flow to the next.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use gavotte_net::Seconds;

use crate::background::{Step, Steps};
use crate::error::FluidError;
use crate::order::Order;
use crate::outcome::Outcome;
use crate::platform::Platform;
use crate::sharing::Slot;
use crate::traffic::{Start, Traffic};
use crate::workload::{Flows, Workload};

/// Runs a workload over a platform.
///
/// # Errors
/// [`FluidError`] that names the first invalid part of the workload.
pub fn simulate(platform: &dyn Platform, workload: &Workload<'_>) -> Result<Outcome, FluidError> {
    workload.check(platform.host_count())?;
    let none = Order::none(workload.flows.len());
    let order = workload.order.unwrap_or(&none);
    let mut run = Run::new(platform, workload, order);
    run.release_first();
    run.go();
    Ok(run.into_outcome())
}

/// The max-min fair rate of each flow in bit/s if all run at the same time, whatever their size and start; infinite if
/// nothing limits a flow.
///
/// # Errors
/// [`FluidError`] that names the first invalid flow.
pub fn rates(platform: &dyn Platform, flows: Flows<'_>) -> Result<Vec<f64>, FluidError> {
    Workload::new(flows).check(platform.host_count())?;
    let mut traffic = Traffic::new(platform, 0.0);
    let slots: Vec<Option<Slot>> = (0..flows.len())
        .map(|flow| traffic.start(&start_of(&flows, flow, flow as u32)))
        .collect();
    traffic.sharing.settle();
    Ok(slots
        .into_iter()
        .map(|slot| slot.map_or(f64::INFINITY, |slot| traffic.flow_rate(slot).bps()))
        .collect())
}

/// A time, and what begins then: a flow, by rank, or the next step of a background source, numbered after the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Due {
    time_s: f64,
    number: u32,
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time_s
            .total_cmp(&other.time_s)
            .then(self.number.cmp(&other.number))
    }
}

/// A running simulation.
///
/// Flows are ordered by *rank*, their place when sorted by their properties, so that the order of the input makes no
/// difference.
struct Run<'a> {
    workload: &'a Workload<'a>,
    order: &'a Order,
    traffic: Traffic<'a>,
    now_s: f64,
    due: BinaryHeap<Reverse<Due>>,
    /// The flow of each rank, and the rank of each flow.
    flows: Vec<u32>,
    ranks: Vec<u32>,
    /// By node: the number of nodes that it still waits for.
    waits: Vec<u32>,
    /// The background sources.
    sources: Vec<Source>,
    left: usize,
    events: u64,
    outcome: Outcome,
}

/// A source of background traffic.
struct Source {
    steps: Steps,
    /// The flow of an on-off source while it sends.
    slot: Option<Slot>,
}

impl<'a> Run<'a> {
    fn new(platform: &'a dyn Platform, workload: &'a Workload<'a>, order: &'a Order) -> Self {
        let count = workload.flows.len();
        let flows = ranked(&workload.flows);
        let mut ranks = vec![0; count];
        flows
            .iter()
            .enumerate()
            .for_each(|(rank, &flow)| ranks[flow as usize] = rank as u32);
        let steps = |(number, background): (usize, &crate::Background)| Source {
            steps: Steps::new(background.pattern, workload.seed, number),
            slot: None,
        };
        Self {
            workload,
            order,
            traffic: Traffic::new(platform, workload.accuracy),
            now_s: 0.0,
            due: BinaryHeap::with_capacity(count),
            flows,
            ranks,
            waits: order.waits().to_vec(),
            sources: workload.background.iter().enumerate().map(steps).collect(),
            left: count,
            events: 0,
            outcome: Outcome {
                start_s: vec![f64::NAN; count],
                finish_s: vec![f64::NAN; count],
                holder: vec![None; count],
                ..Outcome::default()
            },
        }
    }

    /// Releases all nodes that wait for no other.
    fn release_first(&mut self) {
        for node in 0..self.order.node_count() as u32 {
            if self.waits.get(node as usize).is_none_or(|&waits| waits == 0) {
                self.release(node);
            }
        }
        for number in 0..self.sources.len() {
            let time_s = self.sources[number].steps.first_s();
            self.push_step(number, time_s);
        }
    }

    fn go(&mut self) {
        let mut finished = Vec::new();
        while self.left > 0 {
            let due_s = self.due.peek().map_or(f64::INFINITY, |Reverse(due)| due.time_s);
            let next_s = self
                .traffic
                .sharing
                .next_s()
                .unwrap_or(f64::INFINITY)
                .min(due_s)
                .max(self.now_s);
            if next_s > self.workload.until_s || next_s.is_infinite() {
                self.now_s = self.workload.until_s;
                self.traffic.sharing.advance(Seconds(self.now_s));
                return;
            }
            self.now_s = next_s;
            self.traffic.sharing.advance(Seconds(next_s));
            self.traffic.finish(&mut finished);
            for done in finished.drain(..) {
                self.events += 1;
                if (done.owner as usize) < self.flows.len() {
                    let flow = self.flows[done.owner as usize];
                    self.outcome.holder[flow as usize] = self.traffic.link(done.holder);
                    self.complete(flow);
                }
            }
            while let Some(&Reverse(due)) = self.due.peek()
                && due.time_s <= next_s
            {
                self.due.pop();
                self.begin(due.number);
            }
            self.traffic.sharing.settle();
        }
    }

    /// Handles a flow or barrier that no longer waits for others.
    fn release(&mut self, node: u32) {
        let flow = node as usize;
        if flow >= self.flows.len() {
            self.complete(node);
            return;
        }
        let flows = &self.workload.flows;
        let start_s = flows.start_s[flow].max(self.now_s);
        self.outcome.start_s[flow] = start_s;
        let latency_s = self.traffic.latency_s(flows.source[flow], flows.target[flow]);
        let time_s = start_s + latency_s + flows.startup_s(flow);
        self.due.push(Reverse(Due {
            time_s,
            number: self.ranks[flow],
        }));
    }

    /// Handles a finished flow or barrier, which may release others.
    fn complete(&mut self, node: u32) {
        if let Some(finish_s) = self.outcome.finish_s.get_mut(node as usize) {
            *finish_s = self.now_s;
            self.left -= 1;
        }
        let order = self.order;
        for &next in order.after(node) {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 {
                self.release(next);
            }
        }
    }

    /// Starts what is due now: the first byte of a flow, or a step of the background.
    fn begin(&mut self, number: u32) {
        let Some(source) = (number as usize).checked_sub(self.flows.len()) else {
            let flow = self.flows[number as usize];
            self.events += 1;
            let start = start_of(&self.workload.flows, flow as usize, number);
            if start.bytes == 0.0 || self.traffic.start(&start).is_none() {
                self.complete(flow);
            }
            return;
        };
        let (step, pause_s) = self.sources[source].steps.step();
        self.events += 1;
        match step {
            Step::Start(bytes) => {
                let background = &self.workload.background[source];
                let slot = self.traffic.start(&Start {
                    owner: number,
                    source: background.source,
                    target: background.target,
                    label: self.events,
                    weight: background.weight,
                    cap_bps: background.cap_bps,
                    bytes,
                    between: false,
                });
                self.sources[source].slot = slot.filter(|_| bytes.is_infinite());
            }
            Step::Stop => {
                if let Some(slot) = self.sources[source].slot.take() {
                    self.traffic.stop(slot);
                }
            }
        }
        self.push_step(source, self.now_s + pause_s);
    }

    fn push_step(&mut self, source: usize, time_s: f64) {
        let number = (self.flows.len() + source) as u32;
        self.due.push(Reverse(Due { time_s, number }));
    }

    fn into_outcome(mut self) -> Outcome {
        self.outcome.links = self.traffic.link_uses();
        self.outcome.end_s = self.now_s;
        self.outcome.events = self.events;
        self.outcome
    }
}

fn start_of(flows: &Flows<'_>, flow: usize, owner: u32) -> Start {
    Start {
        owner,
        source: flows.source[flow],
        target: flows.target[flow],
        label: flows.label(flow),
        weight: flows.weight(flow),
        cap_bps: flows.cap_bps(flow),
        bytes: flows.bytes[flow] as f64,
        between: false,
    }
}

/// The flows sorted by all their properties.
fn ranked(flows: &Flows<'_>) -> Vec<u32> {
    let mut order: Vec<u32> = (0..flows.len() as u32).collect();
    let ids = |flow: usize| {
        (
            flows.source[flow],
            flows.target[flow],
            flows.bytes[flow],
            flows.label.map(|_| flows.label(flow)),
        )
    };
    order.sort_by(|&a, &b| {
        let (a, b) = (a as usize, b as usize);
        flows.start_s[a]
            .total_cmp(&flows.start_s[b])
            .then_with(|| ids(a).cmp(&ids(b)))
            .then_with(|| flows.startup_s(a).total_cmp(&flows.startup_s(b)))
            .then_with(|| flows.weight(a).total_cmp(&flows.weight(b)))
            .then_with(|| flows.cap_bps(a).total_cmp(&flows.cap_bps(b)))
    });
    order
}
