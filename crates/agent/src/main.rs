//! `gavotte-agent serve`: runs the agent of one host.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use gavotte_agent::control::doors::{Doors, KeyFiles, TlsDoor};
use gavotte_agent::control::lifeline;
use gavotte_agent::control::serve::{DATA_PORT, MAX_BYTES, MAX_SECONDS, Options, serve};
use gavotte_agent::control::socket::ControlSocket;
use gavotte_agent::guarantee::orphan;
use gavotte_agent::hold::Caps;
use gavotte_agent::log;
use gavotte_impair::{Plan, Server};
use gavotte_shaper::Port;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

/// The folder for the agent's state if nothing names another.
const STATE_FOLDER: &str = "/var/lib/gavotte";

/// Measures the network between the hosts of an inventory and moves bytes across it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve a controller, on a Unix socket or over mutual TLS, until a signal arrives.
    Serve(Serve),
    /// Remove what a killed agent left on this host's interfaces.
    Sweep(Sweep),
    /// Mark packets that leave an interface as a switch would: packets that find too long a (phantom) queue get CE.
    Mark(Mark),
    /// Carry the packets of a lab's links that have latency, jitter, loss or a policer.
    ///
    /// Reads a plan as JSON from stdin, prints `ready` and runs until a signal arrives.
    #[command(hide = true)]
    Impair,
}

#[derive(Args)]
struct Sweep {
    /// Wait until stdin ends.
    #[arg(long)]
    when_stdin_ends: bool,
    /// Keep each pair's guarantee as a fixed limit instead.
    #[arg(long = "static")]
    remains: bool,
}

#[derive(Args)]
struct Mark {
    /// Name of the interface.
    #[arg(long, value_name = "NAME")]
    device: String,
    /// Rate at which the queue drains, in bit/s: a little less than the interface carries.
    #[arg(long, value_name = "BIT/S")]
    rate: u64,
    /// Mark packets that find more than this in the queue.
    #[arg(long, value_name = "BYTES", default_value_t = 60_000)]
    threshold: u64,
}

#[derive(Args)]
struct Serve {
    /// Unix socket to create, accessible to its owner only.
    #[arg(long, value_name = "PATH", required_unless_present = "tls")]
    socket: Option<PathBuf>,
    /// Address to listen on for a controller with a certificate of the authority.
    #[arg(long, value_name = "ADDRESS:PORT", requires_all = ["ca", "cert", "key"])]
    tls: Option<SocketAddr>,
    /// Certificate of the authority (PEM).
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca: Option<PathBuf>,
    /// Certificate of this host (PEM).
    #[arg(long, value_name = "FILE", requires = "tls")]
    cert: Option<PathBuf>,
    /// Private key of this host (PEM).
    #[arg(long, value_name = "FILE", requires = "tls")]
    key: Option<PathBuf>,
    /// TCP and UDP port of the data plane; 0 takes any free one.
    #[arg(long, value_name = "PORT", default_value_t = DATA_PORT)]
    data_port: u16,
    /// Address of the data plane [default: all, IPv6 and IPv4].
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Folder for the guarantees that the agent resumes after a restart
    /// [default: `$STATE_DIRECTORY`, else next to the socket, else /var/lib/gavotte].
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Largest number of payload bytes that one hold may send.
    #[arg(long, value_name = "BYTES", default_value_t = MAX_BYTES)]
    max_bytes: u64,
    /// Longest time that one hold may last.
    #[arg(long, value_name = "SECONDS", default_value_t = MAX_SECONDS)]
    max_seconds: u64,
    /// End the agent when the thread that started it ends, usually with its process.
    #[arg(long)]
    die_with_parent: bool,
    /// End the agent when stdin ends or is silent for this long; print `ready` on stdout once the agent serves.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lifeline: Option<u64>,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => log::start().and_then(|()| run(&arguments)),
        Command::Sweep(arguments) => orphan::sweep(arguments.when_stdin_ends, arguments.remains).map(|_| ()),
        Command::Mark(arguments) => mark(&arguments),
        Command::Impair => impair(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gavotte-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Serve) -> io::Result<()> {
    if arguments.die_with_parent {
        let parent = nix::unistd::getppid();
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM)?;
        // The parent may have ended before the kernel began to watch it.
        if nix::unistd::getppid() != parent {
            return Ok(());
        }
    }
    let options = Options {
        bind: arguments.bind,
        data_port: arguments.data_port,
        caps: Caps {
            max_bytes: arguments.max_bytes,
            max_time: Duration::from_secs(arguments.max_seconds),
        },
        state: Some(state_file(arguments)),
    };
    let mut doors = Doors::default();
    let _socket = match &arguments.socket {
        Some(path) => {
            let (socket, listener) = ControlSocket::bind(path)?;
            doors.socket = Some(listener);
            Some(socket)
        }
        None => None,
    };
    if let (Some(address), Some(ca), Some(cert), Some(key)) =
        (arguments.tls, &arguments.ca, &arguments.cert, &arguments.key)
    {
        let [ca, cert, key] = [ca, cert, key].map(Clone::clone);
        doors.tls = Some(TlsDoor::bind(address, &KeyFiles { ca, cert, key })?);
    }
    // Two threads: on a small host the agent must leave processor time for what it measures.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let lifeline = arguments.lifeline.map(Duration::from_secs);
        serve(options, doors, async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = held(lifeline) => {}
            }
            info!("stops");
        })
        .await
    });
    // Threads that send a train notice within a tenth of a second that their caller is gone.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// The file from which the agent resumes its guarantees after a restart.
fn state_file(arguments: &Serve) -> PathBuf {
    let name = format!("guarantee-{}", arguments.data_port);
    let folder = arguments
        .state
        .clone()
        .or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from));
    match (folder, &arguments.socket) {
        (Some(folder), _) => folder.join(name),
        (None, Some(socket)) => socket.with_extension("guarantee"),
        (None, None) => PathBuf::from(STATE_FOLDER).join(name),
    }
}

/// Marks until stdin ends, then prints how many packets passed and how many were marked.
fn mark(arguments: &Mark) -> io::Result<()> {
    let port = Port::install(&arguments.device, arguments.rate, arguments.threshold).map_err(io::Error::other)?;
    writeln!(io::stdout(), "marks")?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let (passed, marked) = port.counts();
    writeln!(io::stdout(), "{passed} {marked}")
}

/// Carries packets by the plan on stdin.
fn impair() -> io::Result<()> {
    let plan: Plan = serde_json::from_reader(io::stdin().lock())?;
    let server = Server::open(&plan)?;
    writeln!(io::stdout(), "ready")?;
    server.run(|faults| eprintln!("{faults}"))
}

/// Returns when the lifeline is cut; never returns without a lifeline.
async fn held(lifeline: Option<Duration>) {
    let Some(limit) = lifeline else {
        return std::future::pending().await;
    };
    // The reader of stdout may be gone; the lifeline then ends the agent.
    let _ = writeln!(io::stdout(), "gavotte-agent: ready");
    if let Err(error) = lifeline::cut(limit).await {
        error!(%error, "cannot watch the lifeline");
    }
}
