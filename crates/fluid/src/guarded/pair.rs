//! An active pair of hosts: its flows, its limiter and its counts.

use std::collections::VecDeque;

use gavotte_limiter::{Allocator, Counts, Delay, Reports};
use gavotte_net::{Seconds, Volume};

use super::port::Queues;
use super::transport::Transport;
use super::uses::PairUse;

/// A flow that has started and not finished.
pub(crate) struct Moving {
    pub(crate) flow: usize,
    pub(crate) left_bytes: f64,
    pub(crate) transport: Transport,
    /// The rate at which it sends in this step, in bytes per second.
    rate: f64,
}

/// Before all reports.
const BEFORE: Seconds = Seconds(f64::NEG_INFINITY);

/// Share of its guarantee that a pair must get in a window to meet it.
const MET: f64 = 0.95;

pub(crate) struct ActivePair {
    pub(crate) source: usize,
    pub(crate) target: usize,
    /// The ports on the path.
    pub(crate) route: Vec<u32>,
    pub(crate) flows: Vec<Moving>,
    pub(crate) allocator: Option<Allocator>,
    pub(crate) guarantee_bps: f64,
    /// The limit in bytes per second.
    pub(crate) limit: f64,
    /// What a new pair may still send above its limit, in bytes.
    tokens_bytes: f64,
    /// In bytes per second: the rate sent in this step, and how much of it has arrived so far. Then the marked share,
    /// and the number of lost packets.
    sent: f64,
    pub(crate) at: usize,
    pub(crate) rate: f64,
    pub(crate) marked: f64,
    pub(crate) lost_packets: f64,
    round_trip_s: f64,
    packet_bytes: f64,
    /// How long a packet waits on the path, and the receiving agent's measurement of that.
    pub(crate) waits_s: f64,
    pub(crate) delay: Delay,
    /// The sending agent's datagrams on their way: when each arrives, and how long it waits.
    pub(crate) datagrams: VecDeque<(f64, f64)>,
    /// What was sent since the last datagram of the sending agent, and when that was sent.
    pub(crate) untimed: Counts,
    pub(crate) timed: Reports,
    /// Active pairs of its source or its target, of whichever has more.
    pub(crate) host_pairs: usize,
    /// Bytes sent since the sending agent's last turn, and since the last report to it.
    pub(crate) sent_bytes: f64,
    pub(crate) unreported_bytes: f64,
    /// What the receiving agent has not reported yet, and when it reported last.
    pub(crate) unreported: Counts,
    pub(crate) reported: Reports,
    /// Counts since the receiving agent's last turn.
    pub(crate) counts: Counts,
    window: Window,
    sums: Sums,
    pub(crate) used: PairUse,
}

/// The observations in a window.
#[derive(Default)]
struct Window {
    active: u32,
    come_bytes: f64,
    guaranteed: f64,
    wanted: f64,
}

/// Sums over all steps in which the pair had something to send.
#[derive(Default)]
struct Sums {
    steps: f64,
    guarantee_bps: f64,
    limit_bps: f64,
    come_bytes: f64,
    marked_bytes: f64,
}

impl ActivePair {
    pub(crate) fn new(source: usize, target: usize, route: Vec<u32>, Volume(packet_bytes): Volume) -> Self {
        Self {
            source,
            target,
            route,
            flows: Vec::new(),
            allocator: None,
            guarantee_bps: 0.0,
            limit: f64::INFINITY,
            tokens_bytes: 0.0,
            sent: 0.0,
            at: 0,
            rate: 0.0,
            marked: 0.0,
            lost_packets: 0.0,
            round_trip_s: 0.0,
            packet_bytes,
            waits_s: 0.0,
            delay: Delay::default(),
            datagrams: VecDeque::new(),
            untimed: Counts::default(),
            timed: Reports::starting(BEFORE),
            host_pairs: 0,
            sent_bytes: 0.0,
            unreported_bytes: 0.0,
            unreported: Counts::default(),
            reported: Reports::starting(BEFORE),
            counts: Counts::default(),
            window: Window::default(),
            sums: Sums::default(),
            used: PairUse {
                source,
                target,
                guarantee_bps: 0.0,
                limit_bps: f64::INFINITY,
                rate_bps: 0.0,
                marks: 0.0,
                lost_bytes: 0.0,
                windows: 0,
                met: 0,
                held: None,
                rates_bps: Vec::new(),
            },
        }
    }

    pub(crate) fn push(&mut self, flow: usize, Volume(left_bytes): Volume, transport: Transport) {
        self.flows.push(Moving {
            flow,
            left_bytes,
            transport,
            rate: 0.0,
        });
    }

    /// Fills the bucket of a pair that starts after a pause.
    pub(crate) fn fill(&mut self, Volume(bucket_bytes): Volume) {
        self.tokens_bytes = bucket_bytes;
    }

    /// Computes the rate of this step: the flows' demand, at most the limit and what is left in the bucket. Bytes in a
    /// window beyond that wait before the limiter, and overflow.
    pub(crate) fn send(&mut self, now: Seconds, Seconds(step_s): Seconds, queues: &Queues) {
        let round_trip_s = queues.round_trip_s + self.waits_s;
        self.round_trip_s = round_trip_s;
        let mut sum = 0.0;
        for moving in &mut self.flows {
            moving.rate = match &moving.transport {
                Transport::Window(window) => window.wanted(now, Seconds(round_trip_s)),
                Transport::Constant(rate) => rate.bytes_per_s(),
            };
            sum += moving.rate;
        }
        let allowed = self.limit + self.tokens_bytes / step_s;
        if sum > allowed {
            let share = allowed / sum;
            let (mut waiting, mut most, mut fullest) = (0.0, 0.0, None);
            for (place, moving) in self.flows.iter_mut().enumerate() {
                moving.rate *= share;
                if let Transport::Window(window) = &moving.transport {
                    let own = window.bytes() - moving.rate * round_trip_s;
                    waiting += own;
                    if own > most {
                        (most, fullest) = (own, Some(place));
                    }
                }
            }
            let room = (queues.leaf_s * self.limit).max(10.0 * self.packet_bytes);
            if waiting > room
                && let Some(place) = fullest
                && let Transport::Window(window) = &mut self.flows[place].transport
            {
                window.lost(now, 1.0, Seconds(round_trip_s + waiting / self.limit));
            }
            sum = allowed;
        }
        if sum > self.limit {
            self.tokens_bytes = (self.tokens_bytes - (sum - self.limit) * step_s).max(0.0);
        }
        (self.sent, self.rate, self.at) = (sum, sum, 0);
        (self.marked, self.lost_packets) = (0.0, 0.0);
    }

    /// Processes the bytes that have arrived, and calls `done` with each finished flow.
    pub(crate) fn arrive(&mut self, now: Seconds, Seconds(step_s): Seconds, draw: f64, mut done: impl FnMut(usize)) {
        let lost_bytes = self.lost_packets * self.packet_bytes;
        // The rate no longer includes lost bytes.
        let come = self.rate * step_s;
        let share = if self.sent > 0.0 {
            come / (self.sent * step_s)
        } else {
            0.0
        };
        self.sent_bytes += self.sent * step_s;
        self.counts.bytes += come;
        self.counts.lost_bytes += lost_bytes;
        self.counts.marked_bytes += self.marked * come;
        self.used.lost_bytes += lost_bytes;
        self.sums.marked_bytes += self.marked * come;
        self.count(come, step_s);
        // Picks the flow that lost, in proportion to the flows' rates.
        let mut at = draw * self.sent;
        let mut lost = self.lost_packets;
        let round_trip_s = self.round_trip_s;
        let limit = self.limit;
        self.flows.retain_mut(|moving| {
            at -= moving.rate;
            if let Transport::Window(window) = &mut moving.transport {
                let waiting_s = (window.bytes() - moving.rate * round_trip_s).max(0.0) / limit;
                let total_s = round_trip_s + waiting_s;
                if lost > 0.0 && at < 0.0 {
                    window.lost(now, lost, Seconds(total_s));
                    lost = 0.0;
                } else {
                    window.acknowledged(now, Volume(moving.rate * step_s * share), Seconds(total_s));
                }
            }
            moving.left_bytes -= moving.rate * step_s * share;
            let over = moving.left_bytes <= 0.0;
            if over {
                done(moving.flow);
            }
            !over
        });
    }

    fn count(&mut self, come: f64, step_s: f64) {
        let wanted = self.flows.iter().map(|moving| match &moving.transport {
            Transport::Window(_) => f64::INFINITY,
            Transport::Constant(rate) => rate.bytes_per_s(),
        });
        self.window.active += 1;
        self.window.come_bytes += come;
        self.window.guaranteed += self.guarantee_bps / 8.0 * step_s;
        self.window.wanted += wanted.sum::<f64>() * step_s;
        self.sums.steps += 1.0;
        self.sums.guarantee_bps += self.guarantee_bps;
        self.sums.limit_bps += self.limit * 8.0;
        self.sums.come_bytes += come;
    }

    /// Closes the `number`th window, of `steps` steps, when it is over, and records whether it met the guarantee.
    pub(crate) fn judge(&mut self, number: usize, steps: u32, Seconds(window_s): Seconds) {
        let window = std::mem::take(&mut self.window);
        if window.active == 0 {
            return;
        }
        self.used.rates_bps.resize(number, 0.0);
        self.used.rates_bps.push(window.come_bytes * 8.0 / window_s);
        if window.active == steps {
            self.used.windows += 1;
            let wanted = window.guaranteed.min(window.wanted);
            self.used.met += u32::from(window.come_bytes >= MET * wanted);
        }
    }

    pub(crate) fn into_use(mut self, Seconds(step_s): Seconds) -> PairUse {
        let count = self.sums.steps.max(1.0);
        self.used.guarantee_bps = self.sums.guarantee_bps / count;
        self.used.limit_bps = self.sums.limit_bps / count;
        self.used.rate_bps = self.sums.come_bytes * 8.0 / (count * step_s);
        self.used.marks = self.sums.marked_bytes / self.sums.come_bytes.max(1.0);
        self.used
    }
}
