//! Sends packets to a peer at an even rate over UDP, or receives them: loss, order, jitter and one-way delays. The
//! packets have the format of a train's, and the receiver judges them by the kernel's timestamps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gavotte_probe::drain::MAX_DRAIN;
use gavotte_probe::packet::{HEADER_BYTES, MAX_PAYLOAD_BYTES, Packet, PacketKey};
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::path::Path;
use gavotte_probe::stream::Arrived;
use tonic::async_trait;

use crate::contract::agents::{Datagrams, DatagramsResult, ProbeReply, probe_reply};
use crate::contract::data::{Clock, Report};
use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::plane::stream::MAX_BINS;
use crate::work::collecting::{self, Packets, Seen};
use crate::work::kind::{Answer, Ask};
use crate::work::sizing::size;
use crate::work::visit::Visit;

/// Longest duration of a probe.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// Most packets of a probe; bounds the memory of its receiver.
const MAX_PACKETS: f64 = 50e6;
/// How long after its time the last packets of a probe may leave. A shaper on the sender's own host delays them.
const SEND_LIMIT: Duration = Duration::from_secs(60);
const REPORT_LIMIT: Duration = Duration::from_secs(15);
/// Number of times that the two hosts compare their clocks; the shortest round trip counts.
const COMPARISONS: usize = 8;
const COMPARE_LIMIT: Duration = Duration::from_secs(5);

/// A checked probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    time: Duration,
    rate_bps: f64,
    payload_bytes: u32,
    bin_s: f64,
}

impl Spec {
    /// Checks a probe's parameters.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(asked: Datagrams) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        let Datagrams {
            seconds,
            rate_bps,
            payload_bytes,
            bin_s,
        } = asked;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        if time.is_zero() || time > MAX_TIME {
            return refuse(format!("datagrams.seconds: above 0 and at most an hour, not {seconds}"));
        }
        if payload_bytes != 0 && !(HEADER_BYTES..=MAX_PAYLOAD_BYTES).contains(&(payload_bytes as usize)) {
            return refuse(format!(
                "datagrams.payload_bytes: 0, or {HEADER_BYTES} to {MAX_PAYLOAD_BYTES}, not {payload_bytes}"
            ));
        }
        // With the payload unknown, a small one is assumed.
        let packets = seconds * rate_bps / 8.0 / f64::from(payload_bytes.max(500));
        if !(rate_bps >= 1000.0 && packets <= MAX_PACKETS) {
            return refuse(format!(
                "datagrams.rate_bps: 1000 or more, and at most {MAX_PACKETS} packets, not {rate_bps}"
            ));
        }
        if !(bin_s == 0.0 || (bin_s > 0.0 && seconds / bin_s <= MAX_BINS as f64)) {
            return refuse(format!("datagrams.bin_s: 0, or at most {MAX_BINS} bins, not {bin_s}"));
        }
        Ok(Self {
            time,
            rate_bps,
            payload_bytes,
            bin_s,
        })
    }

    /// Payload of each packet on a path that carries packets with `most_bytes` of payload.
    fn payload_bytes(&self, most_bytes: u32) -> u32 {
        let asked = if self.payload_bytes == 0 {
            most_bytes
        } else {
            self.payload_bytes.min(most_bytes)
        };
        asked.max(HEADER_BYTES as u32)
    }
}

#[async_trait]
impl Ask for Spec {
    fn bytes(&self) -> u64 {
        (self.time.as_secs_f64() * self.rate_bps / 8.0) as u64 + MAX_PAYLOAD_BYTES as u64
    }

    async fn ask(&self, call: &Call<'_>, mut connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let (ahead_s, error_s) = compare(&mut connection).await?;
        let (path, path_mtu) = size(call, &connection).await?;
        (reply.mtu_bytes, reply.mtu_confirmed) = (path_mtu.bytes, path_mtu.confirmed);
        let payload_bytes = self.payload_bytes(path.family().payload_bytes(path_mtu.bytes));
        let (_leash, cut) = Leash::new();
        let stream = Stream {
            path,
            key: call.hold.secret.packet_key(),
            probe_id: connection.probe_id,
            spec: *self,
            payload_bytes,
        };
        let sending = tokio::task::spawn_blocking(move || stream.send(&cut));
        let (sent, failure) = sending.await.map_err(|_| WorkError::Over)?;
        reply.bytes_sent += sent * u64::from(payload_bytes);
        let sent_report = Report {
            bytes: reply.bytes_sent,
            error: failure.as_ref().err().map(ToString::to_string).unwrap_or_default(),
            ..Report::default()
        };
        connection.send(&sent_report).await?;
        failure?;
        let report: Report = connection
            .receive("wait for the report of the datagrams", REPORT_LIMIT)
            .await?;
        if !report.error.is_empty() {
            return Err(WorkError::Receiver(report.error));
        }
        reply.hops = report.hops;
        reply.receiver_cpu = report.cpu;
        reply.receiver_withheld = report.withheld;
        let result = DatagramsResult {
            sent,
            payload_bytes,
            clock_ahead_s: ahead_s,
            clock_error_s: error_s,
            ..report.datagrams.unwrap_or_default()
        };
        let blocked = result.received == 0 && result.overflow == 0;
        reply.result = Some(probe_reply::Result::Datagrams(result));
        WorkError::unheard(blocked, sent, call.peer).map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let (receiver, probe_id) = visit.await_train().await?;
        for _ in 0..COMPARISONS {
            let connection = &mut visit.guest.connection;
            let _: Clock = connection.receive("compare the clocks", COMPARE_LIMIT).await?;
            connection.send(&Clock { unix_ns: now_ns() }).await?;
        }
        let (limit, bin_s) = (self.time + SEND_LIMIT + MAX_DRAIN, self.bin_s);
        let operation = "wait for the end of the datagrams";
        collecting::answer(visit, (receiver, probe_id), operation, limit, move |packets| {
            collect(packets, bin_s)
        })
        .await
    }
}

/// Returns by how many seconds the peer's clock is ahead of this host's, and the error of that difference.
async fn compare(connection: &mut Connection) -> Result<(f64, f64), WorkError> {
    let mut best = (0.0, f64::INFINITY);
    for _ in 0..COMPARISONS {
        let (asked_ns, began) = (now_ns(), Instant::now());
        connection.send(&Clock { unix_ns: asked_ns }).await?;
        let clock: Clock = connection.receive("compare the clocks", COMPARE_LIMIT).await?;
        let half_s = began.elapsed().as_secs_f64() / 2.0;
        if half_s < best.1 {
            let since_s = (i128::from(clock.unix_ns) - i128::from(asked_ns)) as f64 / 1e9;
            best = (since_s - half_s, half_s);
        }
    }
    Ok(best)
}

fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_nanos() as u64)
}

/// The sending end.
struct Stream {
    path: Path,
    key: PacketKey,
    probe_id: u64,
    spec: Spec,
    payload_bytes: u32,
}

impl Stream {
    /// Sends each packet when it is due. Packets that a late wake-up has delayed follow each other at once.
    fn send(self, cut: &AtomicBool) -> (u64, Result<(), SocketError>) {
        let mut bytes = vec![0; self.payload_bytes as usize];
        let spacing_s = 8.0 * f64::from(self.payload_bytes) / self.spec.rate_bps;
        let begin = Instant::now();
        let mut sent: u64 = 0;
        loop {
            let due = begin + Duration::from_secs_f64(sent as f64 * spacing_s);
            let late = Instant::now().duration_since(begin);
            if due >= begin + self.spec.time || late >= self.spec.time + SEND_LIMIT / 2 || cut.load(Ordering::Relaxed) {
                return (sent, Ok(()));
            }
            let early = due.saturating_duration_since(Instant::now());
            if !early.is_zero() {
                std::thread::sleep(early);
            }
            let packet = Packet {
                probe_id: self.probe_id,
                burst: 0,
                seq: sent as u32,
                sent_ns: now_ns(),
            };
            // The payload has room for a header.
            let _ = packet.write(&self.key, &mut bytes);
            match self.path.send(&bytes) {
                Ok(true) => sent += 1,
                // The socket's buffer is full: the packet is still due.
                Ok(false) => {}
                Err(error) => return (sent, Err(error)),
            }
        }
    }
}

/// Records packets until their sender is done.
fn collect(mut packets: Packets, bin_s: f64) -> Result<Report, SocketError> {
    let mut arrived = Arrived::new(bin_s, MAX_BINS, MAX_PACKETS as u64);
    packets.record(|packet, piece| {
        if packet.burst != 0 {
            return Seen::Other;
        }
        let Some(stamp_ns) = piece.stamp_ns else {
            return Seen::Unstamped;
        };
        arrived.record(packet.seq, packet.sent_ns, stamp_ns, piece.payload_bytes);
        Seen::Fresh
    })?;
    let report = packets.report();
    let delays = arrived.delays();
    Ok(Report {
        bytes: arrived.bytes(),
        seconds: arrived.span_s(),
        datagrams: Some(DatagramsResult {
            received: arrived.received(),
            repeated: arrived.repeated(),
            late: arrived.late(),
            overflow: report.overflow,
            seconds: arrived.span_s(),
            jitter_s: arrived.jitter_s(),
            least_delay_s: delays.least_s,
            median_delay_s: delays.median_s,
            high_delay_s: delays.high_s,
            most_delay_s: delays.most_s,
            bin_bytes: arrived.into_bins(),
            ..DatagramsResult::default()
        }),
        ..report
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_out_of_range_are_named() {
        let sound = Datagrams {
            seconds: 1.0,
            rate_bps: 1e6,
            payload_bytes: 0,
            bin_s: 0.0,
        };
        let refused = |asked: Datagrams| Spec::new(asked).unwrap_err().to_string();
        for seconds in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(refused(Datagrams { seconds, ..sound }).contains("seconds"));
        }
        for rate_bps in [0.0, f64::NAN, f64::INFINITY, 1e15] {
            assert!(refused(Datagrams { rate_bps, ..sound }).contains("rate_bps"));
        }
        for payload_bytes in [1, 43, 70_000] {
            assert!(refused(Datagrams { payload_bytes, ..sound }).contains("payload_bytes"));
        }
        assert!(refused(Datagrams { bin_s: 1e-9, ..sound }).contains("bin_s"));
        let spec = Spec::new(sound).unwrap();
        assert_eq!(spec.payload_bytes(1472), 1472);
        let small = Spec::new(Datagrams {
            payload_bytes: 200,
            ..sound
        });
        assert_eq!(small.unwrap().payload_bytes(1472), 200);
    }
}
