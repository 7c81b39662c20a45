//! Bulk probes by the hosts' own iperf3, as a second opinion. The receiver starts a server for one test, the sender a
//! client; both end with the authenticated connection that agreed on them, and so with the hold.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tonic::async_trait;
use tracing::{debug, warn};

use crate::contract::agents::{Bulk, ProbeReply, probe_reply};
use crate::contract::data::IperfReady;
use crate::error::{WorkError, within};
use crate::plane::dial::{Call, Connection};
use crate::work::bulk;
use crate::work::iperf_report::{self, Told};
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

const PROGRAM: &str = "iperf3";
/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(5);
/// How long a test may go on after its time.
const TAIL: Duration = Duration::from_secs(20);
/// Most that iperf3 may print.
const MAX_OUTPUT_BYTES: u64 = 4 << 20;
/// A rate above what any host sends; a budget that allows more needs no limit.
const NO_LIMIT_BPS: f64 = 1e12;

/// A checked bulk probe by iperf3.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec(bulk::Spec);

impl Spec {
    /// Checks a probe's parameters.
    ///
    /// # Errors
    /// Text that names the parameter out of range.
    pub fn new(asked: &Bulk) -> Result<Self, WorkError> {
        bulk::Spec::new(asked).map(Self)
    }

    fn client(&self, call: &Call<'_>, port: u32, left: u64) -> Command {
        let (seconds, flows) = (self.0.time().as_secs_f64(), self.0.flows());
        let mut command = program();
        command.args(["-c", &call.peer.ip().to_string(), "-p", &port.to_string()]);
        command.args(["-t", &format!("{seconds:.3}")]);
        command.args(["-P", &flows.to_string(), "-i", "0", "-J"]);
        if let Some(source) = call.plane.source() {
            command.args(["-B", &source.to_string()]);
        }
        if !self.0.congestion_control().is_empty() {
            command.args(["-C", self.0.congestion_control()]);
        }
        let most_bps = 8.0 * left as f64 / seconds / f64::from(flows);
        if most_bps < NO_LIMIT_BPS {
            command.args(["-b", &format!("{most_bps:.0}")]);
        }
        command
    }
}

#[async_trait]
impl Ask for Spec {
    async fn ask(&self, call: &Call<'_>, mut connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let budget = &call.hold.budget;
        let left = budget.cap().saturating_sub(budget.taken());
        drop(budget.reserve(1)?);
        let ready: IperfReady = connection
            .receive("wait for the peer's iperf3", 2 * START_LIMIT)
            .await?;
        if !ready.error.is_empty() {
            return Err(WorkError::Receiver(ready.error));
        }
        let testing = test(self.client(call, ready.port, left));
        let Told {
            result,
            sent_bytes,
            sender_cpu,
            receiver_cpu,
        } = within("run iperf3", self.0.time() + TAIL, testing).await?;
        reply.bytes_sent = sent_bytes;
        if let Ok(mut spent) = budget.reserve(sent_bytes.min(left)) {
            spent.spend(sent_bytes.min(left));
        }
        reply.sender_cpu = sender_cpu;
        reply.receiver_cpu = receiver_cpu;
        reply.result = Some(probe_reply::Result::Bulk(result));
        Ok(())
    }
}

/// Serves one test; the server ends with the connection.
#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.warm_up().await?;
        let connection = &mut visit.guest.connection;
        let own = connection.stream.local_addr();
        let own = own.map_err(WorkError::io("read the own address"))?.ip().to_canonical();
        let (port, error, server) = match within("start iperf3", START_LIMIT, listen(own)).await {
            Ok((port, server)) => (port.into(), String::new(), Some(server)),
            Err(error) => (0, error.to_string(), None),
        };
        connection.send(&IperfReady { port, error }).await?;
        // The other side says nothing more and hangs up when it has its report; what runs then is killed.
        let mut rest = [0];
        let end = async {
            // A connection that breaks has hung up, too.
            let _ = connection.stream.read(&mut rest).await;
            Ok::<_, WorkError>(())
        };
        within("serve iperf3", self.0.time() + TAIL, end).await?;
        if let Some(mut server) = server
            && let Ok(Some(status)) = server.try_wait()
            && !status.success()
        {
            // The client only knows that its connection broke.
            let said = text(server.stderr.take()).await;
            warn!(%status, said = last_line(&said), "iperf3 failed as a server");
        }
        Ok(())
    }
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
        std::io::ErrorKind::NotFound => WorkError::Lacking(PROGRAM),
        _ => WorkError::io("start iperf3")(error),
    })
}

async fn text(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe
        && let Err(error) = pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await
    {
        debug!(%error, "cannot read what iperf3 says");
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
