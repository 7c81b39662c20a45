//! The sending side of a gated train, without its socket and its clock.

use std::time::{Duration, Instant};

use super::shape::{End, Shape};
use super::wire::{Ack, Data};

/// Most packets of one batch without offload. Handing over 16 packets takes 0.1 ms, which the proof of a queue must bear.
pub const BATCH_PACKETS: u32 = 16;
/// Super-packets of one batch.
pub const SUPER_PACKETS: u32 = 4;
/// Most packets the kernel may be handed as one: 64 is its own limit, and 65,507 bytes are UDP's.
pub const MAX_SEGMENTS: u32 = 32;
const MAX_SUPER_BYTES: u32 = 65_507;
/// Packets that may be under way before the receiver has advised.
const FIRST_WINDOW: u32 = 173;
/// A window that is shut for so long has lost its answers: the sender goes on with a packet at a time.
const SHUT: Duration = Duration::from_millis(20);
/// How often a waiting sender looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(5);

/// What the sender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hand this batch to the kernel, then say how that went by [`Sender::handle_sent`].
    Send(Batch),
    /// Wait for an answer until then.
    WaitUntil(Instant),
    /// Nothing more: the train is over.
    Done,
}

/// Packets that are handed over together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    first: Data,
    count: u32,
    /// Packets to hand to the kernel as one; 1 for none.
    pub segments: u32,
}

impl Batch {
    /// What its packets say, in order.
    pub fn packets(&self) -> impl Iterator<Item = Data> {
        let first = self.first;
        (0..self.count).map(move |index| Data {
            seq: first.seq + index,
            ..first
        })
    }
}

/// Sends one train: keeps a window of packets under way, as the receiver advises. Acks and the time come in as arguments.
#[derive(Clone, Debug)]
pub struct Sender {
    shape: Shape,
    began: Instant,
    offload: bool,
    /// Header of the packet to be sent next.
    next: Data,
    ack: Ack,
    shut_since: Option<Instant>,
    out_of_bytes: bool,
    out_of_time: bool,
}

impl Sender {
    /// A train that begins now, at 0 of the clock that its packets tell. `offload` is whether the kernel takes several
    /// packets as one.
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
                window: FIRST_WINDOW,
                segments: 1,
                ..Ack::default()
            },
            shut_since: None,
            out_of_bytes: false,
            out_of_time: false,
        }
    }

    /// Takes an answer. Returns false, and changes nothing, for one that was overtaken or makes no sense.
    pub fn handle_ack(&mut self, ack: Ack) -> bool {
        let sound = ack.probe_id == self.next.probe_id && ack.heard <= self.next.seq && ack.number > self.ack.number;
        if sound {
            self.ack = ack;
        }
        sound
    }

    /// What to do now.
    pub fn poll(&mut self, now: Instant) -> Action {
        let deadline = self.began + self.shape.max_time;
        let left = self.shape.max_packets - self.next.seq;
        self.out_of_time = now >= deadline;
        self.out_of_bytes = left == 0;
        if self.out_of_time || self.out_of_bytes || self.ack.enough {
            return Action::Done;
        }
        let window = self.ack.window.max(1);
        let room = window.saturating_sub(self.next.seq - self.ack.heard);
        let segments = self.segments();
        let batch = if segments == 1 {
            BATCH_PACKETS
        } else {
            SUPER_PACKETS * segments
        };
        // Half a batch at least: a packet for each answer would cost two system calls a packet.
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

    /// Notes that the first `packets` of the batch polled last were handed over just now, and whether the kernel (still)
    /// takes several packets as one.
    pub fn handle_sent(&mut self, packets: u32, offload: bool, now: Instant) {
        self.next.seq += packets;
        self.next.batch += 1;
        self.next.ended_ns = self.clock_ns(now);
        self.offload = offload;
    }

    /// How the train ended, or stands.
    pub fn end(&self) -> End {
        End {
            packets: self.next.seq,
            batches: self.next.batch,
            ended_ns: self.next.ended_ns,
            out_of_bytes: self.out_of_bytes,
            out_of_time: self.out_of_time,
        }
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
