//! Bulk probes by the hosts' own iperf3, as a second opinion. The receiver starts a server for one test, the sender a
//! client; both end with the authenticated connection that agreed on them, and so with the session.

use std::net::IpAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::bulk;
use crate::contract::agents::ProbeReply;
use crate::contract::agents::probe_reply;
use crate::contract::data::{IperfReady, IperfWork, hello::Work};
use crate::dial::{Connection, dial};
use crate::error::{WorkError, within};
use crate::handshake::Channel;
use crate::iperf_report::{self, Told};
use crate::ping;
use crate::plane::Plane;
use crate::session::Session;

const PROGRAM: &str = "iperf3";
/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(5);
/// How long a test may go on after its time.
const TAIL: Duration = Duration::from_secs(20);
/// Most that iperf3 may print.
const MAX_OUTPUT_BYTES: u64 = 4 << 20;
/// A rate above what any host sends; a budget that allows more needs no limit.
const NO_LIMIT_BPS: f64 = 1e12;

/// Runs a bulk probe by iperf3.
///
/// # Errors
/// When the peer cannot be reached, iperf3 is missing or too old on either side, or the test fails.
pub async fn send(
    plane: &Arc<Plane>,
    session: &Session,
    probe: &bulk::Probe<'_>,
    reply: &mut ProbeReply,
    bytes_sent: &mut u64,
) -> Result<(), WorkError> {
    let time = probe.plan.time();
    let budget = &session.budget;
    let left = budget.cap().saturating_sub(budget.taken());
    drop(budget.reserve(1)?);
    let work = Work::Iperf(IperfWork {
        round: probe.round,
        seconds: time.as_secs_f64(),
    });
    let mut connection = dial(plane, session, probe.peer, "", work, probe.wait).await?;
    reply.rtt_s = ping::round_trip_s(&mut connection.stream).await?;
    let Connection { stream, channel, .. } = &mut connection;
    let ready: IperfReady = within("wait for the peer's iperf3", 2 * START_LIMIT, channel.receive(stream)).await?;
    if !ready.error.is_empty() {
        return Err(WorkError::Receiver(ready.error));
    }
    let mut command = program();
    command.args(["-c", &probe.peer.ip().to_string(), "-p", &ready.port.to_string()]);
    command.args(["-t", &format!("{:.3}", time.as_secs_f64())]);
    command.args(["-P", &probe.plan.flows().to_string(), "-i", "0", "-J"]);
    if let Some(source) = plane.source() {
        command.args(["-B", &source.to_string()]);
    }
    if !probe.plan.congestion().is_empty() {
        command.args(["-C", probe.plan.congestion()]);
    }
    let most_bps = 8.0 * left as f64 / time.as_secs_f64() / f64::from(probe.plan.flows());
    if most_bps < NO_LIMIT_BPS {
        command.args(["-b", &format!("{most_bps:.0}")]);
    }
    let Told {
        result,
        sent_bytes,
        sender_cpu,
        receiver_cpu,
    } = within("run iperf3", time + TAIL, test(command)).await?;
    *bytes_sent = sent_bytes;
    if let Ok(mut spent) = budget.reserve(sent_bytes.min(left)) {
        spent.spend(sent_bytes.min(left));
    }
    reply.sender_cpu = sender_cpu;
    reply.receiver_cpu = receiver_cpu;
    reply.result = Some(probe_reply::Result::Bulk(result));
    Ok(())
}

async fn test(mut command: Command) -> Result<Told, WorkError> {
    let mut child = spawn(&mut command)?;
    let (out, err) = tokio::join!(text(child.stdout.take()), text(child.stderr.take()));
    let status = child.wait().await.map_err(WorkError::io("wait for iperf3"))?;
    // With -J what went wrong is in the report, and old versions leave with status 0.
    iperf_report::read(&out).map_err(|problem| {
        let said = [problem.as_str(), last_line(&err)];
        let said: Vec<_> = said.into_iter().filter(|text| !text.is_empty()).collect();
        let how = if status.success() { "" } else { " failed" };
        WorkError::Request(format!("iperf3{how}: {}", said.join("; ")))
    })
}

/// Serves one test to the other side of a connection whose pings are done.
///
/// # Errors
/// When the connection fails or the test takes too long.
pub async fn serve(mut stream: TcpStream, mut channel: Channel, time: Duration) -> Result<(), WorkError> {
    let own = stream
        .local_addr()
        .map_err(WorkError::io("read the own address"))?
        .ip()
        .to_canonical();
    let (ready, child) = match within("start iperf3", START_LIMIT, listen(own)).await {
        Ok((port, child)) => {
            let ready = IperfReady {
                port: port.into(),
                error: String::new(),
            };
            (ready, Some(child))
        }
        Err(error) => {
            let ready = IperfReady {
                port: 0,
                error: error.to_string(),
            };
            (ready, None)
        }
    };
    channel.send(&mut stream, &ready).await?;
    // The other side says nothing more and hangs up when it has its report; what runs then is killed.
    let mut rest = [0];
    let end = async {
        let _ = stream.read(&mut rest).await;
        Ok::<_, WorkError>(())
    };
    within("serve iperf3", time + TAIL, end).await?;
    drop(child);
    Ok(())
}

/// Starts a server on a port that is free at `own`.
async fn listen(own: IpAddr) -> Result<(u16, Child), WorkError> {
    let free = TcpListener::bind((own, 0))
        .await
        .map_err(WorkError::io("find a port"))?;
    let port = free.local_addr().map_err(WorkError::io("find a port"))?.port();
    drop(free);
    let mut command = program();
    command.args(["-s", "-1", "--forceflush"]);
    command.args(["-B", &own.to_string(), "-p", &port.to_string()]);
    let mut child = spawn(&mut command)?;
    let mut lines = BufReader::new(child.stdout.take().unwrap_or_else(|| unreachable!("stdout is a pipe"))).lines();
    while let Some(line) = lines.next_line().await.map_err(WorkError::io("read from iperf3"))? {
        if line.contains("listening") {
            // What it prints later must not stop it.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok((port, child));
        }
    }
    let said = text(child.stderr.take()).await;
    Err(WorkError::Request(format!(
        "iperf3 does not listen: {}",
        last_line(&said)
    )))
}

fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

fn spawn(command: &mut Command) -> Result<Child, WorkError> {
    command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => WorkError::Request("this host has no iperf3; install it".into()),
        _ => WorkError::io("start iperf3")(error),
    })
}

async fn text(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn last_line(text: &str) -> &str {
    text.lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("")
}
