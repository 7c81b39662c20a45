//! One bulk TCP probe: some parallel connections to a peer for a fixed time, as a tenant's transfer would use them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use tokio::task::JoinSet;

use crate::contract::agents::{Bulk, BulkResult, FlowResult};
use crate::contract::data::{Report, StreamWork, hello::Work};
use crate::dial::{Connection, dial};
use crate::error::{WorkError, within};
use crate::listener::stream_time;
use crate::ping;
use crate::plane::Plane;
use crate::session::Session;
use crate::stream::{self, MAX_BINS};

/// Most parallel connections of one probe.
pub const MAX_FLOWS: u32 = 64;
/// How long after the sender's time the last byte may be confirmed.
const REPORT_LIMIT: Duration = Duration::from_secs(40);

/// A checked bulk probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    time: Duration,
    flows: u32,
    congestion: String,
    bin_s: f64,
}

/// A plan with its place in the schedule.
#[derive(Clone, Copy, Debug)]
pub struct Probe<'a> {
    /// What to do.
    pub plan: &'a Plan,
    /// Whom to do it with.
    pub peer: SocketAddr,
    /// In which round.
    pub round: u32,
    /// How long the peer may take to be ready.
    pub wait: Duration,
}

impl Plan {
    /// Checks a probe's parameters; 0 flows mean one.
    ///
    /// # Errors
    /// Text that names the parameter out of range.
    pub fn new(bulk: &Bulk) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        let Some(time) = stream_time(bulk.seconds) else {
            return refuse(format!(
                "bulk.seconds: above 0 and at most an hour, not {}",
                bulk.seconds
            ));
        };
        if bulk.flows > MAX_FLOWS {
            return refuse(format!("bulk.flows: at most {MAX_FLOWS}, not {}", bulk.flows));
        }
        let sound = bulk.bin_s == 0.0 || (bulk.bin_s > 0.0 && bulk.seconds / bulk.bin_s <= MAX_BINS as f64);
        if !sound {
            return refuse(format!("bulk.bin_s: 0, or at most {MAX_BINS} bins, not {}", bulk.bin_s));
        }
        Ok(Self {
            time,
            flows: bulk.flows.max(1),
            congestion: bulk.congestion.clone(),
            bin_s: bulk.bin_s,
        })
    }

    /// How long it lasts.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// How many connections.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// The congestion control to pin; empty for the host's default.
    pub fn congestion(&self) -> &str {
        &self.congestion
    }

    /// What the receiver is asked for on each connection.
    pub fn work(&self, round: u32) -> Work {
        Work::Stream(StreamWork {
            round,
            bytes: 0,
            seconds: self.time.as_secs_f64(),
            bin_s: self.bin_s,
        })
    }
}

/// Runs the probe over `first`, whose pings are done, and as many further connections as the plan says. Returns also
/// the busy share of the receiver's cores, if it is known.
///
/// # Errors
/// When any of the flows fails. `bytes_sent` counts what left even then.
pub async fn send(
    plane: &Arc<Plane>,
    session: &Arc<Session>,
    probe: &Probe<'_>,
    first: Connection,
    bytes_sent: &mut u64,
) -> Result<(BulkResult, Option<f64>), WorkError> {
    let Probe {
        plan,
        peer,
        round,
        wait,
    } = *probe;
    let mut connections = vec![first];
    for _ in 1..plan.flows {
        let mut next = dial(plane, session, peer, &plan.congestion, plan.work(round), wait).await?;
        ping::round_trip_s(&mut next.stream).await?;
        connections.push(next);
    }
    let until = Instant::now() + plan.time;
    let mut flows = JoinSet::new();
    for (index, connection) in connections.into_iter().enumerate() {
        let session = Arc::clone(session);
        flows.spawn(async move {
            let mut sent = 0;
            let result = flow(&session, connection, until, &mut sent).await;
            (index, sent, result)
        });
    }
    let mut results = Vec::new();
    let mut failure = None;
    while let Some(ended) = flows.join_next().await {
        let (index, sent, result) = ended.map_err(|_| WorkError::Over)?;
        *bytes_sent += sent;
        match result {
            Ok(flow) => results.push((index, flow)),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    results.sort_by_key(|(index, _)| *index);
    let (flows, cpus): (Vec<_>, Vec<_>) = results.into_iter().map(|(_, told)| told).unzip();
    // All flows watched the same cores at the same time.
    let receiver_cpu = cpus.into_iter().flatten().reduce(f64::max);
    Ok((sum(flows), receiver_cpu))
}

async fn flow(
    session: &Session,
    connection: Connection,
    until: Instant,
    bytes_sent: &mut u64,
) -> Result<(FlowResult, Option<f64>), WorkError> {
    let Connection {
        mut stream,
        mut channel,
        ..
    } = connection;
    let mut reservation = session.budget.reserve(0)?;
    let sent = stream::send_until(&mut stream, &mut reservation, until, bytes_sent).await;
    drop(reservation);
    sent?;
    let report: Report = within(
        "wait for the last byte's confirmation",
        REPORT_LIMIT,
        channel.receive(&mut stream),
    )
    .await?;
    let info = tcp::info(&stream)?;
    let result = FlowResult {
        bytes: report.bytes,
        seconds: report.seconds,
        bin_bytes: report.bin_bytes,
        retransmits: info.retransmits,
        rtt_s: info.rtt_s,
        congestion: tcp::congestion(&stream)?,
        cwnd_bytes: info.cwnd_bytes,
        min_rtt_s: info.min_rtt_s,
        delivery_rate_bps: info.delivery_rate_bps,
    };
    Ok((result, report.cpu))
}

/// All bytes over the longest flow's time.
fn sum(flows: Vec<FlowResult>) -> BulkResult {
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let seconds = flows.iter().map(|flow| flow.seconds).fold(0.0, f64::max);
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
        }
    }

    #[test]
    fn plans_out_of_range_are_named() {
        let refused = |bulk: Bulk| Plan::new(&bulk).unwrap_err().to_string();
        for seconds in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(refused(Bulk { seconds, ..bulk() }).contains("seconds"));
        }
        assert!(refused(Bulk { flows: 65, ..bulk() }).contains("flows"));
        for bin_s in [-1.0, 1e-6, f64::NAN] {
            assert!(refused(Bulk { bin_s, ..bulk() }).contains("bin_s"));
        }
        assert_eq!(Plan::new(&bulk()).unwrap().flows, 1);
    }

    #[test]
    fn goodput_is_over_the_longest_flow() {
        let flow = |bytes, seconds| FlowResult {
            bytes,
            seconds,
            ..FlowResult::default()
        };
        let total = sum(vec![flow(1000, 1.0), flow(3000, 2.0)]);
        assert!((total.goodput_bps - 16_000.0).abs() < 1e-6);
        assert!(sum(vec![flow(0, 0.0)]).goodput_bps.abs() < f64::EPSILON);
    }
}
