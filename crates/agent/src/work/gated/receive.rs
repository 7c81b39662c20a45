//! The receiving side of a gated train, with its socket and clocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gavotte_probe::gated::receiver::{Action, Clocks, Receiver};
use gavotte_probe::gated::wire::{DATA_BYTES, Data};
use gavotte_probe::gated::{End, Refusal, Way, write_trace};
use gavotte_probe::packet::PacketKey;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::TrainReceiver;
use nix::time::{ClockId, clock_gettime};
use prost::Message;
use tokio::sync::OwnedMutexGuard;

use super::result::result;
use super::spec::Spec;
use crate::contract::data::{GatedReport, GatedSent, GatedTrace};
use crate::error::WorkError;
use crate::plane::door::Guest;
use crate::plane::leash::Leash;
use crate::work::cpu::Meter;
use crate::work::inbound::{Inbound, Piece, stamp_error};
use crate::work::sizing::RESTARTS;

/// Shortest time after the train's own for its end to arrive. On a long path the train takes some round trips more.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of a trace in one frame.
const TRACE_PART_BYTES: usize = 60_000;

/// Receives a gated train on a connection whose pings are complete, and sends the report. `probe_id` is the id of its
/// packets; `receiver` was drained before the pings.
///
/// # Errors
/// If the connection or the socket fails.
pub(super) async fn receive(
    guest: &mut Guest,
    receiver: OwnedMutexGuard<TrainReceiver>,
    probe_id: u64,
    spec: Spec,
) -> Result<(), WorkError> {
    let (_leash, cut) = Leash::new();
    let meter = Meter::start();
    let limit = spec.pause + (1 + RESTARTS as u32) * spec.max_time + END_LIMIT;
    let collector = Collector {
        inbound: Inbound::new(receiver, guest.remote, guest.hold.secret.packet_key(), probe_id),
        probe_id,
        spec,
        deadline: Instant::now() + limit,
        round_trip: guest.connection.round_trip,
        jitter: guest.connection.jitter,
        end: Arc::default(),
        cut,
    };
    let end = Arc::clone(&collector.end);
    let collecting = tokio::task::spawn_blocking(move || collector.run());
    let connection = &mut guest.connection;
    let sent: GatedSent = connection.receive("wait for the train's end", limit).await?;
    if !sent.error.is_empty() {
        // The sender knows the error already; there is nothing to report.
        return Ok(());
    }
    end.get_or_init(|| End {
        // No train has more packets: if a sender claims more, not all of them can arrive.
        packets: u32::try_from(sent.packets).unwrap_or(u32::MAX),
        batches: sent.batches,
        ended_ns: sent.ended_ns,
        out_of_bytes: sent.out_of_bytes,
        out_of_time: sent.out_of_time,
    });
    let (mut report, trace) = match collecting.await.map_err(|_| WorkError::Over)? {
        Ok(reported) => reported,
        Err(error) => {
            let report = GatedReport {
                error: error.to_string(),
                ..GatedReport::default()
            };
            (report, String::new())
        }
    };
    report.cpu = meter.share();
    report.withheld = Some(meter.withheld());
    connection.send(&report).await?;
    for part in trace.as_bytes().chunks(TRACE_PART_BYTES) {
        connection.send(&GatedTrace { part: part.to_vec() }).await?;
    }
    Ok(())
}

struct Collector {
    inbound: Inbound,
    probe_id: u64,
    spec: Spec,
    deadline: Instant,
    round_trip: Duration,
    jitter: Duration,
    end: Arc<OnceLock<End>>,
    cut: Arc<AtomicBool>,
}

impl Collector {
    fn run(mut self) -> Result<(GatedReport, String), SocketError> {
        let mut current = Current::new(&self);
        while !self.cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            if let Some(end) = self.end.get() {
                current.train.handle_end(*end, now);
            }
            match current.train.poll(now) {
                Action::Ack(ack) => self.inbound.answer(&ack),
                Action::Nap(time) => std::thread::sleep(time),
                Action::ReadUntil(until) => {
                    let emptied = self.inbound.read(until, |key, piece| current.take(key, piece))?;
                    current.train.handle_read(emptied, Instant::now());
                }
                Action::Done => break,
            }
        }
        Ok(self.report(current.train))
    }

    fn report(&mut self, train: Receiver) -> (GatedReport, String) {
        let mut finished = train.finish(&clocks());
        // A clock that was set and set back leaves both ends of the train plausible.
        if self.inbound.clock_was_set() {
            finished.answer = Err(Refusal::ClockStepped);
        }
        let trace = if self.spec.keep_trace {
            write_trace(&finished.train)
        } else {
            String::new()
        };
        let mut result = result(&finished.train, &finished.answer, !self.spec.hold.is_zero());
        result.segments = u32::from(finished.segments);
        result.overflow = self.inbound.overflow();
        let report = GatedReport {
            result: result.encode_to_vec(),
            hops: self.inbound.hops(),
            trace_frames: trace.len().div_ceil(TRACE_PART_BYTES) as u32,
            error: stamp_error(finished.unstamped),
            ..GatedReport::default()
        };
        (report, trace)
    }
}

/// The train in progress. Its first packet shows the size of all packets; smaller ones later show that the sender
/// restarted.
struct Current {
    probe_id: u64,
    spec: Spec,
    way: Way,
    deadline: Instant,
    payload_bytes: u32,
    begun: usize,
    train: Receiver,
}

impl Current {
    fn new(collector: &Collector) -> Self {
        let (probe_id, spec, deadline) = (collector.probe_id, collector.spec, collector.deadline);
        let way = Way {
            headers_bytes: collector.inbound.family().wire_bytes(0),
            buffer_bytes: collector.inbound.buffer_bytes(),
            round_trip: collector.round_trip,
            jitter: collector.jitter,
        };
        let shape = spec.shape(spec.payload_bytes);
        Self {
            probe_id,
            spec,
            way,
            deadline,
            payload_bytes: spec.payload_bytes,
            begun: 0,
            train: Receiver::new(probe_id, shape, way, clocks(), deadline),
        }
    }

    fn take(&mut self, key: &PacketKey, piece: &Piece<'_>) -> bool {
        let Some(data) = Data::read(key, piece.bytes)
            .ok()
            .filter(|data| data.probe_id == self.probe_id)
        else {
            return false;
        };
        if (DATA_BYTES as u32..self.payload_bytes).contains(&piece.payload_bytes) && self.begun <= RESTARTS {
            self.begun += 1;
            self.payload_bytes = piece.payload_bytes;
            self.train = Receiver::new(
                self.probe_id,
                self.spec.shape(self.payload_bytes),
                self.way,
                clocks(),
                self.deadline,
            );
        }
        piece.payload_bytes == self.payload_bytes && self.train.handle_packet(&data, piece.stamp_ns, piece.overflow)
    }
}

/// The time of the clock that NTP neither sets nor slews.
fn raw() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).map_or(Duration::ZERO, Duration::from)
}

/// Reads all clocks, three times, since the thread may lose its core between two of them.
fn clocks() -> Clocks {
    let read = || {
        let steady = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ns = wall.as_nanos() as u64;
        let raw_ns = raw().as_nanos() as u64;
        (
            steady.elapsed(),
            Clocks {
                steady,
                wall_ns,
                raw_ns,
            },
        )
    };
    let mut reads = [read(), read(), read()];
    reads.sort_by_key(|(took, _)| *took);
    reads[0].1
}
