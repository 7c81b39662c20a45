//! Connects to a peer's data port and comes to terms with it.

use std::net::SocketAddr;
use std::time::Duration;

use gavotte_probe::sockets::tcp;
use tokio::net::{TcpSocket, TcpStream};

use crate::contract::data::{Hello, hello::Work};
use crate::error::{CONNECT, GREET, READY, WorkError, within};
use crate::handshake::{self, Channel};
use crate::plane::Plane;
use crate::session::Session;

/// How long the connection of a transfer may take: a whole phase connects at once.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The same for a probe: time for the first packet to be sent twice. A host that has vanished costs each peer this much.
const PROBE_CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How long the peer may take to send its challenge.
const GREET_LIMIT: Duration = Duration::from_secs(3);

/// How long the peer of a probe may give no sign.
const PROBE_PATIENCE: Duration = Duration::from_secs(3);
/// The same while a bulk probe runs: five times in a row a packet may be lost.
const STREAM_PATIENCE: Duration = Duration::from_secs(8);

/// An authenticated connection on which the peer has said welcome.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub stream: TcpStream,
    /// Seals what is said on it.
    pub channel: Channel,
    /// The id that packets of a train must bear.
    pub probe_id: u64,
}

/// Connects to `peer` for the given work, with `congestion` pinned if it is not empty. The peer may take `wait`
/// to be ready for it.
///
/// # Errors
/// When the peer cannot be reached, does not know this run, refuses or is not ready in time.
pub async fn dial(
    plane: &Plane,
    session: &Session,
    peer: SocketAddr,
    congestion: &str,
    work: Work,
    wait: Duration,
) -> Result<Connection, WorkError> {
    let transfer = matches!(&work, Work::Stream(work) if work.bytes > 0);
    let patience = patience(&work);
    let limit = if transfer { CONNECT_LIMIT } else { PROBE_CONNECT_LIMIT };
    let hello = Hello {
        run_id: session.run_id.clone(),
        source: session.name.clone(),
        nonce: Vec::new(),
        work: Some(work),
    };
    let mut stream = within(CONNECT, limit, connect(plane, peer, congestion)).await?;
    if let Some(patience) = patience {
        tcp::set_patience(&stream, patience)?;
    }
    let greeting = handshake::connect(&mut stream, &session.secret, hello, rand::random());
    let mut channel = within(GREET, limit.max(GREET_LIMIT), greeting).await?;
    let probe_id = within(READY, wait, channel.welcome(&mut stream)).await?;
    Ok(Connection {
        stream,
        channel,
        probe_id,
    })
}

/// How long a connection for some work may stay without a sign of the peer; `None` leaves it to TCP. A stream may starve
/// among others for long.
pub(crate) fn patience(work: &Work) -> Option<Duration> {
    match work {
        Work::Stream(work) => (work.bytes == 0).then_some(STREAM_PATIENCE),
        _ => Some(PROBE_PATIENCE),
    }
}

/// Makes a connection to a peer's data port.
///
/// # Errors
/// When the peer cannot be reached.
pub(crate) async fn connect(plane: &Plane, peer: SocketAddr, congestion: &str) -> Result<TcpStream, WorkError> {
    let socket = if peer.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.map_err(WorkError::io("open a TCP socket"))?;
    if let Some(source) = plane.source() {
        // Many transfers to one peer would else run out of ports that are free for every destination.
        let _ = tcp::defer_port_choice(&socket);
        socket
            .bind(SocketAddr::new(source, 0))
            .map_err(WorkError::io("bind to the agent's address"))?;
    }
    if !congestion.is_empty() {
        tcp::set_congestion(&socket, congestion)?;
    }
    let stream = socket.connect(peer).await.map_err(WorkError::io(CONNECT))?;
    stream.set_nodelay(true).map_err(WorkError::io("set TCP_NODELAY"))?;
    Ok(stream)
}
