//! Sends a packet train to a peer and receives one: bursts over UDP, everything else over the authenticated TCP
//! connection. The bursts run on blocking threads, which sleep and poll and never spin.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::choreo::{self, BurstArrivals};
use gavotte_probe::drain::{Drain, MAX_DRAIN};
use gavotte_probe::packet::{Packet, PacketKey};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::{self, TrainReceiver};
use gavotte_probe::sockets::sender::TrainSender;
use gavotte_probe::sockets::tcp;
use gavotte_probe::train::{Arrivals, Shape};
use tokio::net::TcpStream;
use tokio::sync::OwnedMutexGuard;

use crate::contract::agents::{Burst, BurstTrainResult};
use crate::contract::data::{Report, TrainBurst};
use crate::cpu::Meter;
use crate::dial::Connection;
use crate::error::{WorkError, within};
use crate::handshake::Channel;
use crate::leash::Leash;
use crate::plane::Plane;
use crate::session::Session;

/// Time a train's packets may take to leave, beside its pauses. A shaper on the sender's own host holds
/// them back at its rate.
const SEND_LIMIT: Duration = Duration::from_secs(60);
/// How often the receiving thread looks whether the sender is done.
const GLANCE: Duration = Duration::from_millis(5);
const REPORT_LIMIT: Duration = Duration::from_secs(15);

/// What a train told its sender.
#[derive(Debug)]
pub struct Outcome {
    /// Counts and rates.
    pub result: BurstTrainResult,
    /// Path length, 0 when unknown.
    pub hops: u32,
    /// Busy share of the receiver's cores, if it is known.
    pub receiver_cpu: Option<f64>,
    /// Why there is no rate, if there is none.
    pub error: Option<WorkError>,
}

/// The key that the run's packets are sealed with.
pub(crate) fn key(session: &Session) -> PacketKey {
    PacketKey::derive(session.secret.bytes())
}

/// Sends a train on a connection whose pings are done and reads the receiver's report. The bytes must have been reserved;
/// `rtt_s` and the connection's MSS go into the Mathis bound.
///
/// # Errors
/// When the train cannot be sent whole or the receiver does not report. How much was sent is in `bytes_sent` even then.
pub async fn send(
    plane: &Plane,
    session: &Session,
    peer: SocketAddr,
    shape: Shape,
    connection: Connection,
    rtt_s: f64,
    bytes_sent: &mut u64,
) -> Result<Outcome, WorkError> {
    let Connection {
        mut stream,
        mut channel,
        probe_id,
    } = connection;
    let sender = TrainSender::connect(plane.source(), peer, key(session), probe_id, shape)?;
    let (_leash, cut) = Leash::new();
    let limit = shape.pauses() + SEND_LIMIT;
    let sending = tokio::task::spawn_blocking(move || send_bursts(sender, shape, &cut, Instant::now() + limit));
    let (packets, sent) = sending.await.map_err(|_| WorkError::Over)?;
    *bytes_sent = packets * u64::from(shape.payload_bytes());
    let error = sent.as_ref().err().map(ToString::to_string).unwrap_or_default();
    channel
        .send(
            &mut stream,
            &Report {
                bytes: *bytes_sent,
                error,
                ..Report::default()
            },
        )
        .await?;
    sent?;
    if packets < shape.total_packets() {
        return Err(WorkError::Late {
            operation: "send the train",
            limit,
        });
    }
    let report: Report = within(
        "wait for the train's report",
        REPORT_LIMIT,
        channel.receive(&mut stream),
    )
    .await?;
    if !report.error.is_empty() {
        return Err(WorkError::Receiver(report.error));
    }
    let mss_bytes = tcp::info(&stream)?.mss_bytes;
    Ok(judge(&report, shape, packets, rtt_s, mss_bytes))
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

fn judge(report: &Report, shape: Shape, sent: u64, rtt_s: f64, mss_bytes: u32) -> Outcome {
    let bursts: Vec<Burst> = report.bursts.iter().map(reported).collect();
    let arrivals: Vec<BurstArrivals> = report.bursts.iter().map(BurstArrivals::from).collect();
    let received: u64 = bursts.iter().map(|burst| u64::from(burst.received)).sum();
    let rate_bps = choreo::rate_bps(&arrivals, shape.packets(), shape.payload_bytes());
    let loss = choreo::path_loss(sent, received, report.overflow);
    let result = BurstTrainResult {
        sent: sent as u32,
        received: received.min(sent) as u32,
        bursts,
        rate_bps: rate_bps.unwrap_or(0.0),
        mathis_bps: choreo::mathis_bps(mss_bytes, rtt_s, loss).unwrap_or(0.0),
        overflow: report.overflow,
    };
    let error = rate_bps.is_none().then_some(WorkError::NoRate { sent, received });
    Outcome {
        result,
        hops: report.hops,
        receiver_cpu: report.cpu,
        error,
    }
}

/// Receives a train on a connection whose pings are done and reports on it. `source` is where its packets must come
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
    shape: Shape,
) -> Result<(), WorkError> {
    let (_leash, cut) = Leash::new();
    let meter = Meter::start();
    let done = Arc::new(AtomicBool::new(false));
    let limit = shape.pauses() + SEND_LIMIT + MAX_DRAIN;
    let collector = Collector {
        receiver,
        key: key(session),
        source,
        probe_id,
        shape,
        done: Arc::clone(&done),
        cut,
        deadline: Instant::now() + limit,
    };
    let collecting = tokio::task::spawn_blocking(move || collector.run());
    let sent = within(
        "wait for the train's end",
        limit,
        channel.receive::<Report>(&mut stream),
    )
    .await?;
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
    channel.send(&mut stream, &report).await?;
    Ok(())
}

struct Collector {
    receiver: OwnedMutexGuard<TrainReceiver>,
    key: PacketKey,
    source: IpAddr,
    probe_id: u64,
    shape: Shape,
    done: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    deadline: Instant,
}

impl Collector {
    fn run(mut self) -> Result<Report, SocketError> {
        let overflow = self.receiver.overflow();
        let mut arrivals = Arrivals::new(self.shape);
        let mut drain = Drain::new(self.deadline);
        let mut hops = None;
        let mut unstamped = 0u64;
        while !arrivals.is_complete() && !self.cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            if self.done.load(Ordering::Relaxed) {
                drain.sender_done(now);
            }
            if now >= drain.stop_at() {
                break;
            }
            let mut count = 0;
            self.receiver.receive(drain.stop_at().min(now + GLANCE), |datagram| {
                if datagram.source != self.source || datagram.length != self.shape.payload_bytes() as usize {
                    return;
                }
                let Ok(packet) = Packet::read(&self.key, datagram.kept) else {
                    return;
                };
                if packet.probe_id != self.probe_id {
                    return;
                }
                let Some(stamp_ns) = datagram.stamp_ns else {
                    unstamped += 1;
                    return;
                };
                if arrivals.record(packet.burst, packet.seq, stamp_ns) {
                    count += 1;
                    hops = hops.or_else(|| datagram.ttl.and_then(receiver::hops));
                }
            })?;
            if count > 0 {
                drain.packets_came(Instant::now(), count);
            }
        }
        let error = match unstamped {
            0 => String::new(),
            _ => format!("{unstamped} packets came without a kernel stamp"),
        };
        Ok(Report {
            bytes: arrivals.received() * u64::from(self.shape.payload_bytes()),
            seconds: arrivals.span_s(),
            bursts: arrivals.bursts().iter().map(wire).collect(),
            hops: hops.unwrap_or(0),
            overflow: u64::from(self.receiver.overflow().wrapping_sub(overflow)),
            error,
            ..Report::default()
        })
    }
}

fn wire(burst: &BurstArrivals) -> TrainBurst {
    let BurstArrivals {
        received,
        first_seq,
        last_seq,
        span_s,
    } = *burst;
    TrainBurst {
        received,
        first_seq,
        last_seq,
        span_s,
    }
}

fn reported(burst: &TrainBurst) -> Burst {
    let TrainBurst {
        received,
        first_seq,
        last_seq,
        span_s,
    } = *burst;
    Burst {
        received,
        first_seq,
        last_seq,
        span_s,
    }
}

impl From<&TrainBurst> for BurstArrivals {
    fn from(burst: &TrainBurst) -> Self {
        let TrainBurst {
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
        let burst = |&(received, first_seq, last_seq, span_s): &(u32, u32, u32, f64)| TrainBurst {
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
        let outcome = judge(
            &report(&[(11, 0, 10, 0.001), (9, 1, 10, 0.0009)]),
            shape,
            22,
            0.001,
            1448,
        );
        let result = outcome.result;
        assert_eq!(
            (result.sent, result.received, result.overflow, outcome.hops),
            (22, 20, 1, 3)
        );
        assert!((result.rate_bps / (8.0 * 1000.0 * 20.0 / 0.002) - 1.0).abs() < 1e-9);
        // Of two packets missing, one was dropped by the receiver's own buffer.
        let bound = 8.0 * 1448.0 * 1.5f64.sqrt() / (0.001 * (1.0f64 / 22.0).sqrt());
        assert!((result.mathis_bps / bound - 1.0).abs() < 1e-9);
        assert!(outcome.error.is_none());
    }

    #[test]
    fn a_train_that_never_came_has_no_rate() {
        let shape = Shape::new(2, 11, 1000, 0.0).unwrap();
        let outcome = judge(&report(&[(0, 0, 0, 0.0), (1, 5, 5, 0.0)]), shape, 22, 0.001, 1448);
        assert!(matches!(
            outcome.error,
            Some(WorkError::NoRate { sent: 22, received: 1 })
        ));
        assert!(outcome.result.rate_bps.abs() < f64::EPSILON);
    }

    #[test]
    fn a_report_that_lies_wildly_is_survived() {
        let shape = Shape::new(1, 11, 1000, 0.0).unwrap();
        let wild = report(&[(u32::MAX, u32::MAX, 0, f64::NAN), (u32::MAX, 0, u32::MAX, -1.0)]);
        assert!(judge(&wild, shape, 11, 0.001, 1448).error.is_some());
    }
}
