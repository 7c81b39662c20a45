//! The data plane that all work of an agent shares: its address, its port and the socket that receives trains.

pub mod callbacks;
pub mod connect;
pub mod dial;
pub mod door;
pub mod frames;
mod greeters;
pub mod handshake;
pub(crate) mod leash;
pub mod mtus;
pub mod parts;
pub mod pulse;
pub mod records;
pub mod sealed;
pub(crate) mod segments;
pub mod several;
pub(crate) mod shortfall;
pub mod stalls;
pub mod stream;
pub(crate) mod zone;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use gavotte_probe::sockets::receiver::TrainReceiver;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Mutex;

use crate::hold::Caps;
use crate::hold::registry::Holds;
use crate::plane::callbacks::Callbacks;
use crate::plane::mtus::Mtus;

/// Number of connections that the kernel may queue before the agent accepts them: a whole phase of a replay connects at
/// once.
const BACKLOG: u32 = 4096;
/// Number of attempts to find a port that is free for both TCP and UDP, if any port is acceptable.
const PORT_TRIES: usize = 16;

/// The resources that all parts of an agent share.
#[derive(Debug)]
pub struct Plane {
    /// The address the data port is bound to; unspecified for all.
    pub bind: IpAddr,
    /// The data port, TCP and UDP.
    pub port: u16,
    /// The holds of the agent.
    pub holds: Holds,
    /// The socket that receives trains, one at a time.
    pub receiver: Arc<Mutex<TrainReceiver>>,
    /// The MTUs of paths that the agent has learnt.
    pub mtus: Mtus,
    /// Connections to peers that accept none.
    pub callbacks: Callbacks,
    /// Number of connections that are watched for stalls.
    pub watched: AtomicU32,
}

impl Plane {
    /// Binds the data port for TCP and UDP: on `bind`, or on all addresses (IPv6 and IPv4, or only IPv4 on hosts
    /// without IPv6). Port 0 selects any free port. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the port is in use, or the kernel gives no receive timestamps.
    pub fn bind(bind: Option<IpAddr>, port: u16, caps: Caps) -> io::Result<(Arc<Self>, TcpListener)> {
        let everywhere = [IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED)];
        let candidates = bind.as_ref().map_or(everywhere.as_slice(), std::slice::from_ref);
        let mut failure = io::Error::other("no address to bind");
        for address in candidates {
            for _ in 0..if port == 0 { PORT_TRIES } else { 1 } {
                match listen(SocketAddr::new(*address, port)) {
                    Ok((listener, receiver)) => {
                        let plane = Self {
                            bind: *address,
                            port: listener.local_addr()?.port(),
                            holds: Holds::new(caps),
                            receiver: Arc::new(Mutex::new(receiver)),
                            mtus: Mtus::default(),
                            callbacks: Callbacks::default(),
                            watched: AtomicU32::new(0),
                        };
                        return Ok((Arc::new(plane), listener));
                    }
                    Err(error) => failure = error,
                }
            }
        }
        Err(io::Error::new(failure.kind(), format!("data port {port}: {failure}")))
    }

    /// The source address for outgoing data, so that peers recognise it as enrolled; `None` leaves it to the routes.
    pub fn source(&self) -> Option<IpAddr> {
        Some(self.bind).filter(|address| !address.is_unspecified())
    }

    /// The address of the agent's own data port, for bytes that stay on the host.
    pub fn own(&self) -> SocketAddr {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        SocketAddr::new(self.source().unwrap_or(loopback), self.port)
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, TrainReceiver)> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let receiver = TrainReceiver::bind(listener.local_addr()?).map_err(io::Error::other)?;
    Ok((listener, receiver))
}
