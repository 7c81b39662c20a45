//! The receiving side: its socket and its clocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gavotte_probe::gated::receiver::{Action, Clocks, Receiver};
use gavotte_probe::gated::recorder::{HEADERS_V4_BYTES, HEADERS_V6_BYTES};
use gavotte_probe::gated::wire::Data;
use gavotte_probe::gated::{End, write_trace};
use gavotte_probe::packet::PacketKey;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::TrainReceiver;
use prost::Message;
use tokio::sync::OwnedMutexGuard;

use super::result::result;
use super::spec::Spec;
use crate::contract::data::{GatedReport, GatedSent, GatedTrace};
use crate::error::WorkError;
use crate::plane::door::Guest;
use crate::plane::leash::Leash;
use crate::work::cpu::Meter;
use crate::work::inbound::{Inbound, stamp_error};
use crate::work::train::key;

/// How long after the train's time its end may be told.
const END_LIMIT: Duration = Duration::from_secs(20);
/// Bytes of a trace in one frame.
const TRACE_PART_BYTES: usize = 60_000;

/// Receives a gated train on a connection whose pings are done and reports on it. `probe_id` is what its packets must bear;
/// `receiver` was drained before the pings.
///
/// # Errors
/// When the connection or the socket fails.
pub(super) async fn receive(
    guest: &mut Guest,
    receiver: OwnedMutexGuard<TrainReceiver>,
    probe_id: u64,
    spec: Spec,
) -> Result<(), WorkError> {
    let (_leash, cut) = Leash::new();
    let meter = Meter::start();
    let limit = spec.pause + spec.shape.max_time + END_LIMIT;
    let collector = Collector {
        inbound: Inbound::new(receiver, guest.remote, spec.shape.payload_bytes),
        key: key(&guest.hold),
        headers_bytes: if guest.remote.is_ipv4() {
            HEADERS_V4_BYTES
        } else {
            HEADERS_V6_BYTES
        },
        probe_id,
        spec,
        deadline: Instant::now() + limit,
        end: Arc::default(),
        cut,
    };
    let end = Arc::clone(&collector.end);
    let collecting = tokio::task::spawn_blocking(move || collector.run());
    let connection = &mut guest.connection;
    let sent: GatedSent = connection.receive("wait for the train's end", limit).await?;
    if !sent.error.is_empty() {
        // The sender knows already; nothing is left to say.
        return Ok(());
    }
    end.get_or_init(|| End {
        // No train has more packets; of one that claims so not all can come.
        packets: u32::try_from(sent.packets).unwrap_or(u32::MAX),
        batches: sent.batches,
        ended_ns: sent.ended_ns,
        out_of_bytes: sent.out_of_bytes,
        out_of_time: sent.out_of_time,
    });
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
    connection.send(&report).await?;
    for part in trace.as_bytes().chunks(TRACE_PART_BYTES) {
        connection.send(&GatedTrace { part: part.to_vec() }).await?;
    }
    Ok(())
}

struct Collector {
    inbound: Inbound,
    key: PacketKey,
    headers_bytes: u32,
    probe_id: u64,
    spec: Spec,
    deadline: Instant,
    end: Arc<OnceLock<End>>,
    cut: Arc<AtomicBool>,
}

impl Collector {
    fn run(mut self) -> Result<(GatedReport, String), SocketError> {
        let mut train = Receiver::new(
            self.probe_id,
            self.spec.shape,
            self.headers_bytes,
            self.inbound.buffer_bytes(),
            clocks(),
            self.deadline,
        );
        while !self.cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            if let Some(end) = self.end.get() {
                train.handle_end(*end, now);
            }
            match train.poll(now) {
                Action::Ack(ack) => self.inbound.answer(&ack.write(&self.key)),
                Action::Nap(time) => std::thread::sleep(time),
                Action::ReadUntil(until) => {
                    let emptied = self.inbound.read(until, |bytes, stamp_ns, overflow| {
                        Data::read(&self.key, bytes).is_ok_and(|data| train.handle_packet(&data, stamp_ns, overflow))
                    })?;
                    train.handle_read(emptied, Instant::now());
                }
                Action::Done => break,
            }
        }
        Ok(self.report(train))
    }

    fn report(&self, train: Receiver) -> (GatedReport, String) {
        let told = train.finish(&clocks());
        let trace = if self.spec.keep_trace {
            write_trace(&told.train)
        } else {
            String::new()
        };
        let mut result = result(&told.train, &told.answer, !self.spec.shape.hold.is_zero());
        result.segments = u32::from(told.segments);
        result.overflow = self.inbound.overflow();
        let report = GatedReport {
            result: result.encode_to_vec(),
            hops: self.inbound.hops(),
            trace_frames: trace.len().div_ceil(TRACE_PART_BYTES) as u32,
            error: stamp_error(told.unstamped),
            cpu: None,
        };
        (report, trace)
    }
}

/// Both clocks. Read three times, since the thread may be taken off its core between the two.
fn clocks() -> Clocks {
    let read = || {
        let steady = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ns = wall.as_nanos() as u64;
        (steady.elapsed(), Clocks { steady, wall_ns })
    };
    let mut reads = [read(), read(), read()];
    reads.sort_by_key(|(took, _)| *took);
    reads[0].1
}
