//! D-CLAS (Aalo, section 4), for coflows of unknown sizes. Coflows move to lower queues as they send, and those that
//! have sent little go first.

use super::coflow::{Coflow, Flow, Policy, flow_count, ranges, sorted};
use super::room::Room;
use crate::fabric::Fabric;

/// A coflow this near to the end of its queue, relative to all bytes that it sent, already belongs to the next queue.
const NEAR: f64 = 1e-9;

/// Queues by bytes sent. Each queue keeps a share of every link; within a queue, coflows are served in order of
/// arrival.
#[derive(Clone, Copy, Debug)]
pub struct DClas {
    /// Number of queues. The first queue's weight is this number; each later queue weighs one less.
    pub queues: u32,
    /// A coflow leaves the first queue when it has sent this many bytes.
    pub first_bytes: f64,
    /// Each later queue ends at this many times the bytes of the queue before.
    pub factor: f64,
}

impl Default for DClas {
    /// As in the paper: ten queues, 10 MB, each queue ten times larger than the one before.
    fn default() -> Self {
        Self {
            queues: 10,
            first_bytes: 10e6,
            factor: 10.0,
        }
    }
}

impl DClas {
    /// Bytes that a coflow has sent when it leaves a queue; infinite for the last queue.
    fn end_bytes(&self, queue: u32) -> f64 {
        if queue + 1 < self.queues {
            self.first_bytes * self.factor.powi(queue as i32)
        } else {
            f64::INFINITY
        }
    }

    fn queue(&self, coflow: &Coflow) -> u32 {
        let within = |queue: &u32| coflow.sent_bytes < self.end_bytes(*queue) * (1.0 - NEAR);
        (0..self.queues).find(within).unwrap_or(self.queues - 1)
    }

    fn weight(&self, queue: u32) -> f64 {
        f64::from(self.queues - queue)
    }
}

impl Policy for DClas {
    fn rates(&self, coflows: &[Coflow], fabric: &Fabric) -> Vec<f64> {
        let mut rates_bps = vec![0.0; flow_count(coflows)];
        let ranges = ranges(coflows);
        let order = self.order(coflows, fabric);
        let queues: Vec<&[usize]> = order
            .chunk_by(|&a, &b| self.queue(&coflows[a]) == self.queue(&coflows[b]))
            .collect();
        let weight = |queue: &[usize]| self.weight(self.queue(&coflows[queue[0]]));
        let all: f64 = queues.iter().map(|queue| weight(queue)).sum();
        let equal = |_: &Flow| 1.0;
        for queue in queues {
            let mut room = Room::new(fabric, weight(queue) / all);
            for &at in queue {
                room.give_rest(&coflows[at].flows, equal, &mut rates_bps[ranges[at].clone()]);
            }
        }
        let mut room = Room::new(fabric, 1.0);
        room.take(coflows, &rates_bps);
        for &at in &order {
            room.give_rest(&coflows[at].flows, equal, &mut rates_bps[ranges[at].clone()]);
        }
        rates_bps
    }

    fn order(&self, coflows: &[Coflow], _fabric: &Fabric) -> Vec<usize> {
        sorted(coflows, |coflow| f64::from(self.queue(coflow)))
    }

    /// Until the first coflow leaves its queue.
    fn again_s(&self, coflows: &[Coflow], rates_bps: &[f64]) -> f64 {
        let left_s = |(coflow, range): (&Coflow, std::ops::Range<usize>)| {
            let together_bps: f64 = rates_bps[range].iter().filter(|rate| rate.is_finite()).sum();
            8.0 * (self.end_bytes(self.queue(coflow)) - coflow.sent_bytes) / together_bps
        };
        let times = coflows.iter().zip(ranges(coflows)).map(left_s);
        times.filter(|seconds| !seconds.is_nan()).fold(f64::INFINITY, f64::min)
    }
}
