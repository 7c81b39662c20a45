//! The sending side of a gated train, without its socket and its clock.

use std::time::{Duration, Instant};

use super::shape::{End, Shape, as_many_bytes};
use super::wire::{Ack, Data};

/// Largest number of packets in a batch without offload. Handing over 16 packets takes 0.1 ms, which the proof of a
/// queue must tolerate.
pub const BATCH_PACKETS: u32 = 16;
/// Number of super-packets in one batch.
pub const SUPER_PACKETS: u32 = 4;
/// Largest number of packets handed to the kernel as one: its own limit is 64, and UDP's is 65,507 bytes.
pub const MAX_SEGMENTS: u32 = 32;
const MAX_SUPER_BYTES: u32 = 65_507;
/// Full packets that may be in flight before the receiver has advised a window.
const FIRST_WINDOW: u32 = 173;
/// If a window is closed for this long, its acknowledgements were lost: the sender continues with one packet at a time.
const SHUT: Duration = Duration::from_millis(20);
/// A paced sender hands over the packets of this time together.
const PACED_S: f64 = 0.001;
/// A paced sender that has heard nothing for this long returns to its window.
const UNHEARD_S: f64 = 0.5;
/// How often a waiting sender checks whether it is still needed.
const GLANCE: Duration = Duration::from_millis(5);

/// The sender's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hand this batch to the kernel, then call [`Sender::handle_sent`].
    Send(Batch),
    /// Wait for an acknowledgement until this time.
    WaitUntil(Instant),
    /// Stop: the train is over.
    Done,
}

/// Packets that are handed over together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    first: Data,
    count: u32,
    /// Packets to hand to the kernel as one; 1 without offload.
    pub segments: u32,
}

impl Batch {
    /// The headers of the batch's packets, in order.
    pub fn packets(&self) -> impl Iterator<Item = Data> {
        let first = self.first;
        (0..self.count).map(move |index| Data {
            seq: first.seq + index,
            ..first
        })
    }
}

/// Sends one train: keeps the advised window of packets in flight. Acknowledgements and the time are arguments.
#[derive(Clone, Debug)]
pub struct Sender {
    shape: Shape,
    began: Instant,
    offload: bool,
    /// Header of the next packet.
    next: Data,
    ack: Ack,
    shut_since: Option<Instant>,
    /// When the next batch is due, while the receiver sets a pace.
    due: Option<Instant>,
    out_of_bytes: bool,
    out_of_time: bool,
}

impl Sender {
    /// Creates the sender of a train that begins now, at 0 of the clock in its packets. `offload` is whether the kernel
    /// accepts several packets as one.
    pub fn new(probe_id: u64, shape: Shape, offload: bool, now: Instant) -> Self {
        Self {
            shape,
            began: now,
            offload,
            next: Data {
                probe_id,
                ..Data::default()
            },
            ack: Ack {
                probe_id,
                window: as_many_bytes(FIRST_WINDOW, shape.payload_bytes),
                segments: 1,
                ..Ack::default()
            },
            shut_since: None,
            due: None,
            out_of_bytes: false,
            out_of_time: false,
        }
    }

    /// Handles an acknowledgement. Returns false and changes nothing for one that is outdated or invalid.
    pub fn handle_ack(&mut self, ack: Ack) -> bool {
        let sound = ack.probe_id == self.next.probe_id && ack.heard <= self.next.seq && ack.number > self.ack.number;
        if sound {
            self.ack = ack;
        }
        sound
    }

    /// The next action.
    pub fn poll(&mut self, now: Instant) -> Action {
        let deadline = self.began + self.shape.max_time;
        let left = self.shape.max_packets - self.next.seq;
        self.out_of_time = now >= deadline;
        self.out_of_bytes = left == 0;
        if self.out_of_time || self.out_of_bytes || self.ack.enough {
            return Action::Done;
        }
        if let Some(pace_bps) = self.pace_bps() {
            return self.paced(pace_bps, left, now);
        }
        self.due = None;
        let window = self.ack.window.max(1);
        let room = window.saturating_sub(self.next.seq - self.ack.heard);
        let segments = self.segments();
        let batch = if segments == 1 {
            as_many_bytes(BATCH_PACKETS, self.shape.payload_bytes)
        } else {
            SUPER_PACKETS * segments
        };
        // Wait for half a batch at least: one packet per acknowledgement would cost two system calls each.
        if room >= batch.min(window) / 2 {
            self.shut_since = None;
        } else {
            let since = *self.shut_since.get_or_insert(now);
            if now.duration_since(since) < SHUT {
                self.next.waits += 1;
                return Action::WaitUntil((now + GLANCE).min(deadline));
            }
            self.shut_since = Some(now);
        }
        self.next.sent_ns = self.clock_ns(now);
        Action::Send(Batch {
            first: self.next,
            count: batch.min(room.max(1)).min(left),
            segments,
        })
    }

    /// Records that the first `packets` of the last batch were handed over just now, and whether the kernel (still)
    /// accepts several packets as one.
    pub fn handle_sent(&mut self, packets: u32, offload: bool, now: Instant) {
        self.next.seq += packets;
        self.next.batch += 1;
        self.next.ended_ns = self.clock_ns(now);
        self.offload = offload;
    }

    /// How the train ended, or its state so far.
    pub fn end(&self) -> End {
        End {
            packets: self.next.seq,
            batches: self.next.batch,
            ended_ns: self.next.ended_ns,
            out_of_bytes: self.out_of_bytes,
            out_of_time: self.out_of_time,
        }
    }

    /// The pace that the receiver asks for, while its acknowledgements arrive.
    fn pace_bps(&self) -> Option<f64> {
        let pace_bps = 1e3 * f64::from(self.ack.pace_kbps);
        let unheard_bits = 8.0 * f64::from(self.next.seq - self.ack.heard) * f64::from(self.shape.payload_bytes);
        (pace_bps > 0.0 && unheard_bits < UNHEARD_S * pace_bps).then_some(pace_bps)
    }

    fn paced(&mut self, pace_bps: f64, left: u32, now: Instant) -> Action {
        let due = self.due.filter(|due| now < *due + GLANCE).unwrap_or(now);
        if now < due {
            return Action::WaitUntil(due);
        }
        let packet_s = 8.0 * f64::from(self.shape.payload_bytes) / pace_bps;
        let segments = self.segments();
        let most = as_many_bytes(BATCH_PACKETS, self.shape.payload_bytes).max(segments);
        let count = ((PACED_S / packet_s) as u32).clamp(1, most).min(left);
        self.due = Some(due + Duration::from_secs_f64((packet_s * f64::from(count)).min(1.0)));
        self.next.sent_ns = self.clock_ns(now);
        Action::Send(Batch {
            first: self.next,
            count,
            segments,
        })
    }

    fn segments(&self) -> u32 {
        let most = (MAX_SUPER_BYTES / self.shape.payload_bytes).clamp(1, MAX_SEGMENTS);
        if self.offload {
            u32::from(self.ack.segments).clamp(1, most)
        } else {
            1
        }
    }

    fn clock_ns(&self, now: Instant) -> u64 {
        now.duration_since(self.began).as_nanos() as u64
    }
}
