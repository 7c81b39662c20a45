//! Sends a packet train to a peer and receives one: bursts over UDP, everything else over the authenticated TCP
//! connection. The bursts run on blocking threads, which sleep and poll and never spin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::choreo::{self, BurstArrivals};
use gavotte_probe::drain::{Drain, MAX_DRAIN};
use gavotte_probe::packet::{Packet, PacketKey};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::sender::TrainSender;
use gavotte_probe::sockets::tcp;
use gavotte_probe::train::{Arrivals, Shape, ShapeError};
use tonic::async_trait;

use crate::contract::agents::{Burst, BurstTrain, BurstTrainResult, ProbeReply, probe_reply};
use crate::contract::data::Report;
use crate::error::WorkError;
use crate::hold::Hold;
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::work::cpu::Meter;
use crate::work::inbound::{Inbound, stamp_error};
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

/// Time a train's packets may take to leave, beside its pauses. A shaper on the sender's own host holds
/// them back at its rate.
const SEND_LIMIT: Duration = Duration::from_secs(60);
const REPORT_LIMIT: Duration = Duration::from_secs(15);

/// The key that the run's packets are sealed with.
pub(crate) fn key(hold: &Hold) -> PacketKey {
    PacketKey::derive(hold.secret.bytes())
}

impl TryFrom<&BurstTrain> for Shape {
    type Error = ShapeError;

    fn try_from(asked: &BurstTrain) -> Result<Self, ShapeError> {
        Self::new(asked.bursts, asked.packets, asked.payload_bytes, asked.gap_s)
    }
}

#[async_trait]
impl Ask for Shape {
    fn bytes(&self) -> u64 {
        self.total_bytes()
    }

    async fn ask(&self, call: &Call<'_>, mut connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let shape = *self;
        let (key, probe_id) = (key(call.hold), connection.probe_id);
        let sender = TrainSender::connect(call.plane.source(), call.peer, key, probe_id, shape)?;
        let (_leash, cut) = Leash::new();
        let limit = shape.pauses() + SEND_LIMIT;
        let sending = tokio::task::spawn_blocking(move || send_bursts(sender, shape, &cut, Instant::now() + limit));
        let (packets, sent) = sending.await.map_err(|_| WorkError::Over)?;
        reply.bytes_sent = packets * u64::from(shape.payload_bytes());
        let told = Report {
            bytes: reply.bytes_sent,
            error: sent.as_ref().err().map(ToString::to_string).unwrap_or_default(),
            ..Report::default()
        };
        connection.send(&told).await?;
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
        let mss_bytes = tcp::info(&connection.stream)?.mss_bytes;
        reply.hops = report.hops;
        reply.receiver_cpu = report.cpu;
        let (result, error) = judge(report, shape, packets, reply.rtt_s, mss_bytes);
        reply.result = Some(probe_reply::Result::BurstTrain(result));
        error.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Answer for Shape {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let (receiver, probe_id) = visit.await_train().await?;
        let (_leash, cut) = Leash::new();
        let meter = Meter::start();
        let done = Arc::new(AtomicBool::new(false));
        let limit = self.pauses() + SEND_LIMIT + MAX_DRAIN;
        let collector = Collector {
            inbound: Inbound::new(receiver, visit.guest.remote, self.payload_bytes()),
            key: key(&visit.guest.hold),
            probe_id,
            shape: *self,
            done: Arc::clone(&done),
            cut,
            deadline: Instant::now() + limit,
        };
        let collecting = tokio::task::spawn_blocking(move || collector.run());
        let connection = &mut visit.guest.connection;
        let sent: Report = connection.receive("wait for the train's end", limit).await?;
        if !sent.error.is_empty() {
            // The sender knows already; nothing is left to say.
            return Ok(());
        }
        done.store(true, Ordering::Relaxed);
        let mut report = match collecting.await.map_err(|_| WorkError::Over)? {
            Ok(report) => report,
            Err(error) => Report {
                error: error.to_string(),
                ..Report::default()
            },
        };
        report.cpu = meter.share();
        connection.send(&report).await
    }
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
            // The pause counts from the end of the burst before; making the packets ready is part of it.
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
    };
    let error = rate_bps.is_none().then_some(WorkError::NoRate { sent, received });
    (result, error)
}

struct Collector {
    inbound: Inbound,
    key: PacketKey,
    probe_id: u64,
    shape: Shape,
    done: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    deadline: Instant,
}

impl Collector {
    fn run(mut self) -> Result<Report, SocketError> {
        let mut arrivals = Arrivals::new(self.shape);
        let mut drain = Drain::new(self.deadline);
        let mut unstamped = 0u64;
        while !arrivals.is_complete() && !self.cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            if self.done.load(Ordering::Relaxed) {
                drain.sender_done(now);
            }
            let Some(until) = drain.listen(now) else {
                break;
            };
            let mut count = 0;
            self.inbound.read(until, |bytes, stamp_ns, _| {
                let packet = Packet::read(&self.key, bytes).ok();
                let Some(packet) = packet.filter(|packet| packet.probe_id == self.probe_id) else {
                    return false;
                };
                let Some(stamp_ns) = stamp_ns else {
                    unstamped += 1;
                    return false;
                };
                let fresh = arrivals.record(packet.burst, packet.seq, stamp_ns);
                count += u32::from(fresh);
                fresh
            })?;
            if count > 0 {
                drain.packets_came(Instant::now(), count);
            }
        }
        Ok(Report {
            bytes: arrivals.received() * u64::from(self.shape.payload_bytes()),
            seconds: arrivals.span_s(),
            bursts: arrivals.bursts().iter().map(Burst::from).collect(),
            hops: self.inbound.hops(),
            overflow: self.inbound.overflow(),
            error: stamp_error(unstamped),
            ..Report::default()
        })
    }
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
        // Of two packets missing, one was dropped by the receiver's own buffer.
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
