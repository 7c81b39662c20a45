//! Bulk probes by the hosts' own iperf3, as a second opinion. The receiver starts a server for one test, the sender a
//! client. Both end with the authenticated connection that agreed on them, and therefore with the hold.
//!
//! Where the receiver had to make that connection, since it accepts none, the sender starts the server, and the
//! receiver a client that receives (`iperf3 -R`).

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use gavotte_probe::mtu::Family;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tonic::async_trait;
use tracing::{debug, warn};

use crate::contract::agents::{Bulk, ProbeReply, probe_reply};
use crate::contract::data::{IperfReady, IperfReport};
use crate::error::{WorkError, within};
use crate::plane::Plane;
use crate::plane::dial::{Call, Connection};
use crate::plane::zone;
use crate::work::bulk;
use crate::work::iperf_report::{self, TestReport};
use crate::work::kind::{Answer, Ask};
use crate::work::visit::Visit;

const PROGRAM: &str = "iperf3";
/// Ports of servers, as offsets from the data port. The port directly above the data port is for guarantees.
const FIRST_PORT: u16 = 2;
const PORTS: u16 = 16;
/// Number of servers started so far, so that two servers that start at the same time try different ports first.
static STARTED: AtomicU16 = AtomicU16::new(0);
/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(5);
/// How long a client may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long a test may continue after its time.
const TAIL: Duration = Duration::from_secs(20);
/// Largest output of iperf3 in bytes.
const MAX_OUTPUT_BYTES: u64 = 4 << 20;
/// A rate above that of any host; a budget that allows more needs no limit.
const NO_LIMIT_BPS: f64 = 1e12;

/// A checked bulk probe by iperf3.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec(bulk::Spec);

impl Spec {
    /// Checks a probe's parameters.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(asked: &Bulk) -> Result<Self, WorkError> {
        bulk::Spec::new(asked).map(Self)
    }

    fn client(&self, plane: &Plane, server: SocketAddr, most_bytes: u64) -> Command {
        // iperf3 knows whole seconds, and 0 is for ever.
        let (seconds, flows) = (self.0.time().as_secs_f64().ceil().max(1.0), self.0.flows());
        let mut command = program();
        command.args(["-c", &zone::host(server), "-p", &server.port().to_string()]);
        command.args(["--connect-timeout", &CONNECT_LIMIT.as_millis().to_string()]);
        command.args(["-t", &format!("{seconds:.0}")]);
        command.args(["-P", &flows.to_string(), "-i", "0", "-J"]);
        if let Some(source) = plane.source() {
            command.args(["-B", &source.to_string()]);
        }
        if !self.0.congestion_control().is_empty() {
            command.args(["-C", self.0.congestion_control()]);
        }
        if let Some(mtu_bytes) = plane.mtus.get(server.ip()) {
            let headers_bytes = Family::of(server.ip()).tcp_headers_bytes();
            command.args(["-M", &mtu_bytes.saturating_sub(headers_bytes).to_string()]);
        }
        let most_bps = 8.0 * most_bytes as f64 / seconds / f64::from(flows);
        if most_bps < NO_LIMIT_BPS {
            command.args(["-b", &format!("{most_bps:.0}")]);
        }
        command
    }

    /// Runs the client against the peer's server.
    async fn send(
        &self,
        call: &Call<'_>,
        connection: &mut Connection,
        most_bytes: u64,
    ) -> Result<TestReport, WorkError> {
        let ready: IperfReady = connection
            .receive("wait for the peer's iperf3", 2 * START_LIMIT)
            .await?;
        if !ready.error.is_empty() {
            return Err(WorkError::Receiver(ready.error));
        }
        let testing = test(self.client(call.plane, at_port(call.peer, ready.port)?, most_bytes));
        within("run iperf3", self.0.time() + TAIL, testing).await
    }

    /// Runs a server for the peer's client, which receives.
    async fn send_as_server(
        &self,
        call: &Call<'_>,
        connection: &mut Connection,
        most_bytes: u64,
    ) -> Result<TestReport, WorkError> {
        let own = own_address(&connection.stream)?;
        let (port, server) = within("start iperf3", START_LIMIT, listen(own, call.plane.port)).await?;
        let ready = IperfReady {
            port: port.into(),
            max_bytes: most_bytes,
            ..IperfReady::default()
        };
        connection.send(&ready).await?;
        let limit = self.0.time() + TAIL + START_LIMIT;
        let report: IperfReport = connection.receive("wait for the peer's iperf3", limit).await?;
        drop(server);
        if !report.error.is_empty() {
            return Err(WorkError::Receiver(report.error));
        }
        Ok(TestReport {
            result: report.result.unwrap_or_default(),
            sent_bytes: report.sent_bytes,
            sender_cpu: report.sender_cpu,
            receiver_cpu: report.receiver_cpu,
        })
    }

    /// Receives as a client of the server that the other side starts.
    async fn receive_as_client(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let guest = &mut visit.guest;
        let peer = guest.hold.peers.get(&guest.source)?;
        let ready: IperfReady = guest
            .connection
            .receive("wait for the peer's iperf3", 2 * START_LIMIT)
            .await?;
        let mut client = self.client(&guest.plane, at_port(peer, ready.port)?, ready.max_bytes);
        client.arg("-R");
        let report = match within("run iperf3", self.0.time() + TAIL, test(client)).await {
            Ok(report) => IperfReport {
                result: Some(report.result),
                sent_bytes: report.sent_bytes,
                sender_cpu: report.sender_cpu,
                receiver_cpu: report.receiver_cpu,
                error: String::new(),
            },
            Err(error) => IperfReport {
                error: error.to_string(),
                ..IperfReport::default()
            },
        };
        guest.connection.send(&report).await
    }
}

#[async_trait]
impl Ask for Spec {
    async fn ask(&self, call: &Call<'_>, mut connection: Connection, reply: &mut ProbeReply) -> Result<(), WorkError> {
        let budget = &call.hold.budget;
        let left = budget.cap().saturating_sub(budget.taken());
        drop(budget.reserve(1)?);
        let report = if is_accepted(call.plane, &connection.stream)? {
            self.send_as_server(call, &mut connection, left).await?
        } else {
            self.send(call, &mut connection, left).await?
        };
        let TestReport {
            result,
            sent_bytes,
            sender_cpu,
            receiver_cpu,
        } = report;
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

/// Serves one test. The server ends with the connection.
#[async_trait]
impl Answer for Spec {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        visit.warm_up().await?;
        if !is_accepted(&visit.guest.plane, &visit.guest.connection.stream)? {
            return self.receive_as_client(visit).await;
        }
        let connection = &mut visit.guest.connection;
        let own = own_address(&connection.stream)?;
        let data_port = visit.guest.plane.port;
        let (port, error, server) = match within("start iperf3", START_LIMIT, listen(own, data_port)).await {
            Ok((port, server)) => (port.into(), String::new(), Some(server)),
            Err(error) => (0, error.to_string(), None),
        };
        let ready = IperfReady {
            port,
            error,
            ..IperfReady::default()
        };
        connection.send(&ready).await?;
        // The other side sends nothing more and closes the connection when it has its report. A server that still runs
        // then is killed.
        let mut rest = [0];
        let end = async {
            // A broken connection is closed, too.
            let _ = connection.stream.read(&mut rest).await;
            Ok::<_, WorkError>(())
        };
        within("serve iperf3", self.0.time() + TAIL, end).await?;
        if let Some(mut server) = server
            && let Ok(Some(status)) = server.try_wait()
            && !status.success()
        {
            // The client only knows that its connection broke.
            let output = text(server.stderr.take()).await;
            warn!(%status, output = last_line(&output), "iperf3 failed as a server");
        }
        Ok(())
    }
}

/// Whether this agent has accepted a connection. Otherwise it has made the connection itself.
fn is_accepted(plane: &Plane, stream: &TcpStream) -> Result<bool, WorkError> {
    Ok(own_address(stream)?.port() == plane.port)
}

fn own_address(stream: &TcpStream) -> Result<SocketAddr, WorkError> {
    stream.local_addr().map_err(WorkError::io("read the own address"))
}

/// The address of a peer's server.
fn at_port(mut peer: SocketAddr, port: u32) -> Result<SocketAddr, WorkError> {
    peer.set_port(u16::try_from(port).map_err(|_| WorkError::Receiver(format!("{port} is no port")))?);
    Ok(peer)
}

async fn test(mut command: Command) -> Result<TestReport, WorkError> {
    let mut child = spawn(&mut command)?;
    let (out, err) = tokio::join!(text(child.stdout.take()), text(child.stderr.take()));
    let status = child.wait().await.map_err(WorkError::io("wait for iperf3"))?;
    // With -J the report contains the error, and old versions exit with status 0.
    iperf_report::read(&out).map_err(|problem| {
        let messages = [problem.as_str(), last_line(&err)];
        let messages: Vec<_> = messages.into_iter().filter(|text| !text.is_empty()).collect();
        let how = if status.success() { "" } else { " failed" };
        WorkError::Request(format!("iperf3{how}: {}", messages.join("; ")))
    })
}

/// Starts a server at `own`. It uses one of the ports that a firewall may leave open for it, or any free port if all of
/// them are in use.
async fn listen(own: SocketAddr, data_port: u16) -> Result<(u16, Child), WorkError> {
    let mut free = Err(std::io::ErrorKind::AddrInUse.into());
    let started = STARTED.fetch_add(1, Ordering::Relaxed);
    let offsets = (0..PORTS).map(|next| FIRST_PORT + (started.wrapping_add(next)) % PORTS);
    for port in offsets.filter_map(|offset| data_port.checked_add(offset)).chain([0]) {
        let mut place = own;
        place.set_port(port);
        free = TcpListener::bind(place).await;
        if free.is_ok() {
            break;
        }
    }
    let port = free
        .and_then(|free| free.local_addr())
        .map_err(WorkError::io("find a port"))?
        .port();
    let mut command = program();
    command.args(["-s", "-1", "--forceflush"]);
    command.args(["-B", &zone::host(own), "-p", &port.to_string()]);
    let mut child = spawn(&mut command)?;
    let mut lines = BufReader::new(child.stdout.take().unwrap_or_else(|| unreachable!("stdout is a pipe"))).lines();
    while let Some(line) = lines.next_line().await.map_err(WorkError::io("read from iperf3"))? {
        if line.contains("listening") {
            // Keep reading, so that later output does not block the server.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok((port, child));
        }
    }
    let output = text(child.stderr.take()).await;
    Err(WorkError::Request(format!(
        "iperf3 does not listen: {}",
        last_line(&output)
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
        debug!(%error, "cannot read iperf3's output");
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
