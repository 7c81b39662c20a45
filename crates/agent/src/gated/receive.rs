//! The receiving side: answers the sender, and estimates while the train runs.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gavotte_probe::drain::Drain;
use gavotte_probe::gated::recorder::{HEADERS_V4_BYTES, HEADERS_V6_BYTES, Recorder};
use gavotte_probe::gated::window::Advisor;
use gavotte_probe::gated::wire::{Ack, Data};
use gavotte_probe::gated::{Answer, Limit, Refusal, enough, estimate, write_trace};
use gavotte_probe::packet::PacketKey;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::{self, BATCH, TrainReceiver};
use prost::Message;
use tokio::net::TcpStream;
use tokio::sync::OwnedMutexGuard;

use super::Plan;
use super::result::result;
use crate::contract::data::{GatedReport, GatedSent, GatedTrace};
use crate::cpu::Meter;
use crate::error::{WorkError, within};
use crate::handshake::Channel;
use crate::leash::Leash;
use crate::session::Session;
use crate::train::key;

/// Packets that are answered together, at most.
const ACK_PACKETS: u32 = 16;
/// Packets wait so long for their answer, at most.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// How often a receiver that hears nothing looks up.
const GLANCE: Duration = Duration::from_millis(5);
/// A receiver that could read each packet by itself lets some time pass instead: its core is what the sender needs.
const SHORTEST_NAP: Duration = Duration::from_micros(200);
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// Time in a queue between two estimates, in nanoseconds.
const FIRST_CHECK_NS: i64 = 30_000_000;
const NEXT_CHECK_NS: i64 = 10_000_000;
/// Beyond this difference of two clocks' courses one of them was stepped; slewing stays below 0.05 ms in 0.1 s.
const STEP_NS: i128 = 500_000;
/// How long after the train's time its end may be told.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of a trace in one frame.
const TRACE_PART_BYTES: usize = 60_000;

/// Receives a gated train on a connection whose pings are done and reports on it. `source` is where its packets must come
/// from and `probe_id` what they must bear; `receiver` was drained before the welcome.
///
/// # Errors
/// When the connection or the socket fails.
pub async fn receive(
    session: &Session,
    mut stream: TcpStream,
    mut channel: Channel,
    receiver: OwnedMutexGuard<TrainReceiver>,
    source: IpAddr,
    probe_id: u64,
    plan: Plan,
) -> Result<(), WorkError> {
    let (_leash, cut) = Leash::new();
    let meter = Meter::start();
    let end = Arc::new(OnceLock::new());
    let limit = plan.max_time + END_LIMIT;
    let collector = Collector::new(
        receiver,
        key(session),
        source,
        probe_id,
        plan,
        Arc::clone(&end),
        cut,
        limit,
    );
    let collecting = tokio::task::spawn_blocking(move || collector.run());
    let sent: GatedSent = within("wait for the train's end", limit, channel.receive(&mut stream)).await?;
    if !sent.error.is_empty() {
        // The sender knows already; nothing is left to say.
        return Ok(());
    }
    // Set once, here.
    let _ = end.set(sent);
    let (mut report, trace) = match collecting.await.map_err(|_| WorkError::Over)? {
        Ok(told) => told,
        Err(error) => {
            let report = GatedReport {
                error: error.to_string(),
                ..GatedReport::default()
            };
            (report, String::new())
        }
    };
    report.cpu = meter.share();
    channel.send(&mut stream, &report).await?;
    for part in trace.as_bytes().chunks(TRACE_PART_BYTES) {
        channel.send(&mut stream, &GatedTrace { part: part.to_vec() }).await?;
    }
    Ok(())
}

struct Collector {
    receiver: OwnedMutexGuard<TrainReceiver>,
    key: PacketKey,
    source: IpAddr,
    probe_id: u64,
    plan: Plan,
    end: Arc<OnceLock<GatedSent>>,
    cut: Arc<AtomicBool>,
    deadline: Instant,
    recorder: Recorder,
    advisor: Advisor,
    acks: u32,
    unanswered: u32,
    answered: Instant,
    port: u16,
    hops: Option<u32>,
    unstamped: u64,
    segments: u16,
    began: Option<Instant>,
    last_ns: i64,
    queued_ns: i64,
    next_check_ns: i64,
    answer: Option<Answer>,
}

impl Collector {
    #[allow(clippy::too_many_arguments, reason = "all of it is one train's")]
    fn new(
        receiver: OwnedMutexGuard<TrainReceiver>,
        key: PacketKey,
        source: IpAddr,
        probe_id: u64,
        plan: Plan,
        end: Arc<OnceLock<GatedSent>>,
        cut: Arc<AtomicBool>,
        limit: Duration,
    ) -> Self {
        let headers = if source.is_ipv4() {
            HEADERS_V4_BYTES
        } else {
            HEADERS_V6_BYTES
        };
        let wire_bytes = plan.payload_bytes + headers;
        let now = Instant::now();
        Self {
            advisor: Advisor::new(wire_bytes, receiver.buffer_bytes()),
            recorder: Recorder::new(plan.payload_bytes, wire_bytes, plan.max_packets()),
            receiver,
            key,
            source,
            probe_id,
            plan,
            end,
            cut,
            deadline: now + limit,
            acks: 0,
            unanswered: 0,
            answered: now,
            port: 0,
            hops: None,
            unstamped: 0,
            segments: 1,
            began: None,
            last_ns: 0,
            queued_ns: 0,
            next_check_ns: FIRST_CHECK_NS,
            answer: None,
        }
    }

    fn run(mut self) -> Result<(GatedReport, String), SocketError> {
        let course = course_ns();
        let before = self.receiver.overflow();
        let mut drain = Drain::new(self.deadline);
        while !self.cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            if let Some(end) = self.end.get() {
                drain.sender_done(now);
                if self.answer.is_some() || u64::from(self.advisor.heard()) >= end.packets {
                    break;
                }
            }
            if now >= drain.stop_at() {
                break;
            }
            let (read, fresh) = self.read(drain.stop_at().min(now + GLANCE), before)?;
            let now = Instant::now();
            if fresh > 0 {
                self.began.get_or_insert(now);
                drain.packets_came(now, fresh);
            }
            self.check(now);
            self.tell(now);
            if read < BATCH {
                self.nap();
            }
        }
        let stepped = (course_ns() - course).abs() > STEP_NS;
        Ok(self.report(before, stepped))
    }

    /// Takes what the socket has, up to [`BATCH`] packets. Returns how many there were, and how many were new ones of the
    /// train.
    fn read(&mut self, until: Instant, before: u32) -> Result<(usize, u32), SocketError> {
        let mut fresh = Vec::with_capacity(64);
        let (mut port, mut hops, mut unstamped) = (self.port, self.hops, 0);
        let read = self.receiver.receive(until, |datagram| {
            if datagram.source != self.source || datagram.length != self.plan.payload_bytes as usize {
                return;
            }
            let Ok(data) = Data::read(&self.key, datagram.kept) else {
                return;
            };
            if data.probe_id != self.probe_id {
                return;
            }
            let Some(stamp_ns) = datagram.stamp_ns else {
                unstamped += 1;
                return;
            };
            port = datagram.port;
            hops = hops.or_else(|| datagram.ttl.and_then(receiver::hops));
            fresh.push((data, stamp_ns, datagram.overflow.wrapping_sub(before)));
        })?;
        (self.port, self.hops) = (port, hops);
        self.unstamped += unstamped;
        let mut count = 0;
        for (data, stamp_ns, overflow) in fresh {
            if !self.recorder.take(&data, stamp_ns, overflow) {
                continue;
            }
            count += 1;
            let received_ns = stamp_ns as i64;
            let queued = self.advisor.take(&data, received_ns, overflow);
            if queued {
                self.queued_ns += (received_ns - self.last_ns).clamp(0, ACK_DELAY.as_nanos() as i64);
            }
            self.last_ns = received_ns;
        }
        self.unanswered += count;
        Ok((read, count))
    }

    /// Estimates now and then, until the answer is good enough.
    fn check(&mut self, now: Instant) {
        let held = self
            .began
            .is_some_and(|began| now.duration_since(began) < self.plan.hold);
        if self.answer.is_some() || held || self.queued_ns < self.next_check_ns {
            return;
        }
        self.next_check_ns = self.queued_ns + NEXT_CHECK_NS;
        let train = self.recorder.train(Limit::Enough);
        self.answer = estimate(train).ok().filter(|answer| enough(train, answer));
    }

    fn tell(&mut self, now: Instant) {
        let due = self.unanswered >= ACK_PACKETS || now.duration_since(self.answered) >= ACK_DELAY;
        if self.unanswered == 0 || !due {
            return;
        }
        self.segments = self.segments.max(self.advisor.segments());
        self.acks += 1;
        let ack = Ack {
            probe_id: self.probe_id,
            number: self.acks,
            heard: self.advisor.heard(),
            window: self.advisor.window(),
            segments: self.advisor.segments(),
            enough: self.answer.is_some(),
        };
        self.receiver
            .answer(SocketAddr::new(self.source, self.port), &ack.write(&self.key));
        self.unanswered = 0;
        self.answered = now;
    }

    /// Rests for an eighth of the time that the window lasts, if that is long enough.
    fn nap(&self) {
        let rate_bps = self.advisor.rate_bps();
        let window_bits = 8.0 * f64::from(self.advisor.window()) * f64::from(self.plan.payload_bytes);
        let nap_s = window_bits / 8.0 / rate_bps;
        if nap_s.is_finite() && nap_s >= SHORTEST_NAP.as_secs_f64() {
            std::thread::sleep(Duration::from_secs_f64(nap_s.min(LONGEST_NAP.as_secs_f64())));
        }
    }

    fn report(mut self, before: u32, stepped: bool) -> (GatedReport, String) {
        let end = self.end.get().cloned().unwrap_or_default();
        if let Some(last) = end.batches.checked_sub(1) {
            self.recorder.ended(last, end.ended_ns);
        }
        let limit = match (self.answer.is_some(), end.out_of_bytes) {
            (true, _) => Limit::Enough,
            (false, true) => Limit::Bytes,
            (false, false) => Limit::Time,
        };
        let train = self.recorder.train(limit);
        let answer = match self.answer {
            _ if stepped => Err(Refusal::ClockStepped),
            Some(answer) => Ok(answer),
            None => estimate(train),
        };
        let trace = if self.plan.keep_trace {
            write_trace(train)
        } else {
            String::new()
        };
        let mut told = result(train, &answer, !self.plan.hold.is_zero());
        told.segments = u32::from(self.segments);
        told.overflow = u64::from(self.receiver.overflow().wrapping_sub(before));
        let error = match self.unstamped {
            0 => String::new(),
            count => format!("{count} packets came without a kernel stamp"),
        };
        let report = GatedReport {
            result: told.encode_to_vec(),
            hops: self.hops.unwrap_or(0),
            trace_frames: trace.len().div_ceil(TRACE_PART_BYTES) as u32,
            error,
            cpu: None,
        };
        (report, trace)
    }
}

/// Wall clock minus steady clock, in nanoseconds from an arbitrary origin. Read three times, since the thread may
/// be taken off its core between the two.
fn course_ns() -> i128 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    let read = |_| {
        let before = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let took = before.elapsed();
        (
            took,
            wall.as_nanos() as i128 - before.duration_since(origin).as_nanos() as i128,
        )
    };
    (0..3)
        .map(read)
        .min_by_key(|(took, _)| *took)
        .map_or(0, |(_, course)| course)
}
