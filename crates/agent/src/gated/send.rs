//! The sending side.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::gated::wire::Ack;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::flow::FlowSender;
use prost::Message;

use super::Plan;
use crate::contract::agents::{GatedTrainResult, Verdict};
use crate::contract::data::{GatedReport, GatedSent, GatedTrace};
use crate::dial::Connection;
use crate::error::{WorkError, within};
use crate::frames::FrameError;
use crate::leash::Leash;
use crate::plane::Plane;
use crate::session::Session;
use crate::train::key;

/// Packets that may be under way before the receiver has advised.
const FIRST_WINDOW: u32 = 173;
/// A window that is shut for so long has lost its answers: the sender goes on with a batch at a time.
const SHUT: Duration = Duration::from_millis(20);
/// How often a waiting sender looks whether it is still wanted.
const GLANCE: Duration = Duration::from_millis(5);
const REPORT_LIMIT: Duration = Duration::from_secs(15);
/// Most frames of a trace: 600 MB.
const MAX_TRACE_FRAMES: u32 = 10_000;

/// What a gated train told its sender.
#[derive(Debug)]
pub struct Outcome {
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
pub async fn send(
    plane: &Plane,
    session: &Session,
    peer: SocketAddr,
    plan: Plan,
    connection: Connection,
    bytes_sent: &mut u64,
) -> Result<Outcome, WorkError> {
    let Connection {
        mut stream,
        mut channel,
        probe_id,
    } = connection;
    let sender = FlowSender::connect(plane.source(), peer, key(session), probe_id, plan.payload_bytes)?;
    let (_leash, cut) = Leash::new();
    let sending = tokio::task::spawn_blocking(move || {
        let mut flow = Flow::new(sender, plan);
        let result = flow.run(&cut);
        (flow.report(&result), result)
    });
    let (sent, result) = sending.await.map_err(|_| WorkError::Over)?;
    *bytes_sent = sent.packets * u64::from(plan.payload_bytes);
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

/// A train under way.
struct Flow {
    sender: FlowSender,
    plan: Plan,
    window: u32,
    segments: u16,
    waits: u32,
    ack: Option<Ack>,
    deadline: Instant,
    out_of_bytes: bool,
    out_of_time: bool,
}

impl Flow {
    fn new(sender: FlowSender, plan: Plan) -> Self {
        Self {
            sender,
            plan,
            window: FIRST_WINDOW,
            segments: 1,
            waits: 0,
            ack: None,
            deadline: Instant::now() + plan.max_time,
            out_of_bytes: false,
            out_of_time: false,
        }
    }

    fn run(&mut self, cut: &AtomicBool) -> Result<(), SocketError> {
        let mut shut_since = None;
        while !cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            self.hear(now)?;
            let left = self.plan.max_packets() - self.sender.sent();
            self.out_of_time = now >= self.deadline;
            self.out_of_bytes = left == 0;
            if self.out_of_time || self.out_of_bytes || self.ack.is_some_and(|ack| ack.enough) {
                break;
            }
            let heard = self.ack.map_or(0, |ack| ack.heard);
            let room = self.window.saturating_sub(self.sender.sent() - heard);
            let batch = self.sender.batch_packets(self.segments);
            // Half a batch at least: a packet for each answer would cost two system calls a packet.
            if room >= batch.min(self.window) / 2 {
                shut_since = None;
            } else {
                let since = *shut_since.get_or_insert(now);
                if now.duration_since(since) < SHUT {
                    self.waits += 1;
                    self.hear((now + GLANCE).min(self.deadline))?;
                    continue;
                }
                shut_since = Some(now);
            }
            let most = batch.min(room.max(1)).min(left);
            self.sender
                .send(most, self.segments, self.waits, || !cut.load(Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn hear(&mut self, until: Instant) -> Result<(), SocketError> {
        self.ack = self.sender.answers(until, self.ack)?;
        if let Some(ack) = self.ack {
            self.window = ack.window.max(1);
            self.segments = ack.segments;
        }
        Ok(())
    }

    fn report(&self, result: &Result<(), SocketError>) -> GatedSent {
        GatedSent {
            packets: u64::from(self.sender.sent()),
            batches: self.sender.batches(),
            ended_ns: self.sender.ended_ns(),
            out_of_bytes: self.out_of_bytes,
            out_of_time: self.out_of_time,
            error: result.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        }
    }
}
