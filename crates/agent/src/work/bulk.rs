//! One bulk TCP probe: parallel connections to a peer for a fixed time, like a tenant's transfer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::mtu::{LEAST_V4_BYTES, MOST_BYTES};
use gavotte_probe::sockets::tcp;
use tokio::task::JoinSet;
use tonic::async_trait;

use crate::contract::agents::{Bulk, BulkResult, FlowResult, ProbeReply, Withheld, probe_reply};
use crate::contract::data::Report;
use crate::error::{WorkError, within};
use crate::hold::Hold;
use crate::plane::dial::{Call, Connection};
use crate::plane::several::SHORT;
use crate::plane::stream::{self, MAX_BINS};
use crate::work::cpu::Meter;
use crate::work::kind::{Answer, Ask};
use crate::work::ping;
use crate::work::sizing::confirm;
use crate::work::visit::Visit;

/// Longest duration of a probe.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// How long a stream may get no answer while other streams fill the path: a packet may be lost five times in a row.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long after the sender's time the first byte of a stream may arrive.
const TAIL: Duration = Duration::from_secs(30);
/// How long a sender may be silent, after the receiver's report, before the receiver closes the connection.
const DRAIN: Duration = Duration::from_secs(2);
/// Round trips until a connection carries what it will: at 60 Mbit/s and 150 ms, seven until the path is full, and as long
/// as that again until what overflowed its queue has been sent again.
const SETTLING_TRIPS: u32 = 12;
/// The longest such time.
const MOST_SETTLING: Duration = Duration::from_secs(5);
/// Largest number of parallel connections of one probe.
pub const MAX_FLOWS: u32 = 64;
/// How long after the sender's time the receiver's report may arrive.
const REPORT_LIMIT: Duration = Duration::from_secs(40);

/// A checked bulk probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    time: Duration,
    flows: u32,
    congestion: String,
    bin_s: f64,
    copy: bool,
    settled: bool,
    /// Largest number of bytes of one connection.
    flow_bytes: u64,
}

impl Spec {
    /// Checks a probe's parameters; 0 flows mean one.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(bulk: &Bulk) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        let time = Duration::try_from_secs_f64(bulk.seconds).unwrap_or_default();
        if time.is_zero() || time > MAX_TIME {
            return refuse(format!(
                "bulk.seconds: above 0 and at most an hour, not {}",
                bulk.seconds
            ));
        }
        if bulk.flows > MAX_FLOWS {
            return refuse(format!("bulk.flows: at most {MAX_FLOWS}, not {}", bulk.flows));
        }
        let sound = bulk.bin_s == 0.0 || (bulk.bin_s > 0.0 && bulk.seconds / bulk.bin_s <= MAX_BINS as f64);
        if !sound {
            return refuse(format!("bulk.bin_s: 0, or at most {MAX_BINS} bins, not {}", bulk.bin_s));
        }
        if bulk.mtu_bytes != 0 && !(LEAST_V4_BYTES..=MOST_BYTES).contains(&bulk.mtu_bytes) {
            return refuse(format!(
                "bulk.mtu_bytes: 0, or {LEAST_V4_BYTES} to {MOST_BYTES}, not {}",
                bulk.mtu_bytes
            ));
        }
        Ok(Self {
            time,
            flows: bulk.flows.max(1),
            congestion: bulk.congestion.clone(),
            bin_s: bulk.bin_s,
            copy: bulk.copy,
            settled: bulk.settled,
            flow_bytes: match bulk.max_bytes {
                0 => u64::MAX,
                most => most.div_ceil(u64::from(bulk.flows.max(1))),
            },
        })
    }

    /// Duration of the probe.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// How long TCP may take to fill a path of this round trip, if that time does not count.
    fn settling(&self, round_trip: Duration) -> Duration {
        if !self.settled || round_trip < SHORT {
            return Duration::ZERO;
        }
        (SETTLING_TRIPS * round_trip).min(MOST_SETTLING)
    }

    /// Number of connections.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// The congestion control to use; empty for the host's default.
    pub fn congestion_control(&self) -> &str {
        &self.congestion
    }

    /// The congestion control to use; empty for the host's default.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }
}

#[async_trait]
impl Ask for Spec {
    fn congestion(&self) -> Option<&str> {
        Some(&self.congestion)
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    async fn ask(&self, call: &Call<'_>, first: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let mut connections = vec![first];
        for _ in 1..self.flows {
            let mut next = call.dial().await?;
            ping::round_trip_s(&mut next.stream).await?;
            connections.push(next);
        }
        let settling = self.settling(connections[0].round_trip);
        let (began, round_trip) = (Instant::now(), connections[0].round_trip);
        let (until, most_bytes) = (began + settling + self.time, self.flow_bytes);
        let before_bytes = tcp::info(&connections[0].stream)?.mtu_bytes;
        let mut flows = JoinSet::new();
        for (index, connection) in connections.into_iter().enumerate() {
            let hold = Arc::clone(call.hold);
            flows.spawn(async move {
                let mut sent = 0;
                let result = flow(&hold, connection, until, most_bytes, &mut sent).await;
                (index, sent, result)
            });
        }
        let mut results = Vec::new();
        let mut failure = None;
        while let Some(ended) = flows.join_next().await {
            let (index, sent, result) = ended.map_err(|_| WorkError::Over)?;
            reply.bytes_sent += sent;
            match result {
                Ok(flow) => results.push((index, flow)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // Within a host no packet is too long.
        let outside = before_bytes <= MOST_BYTES;
        if outside && failure.is_none() && results.iter().any(|(_, (_, end))| end.stalled) {
            confirm(call, before_bytes, began, round_trip).await?;
        }
        // A search that `stalls` began ends first.
        drop(call.plane.mtus.turn(call.peer.ip()).await);
        let known_bytes = call.plane.mtus.get(call.peer.ip());
        let after_bytes = results
            .iter()
            .map(|(_, (_, end))| end.mtu_bytes)
            .chain(known_bytes)
            .min();
        // The rate would be a mean of those before and after.
        if outside && after_bytes.is_some_and(|after_bytes| after_bytes < before_bytes) {
            return Err(WorkError::Shrunk {
                mtu_bytes: before_bytes,
            });
        }
        if let Some(error) = failure {
            return Err(error);
        }
        results.sort_by_key(|(index, _)| *index);
        let (flows, ends): (Vec<_>, Vec<_>) = results.into_iter().map(|(_, flow)| flow).unzip();
        let flows = since_the_first(flows);
        reply.mtu_bytes = after_bytes.unwrap_or(0);
        // All flows observed the same cores at the same time.
        reply.receiver_cpu = ends.iter().filter_map(|end| end.cpu).reduce(f64::max);
        let gap_s = |withheld: &Withheld| withheld.throttled_s.max(withheld.stolen_s);
        let withheld = ends.into_iter().filter_map(|end| end.withheld);
        reply.receiver_withheld = withheld.max_by(|one, other| gap_s(one).total_cmp(&gap_s(other)));
        reply.result = Some(probe_reply::Result::Bulk(sum(flows)));
        Ok(())
    }
}

#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.warm_up().await?;
        // The stream begins after all flows of the probe have sent their hello, which takes a while.
        let settling = self.settling(visit.guest.connection.round_trip);
        let limit = ping::LIMIT + settling + self.time + TAIL;
        let meter = Meter::start();
        let receiving = stream::receive_for(
            &visit.guest.connection.stream,
            (settling, self.time),
            self.bin_s,
            self.copy,
        );
        let counter = within("receive the stream", limit, receiving).await?;
        let report = Report {
            cpu: meter.share(),
            withheld: Some(meter.withheld()),
            ..counter.report()
        };
        visit.guest.connection.send(&report).await?;
        // Closing with unread bytes would reset the connection, and the report would be lost.
        let left = stream::drain(&visit.guest.connection.stream, DRAIN);
        let _ = tokio::time::timeout(TAIL, left).await;
        Ok(())
    }
}

/// What one flow shows of its path and its receiver.
struct FlowEnd {
    cpu: Option<f64>,
    withheld: Option<Withheld>,
    mtu_bytes: u32,
    /// Whether its last segments were still being sent again.
    stalled: bool,
}

async fn flow(
    hold: &Hold,
    mut connection: Connection,
    until: Instant,
    most_bytes: u64,
    bytes_sent: &mut u64,
) -> Result<(FlowResult, FlowEnd), WorkError> {
    let mut reservation = hold.budget.reserve(0)?;
    let sent = stream::send_until(&mut connection.stream, &mut reservation, until, most_bytes, bytes_sent).await;
    drop(reservation);
    sent?;
    let waiting = connection.receive("wait for the receiver's report", REPORT_LIMIT);
    let report: Report = waiting.await?;
    let info = tcp::info(&connection.stream)?;
    let result = FlowResult {
        bytes: report.bytes,
        seconds: report.seconds,
        bin_bytes: report.bin_bytes,
        retransmits: info.retransmits,
        rtt_s: info.rtt_s,
        congestion: tcp::congestion(&connection.stream)?,
        cwnd_bytes: info.cwnd_bytes,
        min_rtt_s: info.min_rtt_s,
        delivery_rate_bps: info.delivery_rate_bps,
        // By the receiver's clock, until the starts of all flows are known.
        started_s: report.first_s,
        segment_bytes: info.mss_bytes,
    };
    // Bytes that are still in the kernel are no longer needed.
    connection
        .stream
        .set_zero_linger()
        .map_err(WorkError::io("end the stream"))?;
    let end = FlowEnd {
        cpu: report.cpu,
        withheld: report.withheld,
        mtu_bytes: info.mtu_bytes,
        stalled: info.timeouts > 0,
    };
    Ok((result, end))
}

/// Makes all starts relative to the earliest one.
fn since_the_first(mut flows: Vec<FlowResult>) -> Vec<FlowResult> {
    let first = flows.iter().map(|flow| flow.started_s).fold(f64::INFINITY, f64::min);
    for flow in &mut flows {
        flow.started_s -= first;
    }
    flows
}

/// Divides all bytes by the time from the first byte to the last of any flow. A flow that starts late also ends late.
/// Dividing by the longest flow's own time gave ten flows 4 % more than the link carries.
fn sum(flows: Vec<FlowResult>) -> BulkResult {
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let ends = flows.iter().map(|flow| flow.started_s + flow.seconds);
    let seconds = ends.fold(0.0, f64::max);
    let goodput_bps = if seconds > 0.0 {
        8.0 * bytes as f64 / seconds
    } else {
        0.0
    };
    BulkResult { goodput_bps, flows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk() -> Bulk {
        Bulk {
            seconds: 1.0,
            flows: 0,
            congestion: String::new(),
            bin_s: 0.01,
            engine: 0,
            copy: false,
            max_bytes: 0,
            settled: false,
            mtu_bytes: 0,
        }
    }

    #[test]
    fn a_far_path_has_round_trips_to_settle() {
        let settling = |settled, ms| {
            let spec = Spec::new(&Bulk { settled, ..bulk() }).unwrap();
            spec.settling(Duration::from_millis(ms)).as_millis()
        };
        assert_eq!(
            [settling(true, 150), settling(true, 3), settling(true, 1000)],
            [1800, 0, 5000]
        );
        assert_eq!(settling(false, 150), 0);
    }

    #[test]
    fn a_byte_limit_is_shared_by_the_connections() {
        let most = |max_bytes, flows| {
            let bulk = Bulk {
                flows,
                max_bytes,
                ..bulk()
            };
            Spec::new(&bulk).unwrap().flow_bytes
        };
        assert_eq!([most(0, 4), most(100, 0), most(101, 4)], [u64::MAX, 100, 26]);
    }

    #[test]
    fn specs_out_of_range_are_named() {
        let refused = |bulk: Bulk| Spec::new(&bulk).unwrap_err().to_string();
        for seconds in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(refused(Bulk { seconds, ..bulk() }).contains("seconds"));
        }
        for mtu_bytes in [1, 575, 10_000] {
            assert!(refused(Bulk { mtu_bytes, ..bulk() }).contains("mtu_bytes"));
        }
        assert!(refused(Bulk { flows: 65, ..bulk() }).contains("flows"));
        for bin_s in [-1.0, 1e-6, f64::NAN] {
            assert!(refused(Bulk { bin_s, ..bulk() }).contains("bin_s"));
        }
        assert_eq!(Spec::new(&bulk()).unwrap().flows, 1);
    }

    #[test]
    fn goodput_is_from_the_first_byte_of_any_flow_to_the_last() {
        let flow = |bytes, started_s, seconds| FlowResult {
            bytes,
            seconds,
            started_s,
            ..FlowResult::default()
        };
        let total = |flows| sum(since_the_first(flows)).goodput_bps;
        assert!((total(vec![flow(1000, 7.0, 1.0), flow(3000, 7.0, 2.0)]) - 16_000.0).abs() < 1e-6);
        // The second starts and ends half a second late.
        assert!((total(vec![flow(3000, 7.0, 2.0), flow(2000, 7.5, 2.0)]) - 16_000.0).abs() < 1e-6);
        assert!(total(vec![flow(0, 0.0, 0.0)]).abs() < f64::EPSILON);
    }
}
