//! The sending side.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::gated::sender::{Action, Sender};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::flow::FlowSender;
use prost::Message;

use super::spec::Spec;
use crate::contract::agents::{GatedTrainResult, Verdict};
use crate::contract::data::{GatedReport, GatedSent, GatedTrace};
use crate::error::FrameError;
use crate::error::{WorkError, within};
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::work::train::key;

const REPORT_LIMIT: Duration = Duration::from_secs(15);
/// Most frames of a trace: 600 MB.
const MAX_TRACE_FRAMES: u32 = 10_000;

/// What a gated train told its sender.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The answer, or what was counted beside the refusal.
    pub result: GatedTrainResult,
    /// Path length, 0 when unknown.
    pub hops: u32,
    /// Busy share of the receiver's cores, if it is known.
    pub receiver_cpu: Option<f64>,
    /// Why there is no rate, if there is none.
    pub error: Option<WorkError>,
}

/// Sends a gated train on a connection whose pings are done and reads the receiver's report. The bytes must have been
/// reserved.
///
/// # Errors
/// When the train cannot be sent or the receiver does not report. How much was sent is in `bytes_sent` even then.
pub(super) async fn send(
    call: &Call<'_>,
    spec: Spec,
    connection: Connection,
    bytes_sent: &mut u64,
) -> Result<Outcome, WorkError> {
    let Connection {
        mut stream,
        mut channel,
        probe_id,
    } = connection;
    let mut socket = FlowSender::connect(call.plane.source(), call.peer, key(call.hold), spec.shape.payload_bytes)?;
    let mut sender = Sender::new(probe_id, spec.shape, socket.offload(), Instant::now());
    let (_leash, cut) = Leash::new();
    let sending = tokio::task::spawn_blocking(move || {
        let result = run(&mut socket, &mut sender, &cut);
        (sender.end(), result)
    });
    let (end, result) = sending.await.map_err(|_| WorkError::Over)?;
    let sent = GatedSent {
        packets: u64::from(end.packets),
        batches: end.batches,
        ended_ns: end.ended_ns,
        out_of_bytes: end.out_of_bytes,
        out_of_time: end.out_of_time,
        error: result.as_ref().err().map(ToString::to_string).unwrap_or_default(),
    };
    *bytes_sent = sent.packets * u64::from(spec.shape.payload_bytes);
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
    let error = (result.verdict() == Verdict::Unspecified).then(|| WorkError::Refused(result.refusal.clone()));
    Ok(Outcome {
        result,
        hops: report.hops,
        receiver_cpu: report.cpu,
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
