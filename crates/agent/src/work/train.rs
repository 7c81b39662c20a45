//! Sends a packet train to a peer, or receives one: bursts over UDP, everything else on the authenticated TCP
//! connection. The bursts run on blocking threads, which sleep and poll and never spin.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::choreo::{self, BurstArrivals};
use gavotte_probe::drain::MAX_DRAIN;
use gavotte_probe::mtu::{Family, LEAST_V4_BYTES, MOST_BYTES};
use gavotte_probe::packet::HEADER_BYTES;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::path::Path;
use gavotte_probe::sockets::sender::TrainSender;
use gavotte_probe::sockets::tcp;
use gavotte_probe::train::{Arrivals, Shape, ShapeError};
use tonic::async_trait;
use tracing::info;

use crate::contract::agents::{Burst, BurstTrain, BurstTrainResult, ProbeReply, probe_reply};
use crate::contract::data::Report;
use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::work::collecting::{self, Packets, Seen};
use crate::work::kind::{Answer, Ask};
use crate::work::sizing::{RESTARTS, confirm, size};
use crate::work::visit::Visit;

/// How long a train's packets may take to leave, in addition to its pauses. A shaper on the sender's own host delays
/// them at its rate.
const SEND_LIMIT: Duration = Duration::from_secs(60);
/// Number of missing packets at the end of a train after which their size may be the reason.
const END_PACKETS: u32 = 4;
const REPORT_LIMIT: Duration = Duration::from_secs(15);

impl TryFrom<&BurstTrain> for Shape {
    type Error = ShapeError;

    fn try_from(asked: &BurstTrain) -> Result<Self, ShapeError> {
        let payload_bytes = match asked.payload_bytes {
            0 => Family::V4.payload_bytes(MOST_BYTES),
            other => other,
        };
        Self::new(asked.bursts, asked.packets, payload_bytes, asked.gap_s)
    }
}

#[async_trait]
impl Ask for Shape {
    fn bytes(&self) -> u64 {
        self.total_bytes()
    }

    async fn ask(&self, call: &Call<'_>, mut connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let limit = self.pauses() + SEND_LIMIT;
        let (mut restarts, began) = (0, Instant::now());
        let (shape, wire_bytes, packets, sent) = loop {
            let path = path(call, &connection, self, reply).await?;
            let family = path.family();
            let shape = self.fitting(family.payload_bytes(reply.mtu_bytes));
            let sender = TrainSender::new(path, call.hold.secret.packet_key(), connection.probe_id, shape);
            let (_leash, cut) = Leash::new();
            let sending = tokio::task::spawn_blocking(move || send_bursts(sender, shape, &cut, Instant::now() + limit));
            let (packets, sent) = sending.await.map_err(|_| WorkError::Over)?;
            reply.bytes_sent += packets * u64::from(shape.payload_bytes());
            match sent {
                // A router has just reported a smaller MTU.
                Err(SocketError::TooLong { payload_bytes }) if restarts < RESTARTS => {
                    info!(payload_bytes, "the path's MTU has shrunk; the train restarts");
                    restarts += 1;
                }
                sent => break (shape, family.wire_bytes(shape.payload_bytes()), packets, sent),
            }
        };
        let sent_report = Report {
            bytes: reply.bytes_sent,
            error: sent.as_ref().err().map(ToString::to_string).unwrap_or_default(),
            ..Report::default()
        };
        connection.send(&sent_report).await?;
        sent?;
        if packets < shape.total_packets() {
            return Err(WorkError::Late {
                operation: "send the train",
                limit,
            });
        }
        let report: Report = connection.receive("wait for the train's report", REPORT_LIMIT).await?;
        if !report.error.is_empty() {
            return Err(WorkError::Receiver(report.error));
        }
        if reply.mtu_confirmed && report.overflow == 0 && lost_end(&report, shape) {
            confirm(call, reply.mtu_bytes, began, connection.round_trip).await?;
        }
        let mss_bytes = tcp::info(&connection.stream)?.mss_bytes;
        reply.hops = report.hops;
        reply.receiver_cpu = report.cpu;
        reply.receiver_withheld = report.withheld;
        let (result, error) = judge(report, shape, packets, reply.rtt_s, mss_bytes);
        let result = BurstTrainResult { wire_bytes, ..result };
        let blocked = result.received == 0 && result.overflow == 0;
        reply.result = Some(probe_reply::Result::BurstTrain(result));
        let error = error.map(|error| WorkError::unheard(blocked, packets, call.peer).unwrap_or(error));
        error.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Answer for Shape {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let (receiver, probe_id) = visit.await_train().await?;
        let limit = (1 + RESTARTS as u32) * (self.pauses() + SEND_LIMIT) + MAX_DRAIN;
        let shape = *self;
        collecting::answer(
            visit,
            (receiver, probe_id),
            "wait for the train's end",
            limit,
            move |packets| collect(packets, shape),
        )
        .await
    }
}

/// A socket whose path carries packets of `shape`, and the path's MTU in the reply. Packets that fit on every path need
/// no search.
async fn path(
    call: &Call<'_>,
    connection: &Connection,
    shape: &Shape,
    reply: &mut ProbeReply,
) -> Result<Path, WorkError> {
    let family = Family::of(call.peer.ip());
    if family.packet_bytes(shape.payload_bytes()) <= LEAST_V4_BYTES {
        let path = Path::open(call.plane.source(), call.peer)?;
        reply.mtu_bytes = path.kernel_mtu_bytes()?;
        return Ok(path);
    }
    let (path, path_mtu) = size(call, connection).await?;
    (reply.mtu_bytes, reply.mtu_confirmed) = (path_mtu.bytes, path_mtu.confirmed);
    Ok(path)
}

fn send_bursts(
    mut sender: TrainSender,
    shape: Shape,
    cut: &AtomicBool,
    deadline: Instant,
) -> (u64, Result<(), SocketError>) {
    let wanted = || !cut.load(Ordering::Relaxed) && Instant::now() < deadline;
    let mut packets = 0;
    let mut last_end = None;
    for burst in 0..shape.bursts() {
        sender.prepare(burst);
        if let Some(end) = last_end {
            // The pause counts from the end of the previous burst; the preparation of the packets is part of it.
            let pause = shape.gap().saturating_sub(Instant::now().duration_since(end));
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
        }
        if !wanted() {
            break;
        }
        let (sent, result) = sender.send(wanted);
        packets += sent;
        if result.is_err() {
            return (packets, result);
        }
        last_end = Some(Instant::now());
    }
    (packets, Ok(()))
}

/// Whether the last packets of a train are missing, as if packets of their size no longer arrived.
fn lost_end(report: &Report, shape: Shape) -> bool {
    let last = report.bursts.last();
    last.is_none_or(|burst| burst.received == 0 || burst.last_seq.saturating_add(END_PACKETS) < shape.packets())
}

fn judge(report: Report, shape: Shape, sent: u64, rtt_s: f64, mss_bytes: u32) -> (BurstTrainResult, Option<WorkError>) {
    let arrivals: Vec<BurstArrivals> = report.bursts.iter().map(BurstArrivals::from).collect();
    let received: u64 = report.bursts.iter().map(|burst| u64::from(burst.received)).sum();
    let rate_bps = choreo::rate_bps(&arrivals, shape.packets(), shape.payload_bytes());
    let loss = choreo::path_loss(sent, received, report.overflow);
    let result = BurstTrainResult {
        sent: sent as u32,
        received: received.min(sent) as u32,
        bursts: report.bursts,
        rate_bps: rate_bps.unwrap_or(0.0),
        mathis_bps: choreo::mathis_bps(mss_bytes, rtt_s, loss).unwrap_or(0.0),
        overflow: report.overflow,
        payload_bytes: shape.payload_bytes(),
        wire_bytes: 0,
    };
    let error = rate_bps.is_none().then_some(WorkError::NoRate { sent, received });
    (result, error)
}

/// Records a train until it is complete or its sender is done.
fn collect(mut packets: Packets, asked: Shape) -> Result<Report, SocketError> {
    let (mut shape, mut begun) = (asked, 0);
    let mut arrivals = Arrivals::new(shape);
    packets.record(|packet, piece| {
        // The first packet shows the size of all packets; smaller ones later show that the train restarted.
        if (HEADER_BYTES as u32..shape.payload_bytes()).contains(&piece.payload_bytes) && begun <= RESTARTS {
            begun += 1;
            shape = shape.fitting(piece.payload_bytes);
            arrivals = Arrivals::new(shape);
        }
        if piece.payload_bytes != shape.payload_bytes() {
            return Seen::Other;
        }
        let Some(stamp_ns) = piece.stamp_ns else {
            return Seen::Unstamped;
        };
        let fresh = arrivals.record(packet.burst, packet.seq, stamp_ns);
        if arrivals.is_complete() {
            Seen::Last
        } else if fresh {
            Seen::Fresh
        } else {
            Seen::Other
        }
    })?;
    Ok(Report {
        bytes: arrivals.received() * u64::from(shape.payload_bytes()),
        seconds: arrivals.span_s(),
        bursts: arrivals.bursts().iter().map(Burst::from).collect(),
        ..packets.report()
    })
}

impl From<&BurstArrivals> for Burst {
    fn from(burst: &BurstArrivals) -> Self {
        let BurstArrivals {
            received,
            first_seq,
            last_seq,
            span_s,
        } = *burst;
        Self {
            received,
            first_seq,
            last_seq,
            span_s,
        }
    }
}

impl From<&Burst> for BurstArrivals {
    fn from(burst: &Burst) -> Self {
        let Burst {
            received,
            first_seq,
            last_seq,
            span_s,
        } = *burst;
        Self {
            received,
            first_seq,
            last_seq,
            span_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bursts: &[(u32, u32, u32, f64)]) -> Report {
        let burst = |&(received, first_seq, last_seq, span_s): &(u32, u32, u32, f64)| Burst {
            received,
            first_seq,
            last_seq,
            span_s,
        };
        Report {
            bursts: bursts.iter().map(burst).collect(),
            hops: 3,
            overflow: 1,
            ..Report::default()
        }
    }

    #[test]
    fn a_report_is_judged_as_choreo_does() {
        let shape = Shape::new(2, 11, 1000, 0.0).unwrap();
        let (result, error) = judge(
            report(&[(11, 0, 10, 0.001), (9, 1, 10, 0.0009)]),
            shape,
            22,
            0.001,
            1448,
        );
        assert_eq!((result.sent, result.received, result.overflow), (22, 20, 1));
        assert!((result.rate_bps / (8.0 * 1000.0 * 20.0 / 0.002) - 1.0).abs() < 1e-9);
        // Two packets are missing, one of them dropped by the receiver's own buffer.
        let bound = 8.0 * 1448.0 * 1.5f64.sqrt() / (0.001 * (1.0f64 / 22.0).sqrt());
        assert!((result.mathis_bps / bound - 1.0).abs() < 1e-9);
        assert!(error.is_none());
    }

    #[test]
    fn a_train_that_never_came_has_no_rate() {
        let shape = Shape::new(2, 11, 1000, 0.0).unwrap();
        let (result, error) = judge(report(&[(0, 0, 0, 0.0), (1, 5, 5, 0.0)]), shape, 22, 0.001, 1448);
        assert!(matches!(error, Some(WorkError::NoRate { sent: 22, received: 1 })));
        assert!(result.rate_bps.abs() < f64::EPSILON);
    }

    #[test]
    fn a_report_that_lies_wildly_is_survived() {
        let shape = Shape::new(1, 11, 1000, 0.0).unwrap();
        let wild = report(&[(u32::MAX, u32::MAX, 0, f64::NAN), (u32::MAX, 0, u32::MAX, -1.0)]);
        assert!(judge(wild, shape, 11, 0.001, 1448).1.is_some());
    }
}
