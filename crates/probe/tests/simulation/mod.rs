//! A simulated network between the two ends of a gated train. It has a token bucket with a queue, stalls, loss,
//! reordering, late timestamps, a slow receiver with a small buffer, lost acknowledgements and a clock that is set. It
//! is deterministic.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gavotte_probe::gated::receiver::{self, Clocks, Receiver, Report};
use gavotte_probe::gated::recorder::HEADERS_V4_BYTES;
use gavotte_probe::gated::sender::{self, Sender};
use gavotte_probe::gated::wire::{Ack, Data};
use gavotte_probe::gated::{End, Shape, Way};

const PROBE_ID: u64 = 7;
/// Number of packets that the receiver reads in one call.
const READ_PACKETS: usize = 64;
const LONGEST_STALL_NS: f64 = 5e6;
/// Longest delay of a packet that others overtake.
const LONGEST_DETOUR_NS: f64 = 1e6;
/// Longest time after the train's own until its end arrives.
const END_LIMIT: Duration = Duration::from_secs(20);
/// The buffer size that the socket reports; the path's `buffer_packets` is the real one.
const BUFFER_BYTES: u32 = 32 << 20;
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

/// The properties of a path.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) rate_bps: f64,
    /// UDP payload of a packet in bytes.
    pub(crate) payload_bytes: u32,
    pub(crate) bucket_bytes: f64,
    /// Delay in each direction.
    pub(crate) latency_ns: u64,
    /// Longest additional delay behind the shaper. A new value is drawn at intervals of four such delays, with linear
    /// changes between them.
    pub(crate) wander_ns: u64,
    pub(crate) queue_bytes: f64,
    /// Whether packets without enough tokens are dropped.
    pub(crate) policer: bool,
    /// Rate of a shaper behind the first, where packets wait.
    pub(crate) next_bps: f64,
    /// Time that the sender needs to hand over one packet or super-packet.
    pub(crate) line_ns: f64,
    /// Mean delay of a timestamp.
    pub(crate) jitter_ns: f64,
    /// Share of packets that are lost at random.
    pub(crate) loss: f64,
    /// Share of packets that other packets overtake.
    pub(crate) reordered: f64,
    /// Share of acknowledgements that are lost at random.
    pub(crate) lost_acks: f64,
    /// Probability of a stall: of the sender before and within each batch, and of the receiver after each read.
    pub(crate) stalls: f64,
    /// Probability, per packet, that the receiver loses its core for a while.
    pub(crate) late_stamps: f64,
    /// Time that the receiver needs for a packet.
    pub(crate) read_ns: f64,
    /// Number of packets that the receiver's socket holds.
    pub(crate) buffer_packets: usize,
    /// When the clock of packet timestamps is set, and by how much.
    pub(crate) step_at_ns: u64,
    pub(crate) step_ns: i64,
    /// Share by which the clock of packet timestamps runs too fast.
    pub(crate) slew: f64,
    pub(crate) max_packets: u32,
    pub(crate) max_time: Duration,
    pub(crate) hold: Duration,
    pub(crate) seed: u64,
}

impl Path {
    fn wire_bytes(&self) -> f64 {
        f64::from(self.payload_bytes + HEADERS_V4_BYTES)
    }
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rate_bps: 1e8,
            payload_bytes: 1472,
            bucket_bytes: 32_768.0,
            latency_ns: 50_000,
            wander_ns: 0,
            queue_bytes: 3e6,
            policer: false,
            next_bps: f64::INFINITY,
            line_ns: 2_000.0,
            jitter_ns: 0.0,
            loss: 0.0,
            reordered: 0.0,
            lost_acks: 0.0,
            stalls: 0.0,
            late_stamps: 0.0,
            read_ns: 500.0,
            buffer_packets: 14_000,
            step_at_ns: 0,
            step_ns: 0,
            slew: 0.0,
            max_packets: 12_000,
            max_time: Duration::from_secs(1),
            hold: Duration::ZERO,
            seed: 1,
        }
    }
}

/// The generator `SplitMix64` of Steele and Vigna.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn happens(&mut self, chance: f64) -> bool {
        self.unit() < chance
    }

    fn stall_ns(&mut self, chance: f64) -> u64 {
        if self.happens(chance) {
            (LONGEST_STALL_NS * self.unit()) as u64
        } else {
            0
        }
    }
}

/// A queue of items, ordered by the time at which each is due, in nanoseconds.
struct Due<T>(VecDeque<(u64, T)>);

impl<T> Due<T> {
    fn push(&mut self, at_ns: u64, thing: T) {
        let after = self.0.partition_point(|(other_ns, _)| *other_ns <= at_ns);
        self.0.insert(after, (at_ns, thing));
    }

    fn next_ns(&self) -> Option<u64> {
        self.0.front().map(|(at_ns, _)| *at_ns)
    }

    fn pop(&mut self, now_ns: u64) -> Option<(u64, T)> {
        self.next_ns().filter(|at_ns| *at_ns <= now_ns)?;
        self.0.pop_front()
    }
}

struct Shaper {
    rate_bps: f64,
    bucket_bytes: f64,
    queue_bytes: f64,
    policer: bool,
    tokens: f64,
    at_ns: f64,
    /// Bytes of the waiting pieces, by the time at which each leaves.
    waiting: Due<f64>,
    waiting_bytes: f64,
}

impl Shaper {
    fn new(path: &Path) -> Self {
        Self {
            rate_bps: path.rate_bps,
            bucket_bytes: path.bucket_bytes,
            queue_bytes: path.queue_bytes,
            policer: path.policer,
            tokens: path.bucket_bytes.max(path.wire_bytes()),
            at_ns: 0.0,
            waiting: Due(VecDeque::new()),
            waiting_bytes: 0.0,
        }
    }

    fn next(path: &Path) -> Self {
        Self {
            rate_bps: path.next_bps,
            bucket_bytes: 32_768.0,
            policer: false,
            tokens: 32_768.0,
            ..Self::new(path)
        }
    }

    /// The time at which `bytes` that arrive together at `now_ns` leave; `None` if the queue is full.
    fn pass(&mut self, now_ns: f64, bytes: f64) -> Option<f64> {
        let per_ns = self.rate_bps / 8e9;
        while let Some((_, bytes)) = self.waiting.pop(now_ns as u64) {
            self.waiting_bytes -= bytes;
        }
        if self.waiting_bytes + bytes > self.queue_bytes {
            return None;
        }
        let from = now_ns.max(self.at_ns);
        // A bucket holds at least one piece, since otherwise no piece would ever pass.
        let depth = self.bucket_bytes.max(bytes);
        self.tokens = (self.tokens + per_ns * (from - self.at_ns)).min(depth);
        self.at_ns = from;
        if self.tokens < bytes && self.policer {
            return None;
        }
        if self.tokens < bytes {
            self.at_ns += (bytes - self.tokens) / per_ns;
            self.tokens = bytes;
        }
        self.tokens -= bytes;
        self.waiting.push(self.at_ns as u64, bytes);
        self.waiting_bytes += bytes;
        Some(self.at_ns)
    }
}

/// The time of an end's next step; an earlier event wakes a waiting end.
#[derive(Clone, Copy)]
struct Turn {
    at_ns: u64,
    waits_until_ns: Option<u64>,
}

impl Turn {
    fn at(at_ns: u64) -> Self {
        Self {
            at_ns,
            waits_until_ns: None,
        }
    }

    fn due_ns(&self, event_ns: Option<u64>) -> u64 {
        self.waits_until_ns.map_or(self.at_ns, |until_ns| {
            event_ns.unwrap_or(until_ns).min(until_ns).max(self.at_ns)
        })
    }
}

/// The network between the two ends.
struct Network<'a> {
    path: &'a Path,
    origin: Instant,
    random: Random,
    shaper: Shaper,
    next: Shaper,
    /// Packets in flight, by arrival time.
    wire: Due<Data>,
    /// Packets in the receiver's socket, each with its timestamp and the drops before it.
    socket: VecDeque<(Data, u64, u32)>,
    overflow: u32,
    last_ns: u64,
    away_ns: u64,
    /// Acknowledgements in flight, by arrival time.
    acks: Due<Ack>,
}

/// Runs a train over the path, as the two agents would. Returns the reports of its sender and its receiver.
pub(crate) fn simulate(path: &Path) -> (End, Report) {
    let mut network = Network {
        path,
        origin: Instant::now(),
        random: Random(path.seed),
        shaper: Shaper::new(path),
        next: Shaper::next(path),
        wire: Due(VecDeque::new()),
        socket: VecDeque::new(),
        overflow: 0,
        last_ns: 0,
        away_ns: 0,
        acks: Due(VecDeque::new()),
    };
    let shape = Shape {
        payload_bytes: path.payload_bytes,
        max_packets: path.max_packets,
        max_time: path.max_time,
        hold: path.hold,
    };
    let clocks = network.clocks(0);
    let deadline = network.origin + path.max_time + END_LIMIT;
    let way = Way {
        headers_bytes: HEADERS_V4_BYTES,
        buffer_bytes: BUFFER_BYTES,
        round_trip: Duration::from_nanos(2 * path.latency_ns),
        // The jitter that a few round trips would show.
        jitter: Duration::from_nanos(path.wander_ns * 2 / 3),
    };
    let mut sender = Sender::new(PROBE_ID, shape, true, network.origin);
    let mut receiver = Receiver::new(PROBE_ID, shape, way, clocks, deadline);
    let (mut sending, mut receiving) = (Some(Turn::at(0)), Turn::at(0));
    let mut end = None;
    loop {
        let receiver_ns = receiving.due_ns(network.next_packet_ns());
        let sender_ns = sending.map(|turn| turn.due_ns(network.acks.next_ns()));
        if let Some(now_ns) = sender_ns.filter(|now_ns| *now_ns <= receiver_ns) {
            sending = network.step_sender(&mut sender, now_ns);
            if sending.is_none() {
                end = Some((now_ns + path.latency_ns, sender.end()));
            }
            continue;
        }
        if let Some((_, end)) = end.filter(|(told_ns, _)| *told_ns <= receiver_ns) {
            receiver.handle_end(end, network.instant(receiver_ns));
        }
        match network.step_receiver(&mut receiver, receiving, receiver_ns) {
            Some(turn) => receiving = turn,
            None => return (sender.end(), receiver.finish(&network.clocks(receiver_ns))),
        }
    }
}

/// Additional delay of a packet at `now_ns`.
fn wandered_ns(path: &Path, now_ns: u64) -> u64 {
    if path.wander_ns == 0 {
        return 0;
    }
    let period_ns = 4 * path.wander_ns;
    let (number, into_ns) = (now_ns / period_ns, now_ns % period_ns);
    let drawn = |number: u64| path.wander_ns as f64 * Random(path.seed ^ number.wrapping_mul(0x9e37_79b9)).unit();
    let share = into_ns as f64 / period_ns as f64;
    (drawn(number) * (1.0 - share) + drawn(number + 1) * share) as u64
}

impl Network<'_> {
    fn instant(&self, ns: u64) -> Instant {
        self.origin + Duration::from_nanos(ns)
    }

    fn ns(&self, instant: Instant) -> u64 {
        instant.duration_since(self.origin).as_nanos() as u64
    }

    fn clocks(&self, ns: u64) -> Clocks {
        let step_ns = if ns < self.path.step_at_ns {
            0
        } else {
            self.path.step_ns
        };
        Clocks {
            steady: self.instant(ns),
            wall_ns: (EPOCH_NS + ns).saturating_add_signed(step_ns + (ns as f64 * self.path.slew) as i64),
            raw_ns: ns,
        }
    }

    fn step_sender(&mut self, sender: &mut Sender, now_ns: u64) -> Option<Turn> {
        while let Some((_, ack)) = self.acks.pop(now_ns) {
            sender.handle_ack(ack);
        }
        match sender.poll(self.instant(now_ns)) {
            sender::Action::Send(batch) => {
                let packets: Vec<Data> = batch.packets().collect();
                let done_ns = self.send(&packets, batch.segments as usize, now_ns);
                sender.handle_sent(packets.len() as u32, true, self.instant(done_ns));
                Some(Turn::at(done_ns + self.random.stall_ns(self.path.stalls)))
            }
            sender::Action::WaitUntil(until) => Some(Turn {
                at_ns: now_ns,
                waits_until_ns: Some(self.ns(until)),
            }),
            sender::Action::Done => None,
        }
    }

    /// Hands packets over, `segments` of them as one. Returns the time when that is done.
    fn send(&mut self, packets: &[Data], segments: usize, now_ns: u64) -> u64 {
        let mut now_ns = (now_ns + self.random.stall_ns(self.path.stalls)) as f64;
        for piece in packets.chunks(segments) {
            now_ns += self.path.line_ns;
            let bytes = self.path.wire_bytes() * piece.len() as f64;
            let first = self.shaper.pass(now_ns, bytes);
            let Some(leaves_ns) = first.and_then(|leaves_ns| {
                let behind = self.path.next_bps.is_finite();
                if behind {
                    self.next.pass(leaves_ns, bytes)
                } else {
                    first
                }
            }) else {
                continue;
            };
            for data in piece {
                self.carry(*data, leaves_ns as u64 + self.path.latency_ns);
            }
        }
        now_ns as u64
    }

    /// Carries a packet from the shaper to the receiver's host, where it would arrive at `due_ns`.
    fn carry(&mut self, data: Data, due_ns: u64) {
        let Self { path, random, .. } = self;
        if random.happens(path.loss) {
            return;
        }
        if random.happens(path.late_stamps) {
            self.away_ns = due_ns + (LONGEST_STALL_NS / 2.0 * random.unit()) as u64;
        }
        let late_ns = -path.jitter_ns * (1.0 - random.unit()).ln();
        let mut arrives_ns = (due_ns + wandered_ns(path, due_ns) + late_ns as u64)
            .max(self.away_ns)
            .max(self.last_ns);
        self.last_ns = arrives_ns;
        if random.happens(path.reordered) {
            arrives_ns += (LONGEST_DETOUR_NS * random.unit()) as u64;
        }
        self.wire.push(arrives_ns, data);
    }

    fn next_packet_ns(&self) -> Option<u64> {
        if self.socket.is_empty() {
            self.wire.next_ns()
        } else {
            Some(0)
        }
    }

    /// Wakes a waiting receiver to read; `None` if it is done.
    fn step_receiver(&mut self, receiver: &mut Receiver, turn: Turn, now_ns: u64) -> Option<Turn> {
        if turn.waits_until_ns.is_some() {
            return Some(Turn::at(self.read(receiver, now_ns)));
        }
        match receiver.poll(self.instant(now_ns)) {
            receiver::Action::Ack(ack) => {
                if !self.random.happens(self.path.lost_acks) {
                    self.acks.push(now_ns + self.path.latency_ns, ack);
                }
                Some(turn)
            }
            receiver::Action::Nap(time) => Some(Turn::at(now_ns + time.as_nanos() as u64)),
            receiver::Action::ReadUntil(until) => Some(Turn {
                at_ns: now_ns,
                waits_until_ns: Some(self.ns(until)),
            }),
            receiver::Action::Done => None,
        }
    }

    /// Reads the packets in the socket. Returns the time when that is done.
    fn read(&mut self, receiver: &mut Receiver, now_ns: u64) -> u64 {
        while let Some((at_ns, data)) = self.wire.pop(now_ns) {
            if self.socket.len() < self.path.buffer_packets {
                self.socket.push_back((data, self.clocks(at_ns).wall_ns, self.overflow));
            } else {
                self.overflow += 1;
            }
        }
        let count = self.socket.len().min(READ_PACKETS);
        for (data, stamp_ns, overflow) in self.socket.drain(..count) {
            receiver.handle_packet(&data, Some(stamp_ns), overflow);
        }
        let busy_ns = (count as f64 * self.path.read_ns) as u64 + self.random.stall_ns(self.path.stalls);
        receiver.handle_read(count < READ_PACKETS, self.instant(now_ns + busy_ns));
        now_ns + busy_ns
    }
}
