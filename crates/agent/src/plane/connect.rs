//! TCP connections to a peer's data port, before the handshake.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use gavotte_probe::mtu::Family;
use gavotte_probe::sockets::tcp;
use tokio::net::{TcpSocket, TcpStream};
use tracing::debug;

use crate::error::{CONNECT, WorkError};
use crate::plane::Plane;
use crate::plane::handshake::Channel;

/// A connection on which this agent has sent its hello and not yet received the peer's welcome.
#[derive(Debug)]
pub struct Greeted {
    pub(super) stream: TcpStream,
    pub(super) channel: Channel,
}

/// Connects to a peer's data port, with IP packets of at most `most_bytes` if that is given. A peer that accepts no
/// connections opens this one itself.
///
/// # Errors
/// If the peer cannot be reached.
pub(crate) async fn connect(
    plane: &Plane,
    peer: SocketAddr,
    congestion: &str,
    most_bytes: Option<u32>,
) -> Result<TcpStream, WorkError> {
    match plane.callbacks.ask(peer, most_bytes.unwrap_or(0)).await {
        Some(stream) => {
            choose_congestion(&stream, congestion)?;
            Ok(stream)
        }
        None => connect_directly(plane, peer, congestion, most_bytes).await,
    }
}

/// Sets a connection's congestion control, if one is asked for and the host allows it.
fn choose_congestion(socket: &impl AsFd, congestion: &str) -> Result<(), WorkError> {
    if congestion.is_empty() {
        return Ok(());
    }
    match tcp::set_congestion(socket, congestion) {
        // Without CAP_NET_ADMIN, only the names in `tcp_allowed_congestion_control` are available. The connection
        // then uses the host's default, and results report that name.
        Err(error) if error.is_forbidden() => debug!(%error, "uses the host's default"),
        other => other?,
    }
    Ok(())
}

/// Connects to a peer that accepts connections.
///
/// # Errors
/// If it does not.
pub(crate) async fn connect_directly(
    plane: &Plane,
    peer: SocketAddr,
    congestion: &str,
    most_bytes: Option<u32>,
) -> Result<TcpStream, WorkError> {
    let socket = if peer.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = socket.map_err(WorkError::io("open a TCP socket"))?;
    if let Some(source) = plane.source() {
        // Otherwise many transfers to one peer would use up the ports that are free for every destination.
        if let Err(error) = tcp::defer_port_choice(&socket) {
            debug!(%error, "ports may run out");
        }
        socket
            .bind(SocketAddr::new(source, 0))
            .map_err(WorkError::io("bind to the agent's address"))?;
    }
    choose_congestion(&socket, congestion)?;
    if let Some(bytes) = most_bytes {
        tcp::set_mtu(&socket, Family::of(peer.ip()), bytes)?;
    }
    let stream = socket.connect(peer).await.map_err(WorkError::io(CONNECT))?;
    stream.set_nodelay(true).map_err(WorkError::io("set TCP_NODELAY"))?;
    Ok(stream)
}
