//! Starts an agent and runs it until it is stopped.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tracing::{debug, info, warn};

use crate::contract::agents::agent_server::AgentServer;
use crate::contract::data::hello::Work;
use crate::control::doors::Doors;
use crate::control::letters;
use crate::control::service::Service;
use crate::guarantee::stored::StateFile;
use crate::guarantee::{Guarantees, orphan};
use crate::hold::Caps;
use crate::plane::Plane;
use crate::plane::door;
use crate::work::reception;

/// Default data port.
pub const DATA_PORT: u16 = 7411;
/// Default cap on the payload bytes of one hold.
pub const MAX_BYTES: u64 = 50_000_000_000;
/// Default cap on the seconds of one hold.
pub const MAX_SECONDS: u64 = 3600;

/// Longest request in bytes: a replay of many thousand transfers.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// How long open calls may take to end after the agent is stopped.
const STOP_LIMIT: Duration = Duration::from_secs(1);
/// Interval between pings to a controller. Its gRPC library answers them in threads of its own, whatever else it does.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// A connection whose controller does not answer a ping for this long is closed. On a host that is short of processors,
/// answers are late, so this is as long as the longest lease.
const KEEPALIVE_LIMIT: Duration = Duration::from_secs(20);

/// The settings of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the data port; `None` for all.
    pub bind: Option<IpAddr>,
    /// Data port, TCP and UDP; 0 for any.
    pub data_port: u16,
    /// The limits of each hold.
    pub caps: Caps,
    /// File from which the agent resumes its guarantees after a restart; `None` = it does not.
    pub state: Option<PathBuf>,
}

/// Serves the agent on its bound ports until `stop` returns. `stop` is first polled after the data port is bound. Must
/// be called within a tokio runtime.
///
/// # Errors
/// If the data port cannot be bound, the keys are invalid, or the server fails.
pub async fn serve(options: Options, doors: impl Into<Doors>, stop: impl Future<Output = ()>) -> io::Result<()> {
    raise_file_limit();
    let guarantees = Guarantees::stored_in(options.state.map(StateFile::at));
    let resumes = guarantees.is_stored();
    // Static limits of guarantees that are resumed stay until then.
    let swept = if resumes {
        Ok(Vec::new())
    } else {
        orphan::sweep(false, false)
    };
    match swept {
        Ok(swept) if swept.is_empty() => {}
        Ok(swept) => warn!(?swept, "removed the state of a killed agent"),
        Err(error) => debug!(%error, "cannot look for the state of a killed agent"),
    }
    let (plane, data) = Plane::bind(options.bind, options.data_port, options.caps)?;
    let version = env!("CARGO_PKG_VERSION");
    let doors = doors.into();
    let service = Service::new(plane.clone(), guarantees.clone());
    let taking = service.clone();
    let receive = move |guest, work| {
        let service = taking.clone();
        async move {
            match work {
                Some(Work::Lettered(_)) => {
                    letters::receive(service, guest);
                    Ok(())
                }
                work => reception::receive(guest, work).await,
            }
        }
    };
    let service = AgentServer::new(service).max_decoding_message_size(MAX_REQUEST_BYTES);
    let resuming = {
        let (guarantees, plane) = (guarantees.clone(), plane.clone());
        tokio::spawn(async move {
            if resumes {
                guarantees.resume(&plane.holds).await;
            }
        })
    };
    let accepting = tokio::spawn(door::run(plane.clone(), data, receive));
    let (stopping, stopped) = watch::channel(());
    let stop_signal = |mut stopped: watch::Receiver<()>| async move {
        // An error means that the other end is gone, which also means to stop.
        let _ = stopped.changed().await;
    };
    let over_socket = async {
        let Some(socket) = doors.socket else { return Ok(()) };
        let incoming = UnixListenerStream::new(UnixListener::from_std(socket)?);
        let router = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE_LIMIT))
            .add_service(service.clone());
        let serving = router.serve_with_incoming_shutdown(incoming, stop_signal(stopped.clone()));
        info!(version, data_port = plane.port, "serves on its socket");
        serving.await.map_err(io::Error::other)
    };
    let over_tls = async {
        let Some(door) = doors.tls else { return Ok(()) };
        let incoming = TcpIncoming::from(TcpListener::from_std(door.listener)?).with_nodelay(Some(true));
        let router = Server::builder()
            .tls_config(door.config)
            .map_err(|error| io::Error::other(format!("keys: {}", innermost(&error))))?
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE_LIMIT))
            .add_service(service.clone());
        let serving = router.serve_with_incoming_shutdown(incoming, stop_signal(stopped.clone()));
        info!(version, data_port = plane.port, "serves over TLS");
        serving.await.map_err(io::Error::other)
    };
    let serving = async { tokio::try_join!(over_socket, over_tls).map(|_| ()) };
    let ending = async {
        stop.await;
        resuming.abort();
        guarantees.stop().await;
        // End every stream, so that the server can close its connections.
        plane.holds.end();
        stopping.send_replace(());
        tokio::time::sleep(STOP_LIMIT).await;
    };
    let result = tokio::select! {
        result = serving => result,
        () = ending => Ok(()),
    };
    accepting.abort();
    result
}

/// Returns an error's innermost cause: the outer layers only say "transport error".
fn innermost(error: &dyn std::error::Error) -> &dyn std::error::Error {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

/// Raises the limit of open files. Every transfer takes a file descriptor, and the usual soft limit of 1024 exists for
/// programs that use `select`.
fn raise_file_limit() {
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        warn!(%error, "the limit of open files is low, so only few transfers can run at the same time");
    }
}
