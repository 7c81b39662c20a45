//! A link with a queue before it that drops what does not fit, and a phantom queue that marks.

use super::transport::PACKET_BYTES;

/// How the queues of a network are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queues {
    /// What fits before a link, in seconds of its rate. 4 ms: 500 kB at 1 Gbit/s, as a shared-buffer switch has.
    pub buffer_s: f64,
    /// From here on a phantom queue marks, in seconds of the link's rate; at twice as much it marks everything.
    pub mark_s: f64,
    /// Share of a link's rate at which its phantom queue drains; 1 = mark by the real queue, 0 = never mark.
    pub drain: f64,
    /// What waits at most before the limiter of a pair, in seconds of its limit, but ten packets at least.
    pub leaf_s: f64,
    /// Round-trip time while all queues are empty.
    pub round_trip_s: f64,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            buffer_s: 0.004,
            mark_s: 0.0005,
            drain: 0.95,
            leaf_s: 0.02,
            round_trip_s: 0.0005,
        }
    }
}

/// One link.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) rate: f64,
    buffer_bytes: f64,
    mark_bytes: f64,
    drain: f64,
    queue_bytes: f64,
    phantom_bytes: f64,
    /// Of a packet that is not yet whole.
    part: f64,
    /// What arrives in this step, bytes a second.
    pub(crate) arriving: f64,
    /// What arrived in the step before.
    pub(crate) arrived: f64,
    /// Where among the packets lost the next pair begins.
    pub(crate) drawn: f64,
    /// What comes out of what arrives; which share is marked; how many packets are lost.
    pub(crate) passed: f64,
    pub(crate) marked: f64,
    pub(crate) lost_packets: f64,
    pub(crate) carried_bytes: f64,
    pub(crate) busy_s: f64,
}

impl Port {
    pub(crate) fn new(rate: f64, queues: &Queues) -> Self {
        Self {
            rate,
            buffer_bytes: (queues.buffer_s * rate).max(20.0 * PACKET_BYTES),
            mark_bytes: (queues.mark_s * rate).max(2.0 * PACKET_BYTES),
            drain: queues.drain,
            queue_bytes: 0.0,
            phantom_bytes: 0.0,
            part: 0.0,
            arriving: 0.0,
            arrived: 0.0,
            drawn: 0.0,
            passed: 1.0,
            marked: 0.0,
            lost_packets: 0.0,
            carried_bytes: 0.0,
            busy_s: 0.0,
        }
    }

    /// How long a byte waits that comes now.
    pub(crate) fn wait_s(&self) -> f64 {
        self.queue_bytes / self.rate
    }

    /// Takes a step with what arrives; `draw` is uniform from 0 to 1.
    pub(crate) fn step(&mut self, step_s: f64, draw: f64) {
        let (arrived, most) = (self.arriving * step_s, self.rate * step_s);
        let there = self.queue_bytes + arrived;
        let served = there.min(most);
        let over = (there - served - self.buffer_bytes).max(0.0);
        self.queue_bytes = there - served - over;
        // Only whole packets are lost; when the next one is, nobody can foresee.
        self.part += over / PACKET_BYTES;
        self.lost_packets = if self.part >= 1.0 {
            (self.part + draw).floor().min(self.part.ceil())
        } else {
            0.0
        };
        self.part -= self.lost_packets;
        self.passed = if arrived > 0.0 { served / arrived } else { 1.0 };
        self.marked = 0.0;
        if self.drain > 0.0 {
            let phantom = self.phantom_bytes + arrived - self.drain * most;
            self.phantom_bytes = phantom.clamp(0.0, 2.0 * self.mark_bytes);
            self.marked = ((self.phantom_bytes - self.mark_bytes) / self.mark_bytes).clamp(0.0, 1.0);
        }
        self.carried_bytes += served;
        if self.queue_bytes > 0.0 {
            self.busy_s += step_s;
        }
        (self.arrived, self.arriving) = (self.arriving, 0.0);
    }
}
