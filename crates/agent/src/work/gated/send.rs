//! The sending side of a gated train.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::gated::sender::{Action, Sender};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::flow::FlowSender;
use prost::Message;
use tracing::info;

use super::spec::Spec;
use crate::contract::agents::{GatedTrainResult, ProbeReply, Verdict, Withheld};
use crate::contract::data::{GatedReport, GatedSent, GatedTrace};
use crate::error::FrameError;
use crate::error::{WorkError, within};
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::work::sizing::{RESTARTS, confirm, size};

/// Number of round trips in which a train's window grows to 1024 times its first size.
const RAMP_TRIPS: u32 = 10;
/// By how much the arrivals of a train may end before the sending. After a longer silence, the path's MTU may have shrunk.
const SILENCE: Duration = Duration::from_millis(100);
const REPORT_LIMIT: Duration = Duration::from_secs(15);
/// Largest number of frames of a trace: 600 MB.
const MAX_TRACE_FRAMES: u32 = 10_000;

/// The result of a gated train for its sender.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The answer, or the counts of a refused train.
    pub result: GatedTrainResult,
    /// Number of hops; 0 if unknown.
    pub hops: u32,
    /// Busy share of the receiver's cores, if it is known.
    pub receiver_cpu: Option<f64>,
    /// Time withheld from the receiver.
    pub receiver_withheld: Option<Withheld>,
    /// The reason why there is no rate, if there is none.
    pub error: Option<WorkError>,
}

/// Sends a gated train on a connection whose pings are complete, and reads the receiver's report. The caller must have
/// reserved the bytes.
///
/// # Errors
/// If the train cannot be sent or the receiver does not report. Even then `reply` contains the number of bytes sent and
/// the path's MTU.
pub(super) async fn send(
    call: &Call<'_>,
    spec: Spec,
    connection: Connection,
    reply: &mut ProbeReply,
) -> Result<Outcome, WorkError> {
    let (mut restarts, began, round_trip) = (0, Instant::now(), connection.round_trip);
    let (end, sending, result, payload_bytes, wire_bytes) = loop {
        let (path, path_mtu) = size(call, &connection).await?;
        (reply.mtu_bytes, reply.mtu_confirmed) = (path_mtu.bytes, path_mtu.confirmed);
        let payload_bytes = path.family().payload_bytes(path_mtu.bytes).min(spec.payload_bytes);
        let wire_bytes = path.family().wire_bytes(payload_bytes);
        let left = Spec {
            max_bytes: spec.max_bytes.saturating_sub(reply.bytes_sent),
            // A window that doubles with each round trip needs this many of them to fill a long path.
            max_time: spec.max_time + RAMP_TRIPS * connection.round_trip,
            ..spec
        };
        tokio::time::sleep_until(connection.start.into()).await;
        let mut socket = FlowSender::new(path, call.hold.secret.packet_key(), payload_bytes);
        let mut sender = Sender::new(
            connection.probe_id,
            left.shape(payload_bytes),
            socket.offload(),
            Instant::now(),
        );
        let (_leash, cut) = Leash::new();
        let sending = tokio::task::spawn_blocking(move || {
            let first = Instant::now();
            let result = run(&mut socket, &mut sender, &cut);
            (sender.end(), first.elapsed(), result)
        });
        let (end, sending, result) = sending.await.map_err(|_| WorkError::Over)?;
        reply.bytes_sent += u64::from(end.packets) * u64::from(payload_bytes);
        match result {
            // A router has just reported a smaller MTU.
            Err(SocketError::TooLong { payload_bytes }) if restarts < RESTARTS => {
                info!(payload_bytes, "the path's MTU has shrunk; the train restarts");
                restarts += 1;
            }
            result => break (end, sending, result, payload_bytes, wire_bytes),
        }
    };
    let Connection {
        mut stream,
        mut channel,
        watched: _watched,
        ..
    } = connection;
    let sent = GatedSent {
        packets: u64::from(end.packets),
        batches: end.batches,
        ended_ns: end.ended_ns,
        out_of_bytes: end.out_of_bytes,
        out_of_time: end.out_of_time,
        error: result.as_ref().err().map(ToString::to_string).unwrap_or_default(),
    };
    channel.send(&mut stream, &sent).await?;
    result?;
    let receiving = async {
        let report: GatedReport = channel.receive(&mut stream).await?;
        let mut trace = Vec::new();
        for _ in 0..report.trace_frames.min(MAX_TRACE_FRAMES) {
            trace.extend(channel.receive::<GatedTrace>(&mut stream).await?.part);
        }
        Ok::<_, WorkError>((report, trace))
    };
    let (report, trace) = within("wait for the train's report", REPORT_LIMIT, receiving).await?;
    if !report.error.is_empty() {
        return Err(WorkError::Receiver(report.error));
    }
    let mut result = GatedTrainResult::decode(report.result.as_slice()).map_err(FrameError::from)?;
    result.sent = sent.packets;
    result.trace = trace;
    // Queues only make arrivals last longer than the sending.
    let ended_early = sending.as_secs_f64() > result.seconds + (SILENCE + 2 * round_trip).as_secs_f64();
    let lost = result.received < result.sent && (ended_early || 10 * result.received < 9 * result.sent);
    if reply.mtu_confirmed && result.overflow == 0 && lost {
        confirm(call, reply.mtu_bytes, began, round_trip).await?;
    }
    // If no packet arrived, the receiver does not know the sizes.
    (result.payload_bytes, result.wire_bytes) = (payload_bytes, wire_bytes);
    let error = (result.verdict() == Verdict::Unspecified).then(|| {
        let blocked = result.received == 0 && result.overflow == 0;
        WorkError::unheard(blocked, sent.packets, call.peer)
            .unwrap_or_else(|| WorkError::Refused(result.refusal.clone()))
    });
    Ok(Outcome {
        result,
        hops: report.hops,
        receiver_cpu: report.cpu,
        receiver_withheld: report.withheld,
        error,
    })
}

fn run(socket: &mut FlowSender, sender: &mut Sender, cut: &AtomicBool) -> Result<(), SocketError> {
    while !cut.load(Ordering::Relaxed) {
        socket.answers(Instant::now(), |ack| sender.handle_ack(ack))?;
        match sender.poll(Instant::now()) {
            Action::Send(batch) => {
                let packets = socket.send(&batch, || !cut.load(Ordering::Relaxed))?;
                sender.handle_sent(packets, socket.offload(), Instant::now());
            }
            Action::WaitUntil(until) => socket.answers(until, |ack| sender.handle_ack(ack))?,
            Action::Done => break,
        }
    }
    Ok(())
}
