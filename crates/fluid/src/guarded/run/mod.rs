//! The loop over time steps.

mod turns;
mod wiring;

use std::collections::BTreeMap;

use gavotte_limiter::{Allocator, End, Offer, Parameters, Reports};
use gavotte_net::{Bandwidth, Bytes, Seconds, Volume, check_length, check_value};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::hosts::Agent;
use super::pair::ActivePair;
use super::port::Port;
use super::protection::{Guarding, Method};
use super::transport::{Transport, Window};
use super::uses::{Guarded, PairUse};
use crate::error::FluidError;
use crate::outcome::{LinkUse, Outcome};
use crate::platform::{LinkId, Platform};
use crate::workload::Workload;

/// Simulates flows of hosts with guarantees until all have finished, or until `workload.until_s`.
///
/// The cap of a flow is the highest rate of its application. Order and background are not supported: list all flows
/// with their starts.
///
/// # Errors
/// [`FluidError`] that names the first invalid part.
pub fn simulate_guarded(
    platform: &dyn Platform,
    workload: &Workload<'_>,
    guarding: &Guarding<'_>,
) -> Result<Guarded, FluidError> {
    workload.check(platform.host_count())?;
    if workload.order.is_some() || !workload.background.is_empty() {
        return Err(FluidError::Table(
            "guarantees are simulated for flows that are all listed; leave out order and background".into(),
        ));
    }
    check_length("the hoses", guarding.hoses.len(), platform.host_count())?;
    let flows = workload.flows.len();
    check_length("the column `udp`", guarding.udp.map_or(flows, <[bool]>::len), flows)?;
    for (what, value) in [("the step", guarding.step_s), ("the window", guarding.window_s)] {
        check_value(
            || what.into(),
            value,
            value > 0.0 && value <= 10.0,
            "above zero and at most 10 s",
        )?;
    }
    let mut run = Run::new(platform, workload, guarding);
    run.go();
    Ok(run.into_guarded())
}

/// What a pair may send at once after a pause, and how many such buckets a host has. Agents have the same.
const BUCKET_BYTES: f64 = 65_536.0;
const BUCKETS: f64 = 4.0;

/// The silence after which a receiver that reports rarely counts as lost.
const PATIENCE: Seconds = Seconds(7.5);

/// A constant rate without a cap, in bit/s.
const MOST_CONSTANT_BPS: f64 = 8e12;

struct Run<'a> {
    platform: &'a dyn Platform,
    workload: &'a Workload<'a>,
    guarding: &'a Guarding<'a>,
    random: Xoshiro256PlusPlus,
    now_s: f64,
    steps: u64,
    /// Flows by start, the last first, and the pair of each flow.
    due: Vec<usize>,
    pair_of: Vec<usize>,
    left: usize,
    pairs: Vec<ActivePair>,
    active: Vec<usize>,
    /// By host: the pairs on which it sends, and those on which it receives.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    agents: BTreeMap<usize, Agent>,
    /// The number of each host's active pairs, if pairs choose their constants.
    active_pairs: Vec<usize>,
    tenants_s: f64,
    /// Ports with their links, `None` for limits of hosts and tenants, and the largest depth of each on any path.
    ports: Vec<Port>,
    links: Vec<Option<LinkId>>,
    levels: Vec<usize>,
    by_level: Vec<Vec<u32>>,
    level_count: usize,
    /// The receiver of each offer, its end of the pair, and the sender.
    offers: Vec<(usize, End, usize, Offer)>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(platform: &'a dyn Platform, workload: &'a Workload<'a>, guarding: &'a Guarding<'a>) -> Self {
        let flows = &workload.flows;
        let mut due: Vec<usize> = (0..flows.len()).collect();
        due.sort_by(|&a, &b| flows.start_s[b].total_cmp(&flows.start_s[a]).then(b.cmp(&a)));
        let mut run = Self {
            platform,
            workload,
            guarding,
            random: Xoshiro256PlusPlus::seed_from_u64(workload.seed),
            now_s: 0.0,
            steps: 0,
            due,
            pair_of: Vec::new(),
            left: flows.len(),
            pairs: Vec::new(),
            active: Vec::new(),
            out: vec![Vec::new(); platform.host_count()],
            into: vec![Vec::new(); platform.host_count()],
            agents: BTreeMap::new(),
            active_pairs: vec![0; platform.host_count()],
            tenants_s: 0.0,
            ports: Vec::new(),
            links: Vec::new(),
            levels: Vec::new(),
            by_level: Vec::new(),
            level_count: 0,
            offers: Vec::new(),
            outcome: Outcome {
                start_s: flows.start_s.to_vec(),
                finish_s: vec![f64::NAN; flows.len()],
                holder: vec![None; flows.len()],
                ..Outcome::default()
            },
        };
        run.wire();
        if guarding.method != Method::None {
            for (host, hose) in guarding.hoses.iter().enumerate() {
                if hose.egress_bps > 0.0 || hose.ingress_bps > 0.0 {
                    let phase = run.random.random();
                    run.agents.insert(host, Agent::new(hose, &guarding.parameters, phase));
                }
            }
        }
        run
    }

    fn go(&mut self) {
        let Guarding { step_s, window_s, .. } = *self.guarding;
        let a_window = (window_s / step_s).round().max(1.0) as u32;
        while self.left > 0 && self.now_s < self.workload.until_s {
            self.start();
            if self.active.is_empty() {
                // No flow is active until the next start: skip whole windows.
                let next_s = self
                    .due
                    .last()
                    .map_or(f64::INFINITY, |&flow| self.workload.flows.start_s[flow]);
                let next_s = next_s.min(self.workload.until_s);
                let skipped = ((next_s - self.now_s) / window_s).floor().max(0.0) as u64 * u64::from(a_window);
                self.steps += skipped;
                self.now_s = self.steps as f64 * step_s;
            }
            self.take_turns();
            self.step();
            self.steps += 1;
            self.now_s = self.steps as f64 * step_s;
            if self.steps.is_multiple_of(u64::from(a_window)) {
                let number = (self.steps / u64::from(a_window)) as usize - 1;
                for pair in &mut self.pairs {
                    pair.judge(number, a_window, Seconds(window_s));
                }
            }
        }
    }

    /// Starts the flows that are due.
    fn start(&mut self) {
        let flows = &self.workload.flows;
        while let Some(&flow) = self.due.last()
            && flows.start_s[flow] <= self.now_s
        {
            self.due.pop();
            self.outcome.events += 1;
            let place = self.pair_of[flow];
            if flows.bytes[flow] == 0 || flows.source[flow] == flows.target[flow] {
                self.outcome.finish_s[flow] = flows.start_s[flow];
                self.left -= 1;
                continue;
            }
            if self.pairs[place].flows.is_empty() {
                self.active.push(place);
                self.open(place);
            }
            let most_bps = flows.cap_bps(flow);
            let constant = self.guarding.udp.is_some_and(|udp| udp[flow]);
            let transport = if constant {
                Transport::Constant(Bandwidth(most_bps.min(MOST_CONSTANT_BPS)))
            } else {
                let packet = Volume(self.guarding.queues.packet_bytes);
                Transport::Window(Window::new(Seconds(self.now_s), Bandwidth(most_bps), packet))
            };
            self.pairs[place].push(flow, Volume(flows.bytes[flow] as f64), transport);
        }
    }

    /// Creates the limiter of a pair.
    fn open(&mut self, place: usize) {
        let now = Seconds(self.now_s);
        let source = self.pairs[place].source;
        let sending = self.out[source]
            .iter()
            .filter(|&&own| !self.pairs[own].flows.is_empty());
        let bucket_bytes = BUCKET_BYTES.min(BUCKETS * BUCKET_BYTES / (sending.count() as f64 + 1.0));
        let pair = &mut self.pairs[place];
        let hose = &self.guarding.hoses[pair.source];
        let Some(agent) = self.agents.get_mut(&pair.source).filter(|_| hose.egress_bps > 0.0) else {
            return;
        };
        agent
            .sending
            .observe(pair.target, Bytes(0), Bandwidth(pair.limit * 8.0));
        let guarantee_bps = agent.sending.guarantee_bps(pair.target, now).unwrap_or(0.0);
        let Parameters {
            allocation: rules,
            delayed,
            unmarked,
            ..
        } = &self.guarding.parameters;
        let start = Bandwidth(rules.start * agent.sending.hose_bps());
        let ceiling = Bandwidth(hose.egress_limit_bps);
        let mut allocator = Allocator::new(now, Bandwidth(guarantee_bps), start, ceiling, rules);
        allocator.set_patience(PATIENCE);
        let allocator = if self.guarding.adapts {
            pair.fill(Volume(bucket_bytes));
            allocator.without_marks(delayed, unmarked)
        } else {
            allocator
        };
        pair.reported = Reports::starting(now);
        pair.guarantee_bps = guarantee_bps;
        pair.limit = match self.guarding.method {
            Method::Static => allocator.fallback_bps(),
            _ => allocator.limit_bps(now),
        } / 8.0;
        pair.allocator = Some(allocator);
    }

    /// Moves bytes for one step.
    fn step(&mut self) {
        let Guarding { step_s, queues, .. } = *self.guarding;
        let (now, now_s) = (Seconds(self.now_s), self.now_s);
        for &place in &self.active {
            let pair = &mut self.pairs[place];
            pair.waits_s = pair.route.iter().map(|&port| self.ports[port as usize].wait_s()).sum();
            pair.send(now, Seconds(step_s), &queues);
        }
        for level in 0..self.level_count {
            for &place in &self.active {
                let pair = &self.pairs[place];
                if let Some(&port) = pair.route.get(pair.at)
                    && self.levels[port as usize] == level
                {
                    self.ports[port as usize].arriving += pair.rate;
                }
            }
            for &port in &self.by_level[level] {
                let port = &mut self.ports[port as usize];
                let draw = self.random.random();
                port.step(Seconds(step_s), draw);
                port.drawn = self.random.random();
            }
            for &place in &self.active {
                let pair = &mut self.pairs[place];
                let Some(&number) = pair.route.get(pair.at) else {
                    continue;
                };
                if self.levels[number as usize] != level {
                    continue;
                }
                let port = &mut self.ports[number as usize];
                if port.lost_packets > 0.0 && port.arrived > 0.0 {
                    // Each pair gets the lost packets between its two marks on a line, which begins at a random
                    // position.
                    let before = port.drawn.floor();
                    port.drawn += port.lost_packets * pair.rate / port.arrived;
                    pair.lost_packets += port.drawn.floor() - before;
                }
                pair.marked = 1.0 - (1.0 - pair.marked) * (1.0 - port.marked);
                pair.rate *= port.passed;
                pair.at += 1;
            }
        }
        let (finish_s, left, events) = (&mut self.outcome.finish_s, &mut self.left, &mut self.outcome.events);
        for &place in &self.active {
            let draw = self.random.random();
            self.pairs[place].arrive(now, Seconds(step_s), draw, |flow| {
                finish_s[flow] = now_s + step_s;
                *left -= 1;
                *events += 1;
            });
        }
        let pairs = &mut self.pairs;
        self.active.retain(|&place| {
            let goes_on = !pairs[place].flows.is_empty();
            if !goes_on {
                pairs[place].allocator = None;
                pairs[place].limit = f64::INFINITY;
            }
            goes_on
        });
    }

    fn into_guarded(mut self) -> Guarded {
        let uses = self.ports.iter().zip(&self.links).filter_map(|(port, link)| {
            let link = (*link)?;
            Some(LinkUse {
                link,
                rate: self.platform.rate(link),
                bytes: port.carried_bytes,
                busy_s: port.busy_s,
            })
        });
        self.outcome.links = uses.collect();
        self.outcome.links.sort_unstable_by_key(|used| used.link);
        self.outcome.end_s = self.now_s;
        let step = Seconds(self.guarding.step_s);
        let mut pairs: Vec<PairUse> = self.pairs.into_iter().map(|pair| pair.into_use(step)).collect();
        pairs.sort_by_key(|pair| (pair.source, pair.target));
        Guarded {
            outcome: self.outcome,
            pairs,
        }
    }
}
