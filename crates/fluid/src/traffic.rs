//! Active flows on a platform: converts routes into links of the solver.

use std::collections::HashMap;

use gavotte_net::{BitsPerSec, Volume};

use crate::outcome::LinkUse;
use crate::platform::{LinkId, Platform};
use crate::sharing::{Finished, Index, Sharing, Slot};

/// A flow to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// The caller's number of the flow.
    pub(crate) owner: u32,
    pub(crate) source: u32,
    pub(crate) target: u32,
    pub(crate) label: u64,
    pub(crate) weight: f64,
    pub(crate) cap_bps: f64,
    pub(crate) bytes: f64,
    /// Whether only the links between the hosts limit it.
    pub(crate) between: bool,
}

/// The solver, with all links of a platform that were used so far.
pub(crate) struct Traffic<'a> {
    platform: &'a dyn Platform,
    pub(crate) sharing: Sharing,
    /// By number in the solver; `None` for the private link of a flow with a cap.
    links: Vec<Option<LinkId>>,
    /// The number of each link, `None` if it is unlimited.
    numbers: HashMap<LinkId, Option<Index>>,
    /// A cap is a private link of its flow. The links of finished flows are reused.
    caps: HashMap<Slot, Index>,
    spare: Vec<Index>,
    route: Vec<LinkId>,
    path: Vec<Index>,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(platform: &'a dyn Platform, accuracy: f64) -> Self {
        Self {
            platform,
            sharing: Sharing::new(accuracy),
            links: Vec::new(),
            numbers: HashMap::new(),
            caps: HashMap::new(),
            spare: Vec::new(),
            route: Vec::new(),
            path: Vec::new(),
        }
    }

    /// Starts a flow; `None` if nothing limits it, so that it takes no time.
    pub(crate) fn start(&mut self, flow: &Start) -> Option<Slot> {
        self.route.clear();
        let (source, target) = (flow.source as usize, flow.target as usize);
        if flow.between {
            self.platform.route_between(source, target, &mut self.route);
        } else {
            self.platform.route(source, target, flow.label, &mut self.route);
        }
        self.path.clear();
        let mut least_bps = f64::INFINITY;
        for at in 0..self.route.len() {
            if let Some((number, bps)) = self.number(self.route[at]) {
                self.path.push(number);
                least_bps = least_bps.min(bps);
            }
        }
        if flow.between && self.path.is_empty() {
            return None;
        }
        let cap = BitsPerSec::new(flow.cap_bps).filter(|cap| flow.source != flow.target && cap.bps() < least_bps);
        let private = cap.map(|cap| self.private(cap));
        self.path.extend(private);
        if self.path.is_empty() {
            return None;
        }
        let slot = self
            .sharing
            .start(&self.path, flow.weight, Volume(flow.bytes), flow.owner);
        self.caps.extend(private.map(|private| (slot, private)));
        Some(slot)
    }

    /// Ends a flow before it is finished.
    pub(crate) fn stop(&mut self, slot: Slot) {
        self.sharing.stop(slot);
        self.free_cap(slot);
    }

    /// Ends the finished flows, and appends them to `finished`.
    pub(crate) fn finish(&mut self, finished: &mut Vec<Finished>) {
        let before = finished.len();
        self.sharing.finish(finished);
        if !self.caps.is_empty() {
            finished[before..].iter().for_each(|flow| self.free_cap(flow.slot));
        }
    }

    /// The platform's link with this number in the solver.
    pub(crate) fn link(&self, number: Index) -> Option<LinkId> {
        self.links[number as usize]
    }

    /// The platform's latency.
    pub(crate) fn latency_s(&self, source: u32, target: u32) -> f64 {
        self.platform.latency_s(source as usize, target as usize)
    }

    /// The bytes of each link, in ascending order of links.
    pub(crate) fn link_uses(&self) -> Vec<LinkUse> {
        let carried = self.sharing.carried();
        let limited = self.links.iter().zip(carried).enumerate();
        let mut uses: Vec<LinkUse> = limited
            .filter_map(|(number, (link, bytes))| {
                let (link, busy_s) = ((*link)?, self.sharing.busy_s(number as Index));
                Some(LinkUse {
                    link,
                    rate: self.platform.rate(link),
                    bytes,
                    busy_s,
                })
            })
            .collect();
        uses.sort_unstable_by_key(|used| used.link);
        uses
    }

    /// The number of a link in the solver, with its rate in bit/s; `None` if it is unlimited.
    fn number(&mut self, link: LinkId) -> Option<(Index, f64)> {
        let (platform, sharing, links) = (self.platform, &mut self.sharing, &mut self.links);
        let number = *self.numbers.entry(link).or_insert_with(|| {
            let rate = platform.rate(link);
            rate.is_limited().then(|| {
                links.push(Some(link));
                sharing.add_link(rate)
            })
        });
        number.map(|number| (number, self.sharing.rate_bps(number)))
    }

    fn private(&mut self, cap: BitsPerSec) -> Index {
        if let Some(number) = self.spare.pop() {
            self.sharing.set_rate(number, cap);
            return number;
        }
        self.links.push(None);
        self.sharing.add_link(cap)
    }

    fn free_cap(&mut self, slot: Slot) {
        self.spare.extend(self.caps.remove(&slot));
    }

    /// The rate of a flow.
    pub(crate) fn flow_rate(&self, slot: Slot) -> BitsPerSec {
        BitsPerSec::new(self.sharing.flow_rate(slot) * 8.0).unwrap_or(BitsPerSec::UNLIMITED)
    }
}
