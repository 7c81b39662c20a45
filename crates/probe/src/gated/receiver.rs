//! The receiving side of a gated train, without its socket and clocks: acknowledges packets, and estimates while the
//! train runs.

use std::time::{Duration, Instant};

use super::answer::{Answer, Refusal, estimate};
use super::record::{Limit, Train};
use super::recorder::Recorder;
use super::shape::{End, Shape, Way, as_many_bytes};
use super::stop::enough;
use super::window::Advisor;
use super::wire::{Ack, Data};
use crate::drain::Drain;

/// Largest number of full packets in one acknowledgement.
const ACK_PACKETS: u32 = 16;
/// Longest time that a packet waits for its acknowledgement.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// A receiver that could read each packet individually sleeps between reads instead, since the sender needs the core.
const SHORTEST_NAP: Duration = Duration::from_micros(200);
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// Time in a queue between two estimates, in nanoseconds.
const FIRST_CHECK_NS: i64 = 30_000_000;
const NEXT_CHECK_NS: i64 = 10_000_000;
/// If two clocks differ by more than this, one of them was set.
const STEP_NS: i128 = 500_000;
/// The clock of packet timestamps may in addition gain or lose one part in this many: 500 ppm, the most by which the
/// kernel slews it. A rate is then wrong by 0.05 %. A daemon that sets the tick may slew by 10 %.
const SLEW: i128 = 2_000;

/// The receiver's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this acknowledgement to the sender.
    Ack(Ack),
    /// Sleep for this long.
    Nap(Duration),
    /// Read packets until this time, then call [`Receiver::handle_read`].
    ReadUntil(Instant),
    /// Stop: the train is over.
    Done,
}

/// The receiver's clocks, read at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The clock that is never set.
    pub steady: Instant,
    /// The clock of packet timestamps, in nanoseconds since 1970.
    pub wall_ns: u64,
    /// The clock that is neither set nor slewed, in nanoseconds since any moment.
    pub raw_ns: u64,
}

impl Clocks {
    fn stepped(&self, later: &Self) -> bool {
        let raw_ns = i128::from(later.raw_ns) - i128::from(self.raw_ns);
        let wall_ns = i128::from(later.wall_ns) - i128::from(self.wall_ns);
        (wall_ns - raw_ns).abs() > STEP_NS + raw_ns.abs() / SLEW
    }
}

/// The receiver's results.
#[derive(Clone, Debug)]
pub struct Report {
    /// The record of the train.
    pub train: Train,
    /// The estimate of the path.
    pub answer: Result<Answer, Refusal>,
    /// Largest number of packets that the receiver advised to hand to the kernel as one.
    pub segments: u16,
    /// Packets without a kernel timestamp, which cannot be used.
    pub unstamped: u64,
}

/// Receives one train. Packets and times are arguments.
#[derive(Clone, Debug)]
pub struct Receiver {
    probe_id: u64,
    hold: Duration,
    payload_bytes: u32,
    ack_packets: u32,
    clocks: Clocks,
    recorder: Recorder,
    advisor: Advisor,
    drain: Drain,
    end: Option<End>,
    fresh: u32,
    unstamped: u64,
    unanswered: u32,
    answered: Instant,
    acks: u32,
    segments: u16,
    began: Option<Instant>,
    last_ns: i64,
    queued_ns: i64,
    next_check_ns: i64,
    answer: Option<Answer>,
    tired: bool,
}

impl Receiver {
    /// A receiver that waits for the packets of a train, until `deadline` at the latest.
    pub fn new(probe_id: u64, shape: Shape, way: Way, clocks: Clocks, deadline: Instant) -> Self {
        let wire_bytes = shape.payload_bytes + way.headers_bytes;
        Self {
            probe_id,
            hold: shape.hold,
            payload_bytes: shape.payload_bytes,
            ack_packets: as_many_bytes(ACK_PACKETS, wire_bytes),
            clocks,
            recorder: Recorder::new(shape.payload_bytes, wire_bytes, shape.max_packets).with_jitter(way.jitter),
            advisor: Advisor::new(wire_bytes, &way),
            drain: Drain::new(deadline),
            end: None,
            fresh: 0,
            unstamped: 0,
            unanswered: 0,
            answered: clocks.steady,
            acks: 0,
            segments: 1,
            began: None,
            last_ns: 0,
            queued_ns: 0,
            next_check_ns: FIRST_CHECK_NS,
            answer: None,
            tired: false,
        }
    }

    /// Records one packet with the kernel's receive timestamp in nanoseconds, and the number of packets that the socket
    /// has dropped since the train began. Returns whether it is a timestamped packet of this train.
    pub fn handle_packet(&mut self, data: &Data, stamp_ns: Option<u64>, overflow: u32) -> bool {
        if data.probe_id != self.probe_id {
            return false;
        }
        let Some(stamp_ns) = stamp_ns else {
            self.unstamped += 1;
            return false;
        };
        if self.recorder.take(data, stamp_ns, overflow) {
            self.fresh += 1;
            let received_ns = stamp_ns as i64;
            if self.advisor.take(data, received_ns, overflow) || self.advisor.pace_bps().is_some() {
                self.queued_ns += (received_ns - self.last_ns).clamp(0, ACK_DELAY.as_nanos() as i64);
            }
            self.last_ns = received_ns;
        }
        true
    }

    /// Records that a read is over, and whether it emptied the socket.
    pub fn handle_read(&mut self, emptied: bool, now: Instant) {
        if self.fresh > 0 {
            self.began.get_or_insert(now);
            self.drain.packets_came(now, self.fresh);
            self.unanswered += self.fresh;
            self.fresh = 0;
        }
        self.tired = emptied;
        self.check(now);
    }

    /// Records that the sender has finished.
    pub fn handle_end(&mut self, end: End, now: Instant) {
        self.end = Some(end);
        self.drain.sender_done(now);
    }

    /// The next action.
    pub fn poll(&mut self, now: Instant) -> Action {
        let due = self.unanswered >= self.ack_packets || now.duration_since(self.answered) >= ACK_DELAY;
        if self.unanswered > 0 && due {
            return Action::Ack(self.ack(now));
        }
        if std::mem::take(&mut self.tired)
            && let Some(nap) = self.nap()
        {
            return Action::Nap(nap);
        }
        let all = |end: End| self.answer.is_some() || self.advisor.heard() >= end.packets;
        match self.drain.listen(now) {
            Some(until) if !self.end.is_some_and(all) => Action::ReadUntil(until),
            _ => Action::Done,
        }
    }

    /// The train and the estimate of its path; `clocks` are read now.
    pub fn finish(mut self, clocks: &Clocks) -> Report {
        let end = self.end.unwrap_or_default();
        if let Some(last) = end.batches.checked_sub(1) {
            self.recorder.ended(last, end.ended_ns);
        }
        let train = self
            .recorder
            .into_train(match (self.answer.is_some(), end.out_of_bytes) {
                (true, _) => Limit::Enough,
                (false, true) => Limit::Bytes,
                (false, false) => Limit::Time,
            });
        let answer = match self.answer {
            _ if self.clocks.stepped(clocks) => Err(Refusal::ClockStepped),
            Some(answer) => Ok(answer),
            None => estimate(&train),
        };
        Report {
            train,
            answer,
            segments: self.segments,
            unstamped: self.unstamped,
        }
    }

    /// Estimates from time to time, until the answer is good enough.
    fn check(&mut self, now: Instant) {
        let held = self.began.is_some_and(|began| now.duration_since(began) < self.hold);
        if self.answer.is_some() || held || self.queued_ns < self.next_check_ns {
            return;
        }
        // A policer's drops are evaluated over the whole train, which takes longer for longer trains.
        self.next_check_ns = self.queued_ns + NEXT_CHECK_NS.max(self.queued_ns / 8);
        let train = self.recorder.train(Limit::Enough);
        self.answer = estimate(train).ok().filter(|answer| enough(train, answer));
    }

    fn ack(&mut self, now: Instant) -> Ack {
        self.segments = self.segments.max(self.advisor.segments());
        self.acks += 1;
        self.unanswered = 0;
        self.answered = now;
        Ack {
            probe_id: self.probe_id,
            number: self.acks,
            heard: self.advisor.heard(),
            window: self.advisor.window(),
            segments: self.advisor.segments(),
            pace_kbps: self.advisor.pace_bps().map_or(0, |bps| (bps / 1e3) as u32),
            enough: self.answer.is_some(),
        }
    }

    /// An eighth of the window's duration, if that is long enough.
    fn nap(&self) -> Option<Duration> {
        let window_bits = 8.0 * f64::from(self.advisor.window()) * f64::from(self.payload_bytes);
        let nap_s = window_bits / 8.0 / self.advisor.rate_bps();
        let long = nap_s.is_finite() && nap_s >= SHORTEST_NAP.as_secs_f64();
        long.then(|| Duration::from_secs_f64(nap_s.min(LONGEST_NAP.as_secs_f64())))
    }
}
