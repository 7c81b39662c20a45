//! A link with a queue that drops the excess, and a phantom queue that marks.

use gavotte_net::{Bandwidth, Seconds};

/// The queues of a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queues {
    /// Capacity of the queue before a link, in seconds of its rate. 4 ms: 500 kB at 1 Gbit/s, as in a shared-buffer
    /// switch.
    pub buffer_s: f64,
    /// Length from which a phantom queue marks, in seconds of the link's rate; at twice this length it marks
    /// everything.
    pub mark_s: f64,
    /// Share of a link's rate at which its phantom queue drains; 1 = mark by the real queue, 0 = never mark.
    pub drain: f64,
    /// Capacity of the queue before a pair's limiter, in seconds of its limit, but at least ten packets.
    pub leaf_s: f64,
    /// Round-trip time while all queues are empty.
    pub round_trip_s: f64,
    /// Payload and headers of a full packet: the path's MTU.
    pub packet_bytes: f64,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            buffer_s: 0.004,
            mark_s: 0.0005,
            drain: 0.95,
            leaf_s: 0.02,
            round_trip_s: 0.0005,
            packet_bytes: 1500.0,
        }
    }
}

/// The state of one link.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    /// In bytes per second.
    rate: f64,
    buffer_bytes: f64,
    mark_bytes: f64,
    drain: f64,
    packet_bytes: f64,
    queue_bytes: f64,
    phantom_bytes: f64,
    /// The lost part of a packet that is not yet whole.
    part: f64,
    /// Rate of arrivals in this step, in bytes per second.
    pub(crate) arriving: f64,
    /// Rate of arrivals in the previous step.
    pub(crate) arrived: f64,
    /// Position among the lost packets at which the next pair begins.
    pub(crate) drawn: f64,
    /// The share of arrivals that passes, the share that is marked, and the number of lost packets.
    pub(crate) passed: f64,
    pub(crate) marked: f64,
    pub(crate) lost_packets: f64,
    pub(crate) carried_bytes: f64,
    pub(crate) busy_s: f64,
}

impl Port {
    pub(crate) fn new(rate: Bandwidth, queues: &Queues) -> Self {
        let rate = rate.bytes_per_s();
        Self {
            rate,
            buffer_bytes: (queues.buffer_s * rate).max(20.0 * queues.packet_bytes),
            mark_bytes: (queues.mark_s * rate).max(2.0 * queues.packet_bytes),
            drain: queues.drain,
            packet_bytes: queues.packet_bytes,
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

    /// How long a byte waits that arrives now.
    pub(crate) fn wait_s(&self) -> f64 {
        self.queue_bytes / self.rate
    }

    /// Runs a step with the present arrivals; `draw` is uniform from 0 to 1.
    pub(crate) fn step(&mut self, Seconds(step_s): Seconds, draw: f64) {
        let (arrived, most) = (self.arriving * step_s, self.rate * step_s);
        let waiting = self.queue_bytes + arrived;
        let served = waiting.min(most);
        let over = (waiting - served - self.buffer_bytes).max(0.0);
        self.queue_bytes = waiting - served - over;
        // Only whole packets are lost, at a random time.
        self.part += over / self.packet_bytes;
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
