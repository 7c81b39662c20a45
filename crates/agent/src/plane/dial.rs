//! Connects to a peer's data port and comes to terms with it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gavotte_probe::sockets::tcp;
use prost::Message;
use tokio::net::{TcpSocket, TcpStream};
use tracing::debug;

use crate::contract::data::{Hello, hello::Work};
use crate::error::{CONNECT, GREET, READY, WorkError, within};
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::handshake::{self, Channel};

/// How long the peer may take to send its challenge, at least.
const GREET_LIMIT: Duration = Duration::from_secs(3);

/// An authenticated connection between two agents.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub stream: TcpStream,
    /// Seals what is said on it.
    pub channel: Channel,
    /// The id that packets of a train must bear.
    pub probe_id: u64,
}

impl Connection {
    /// Sends a sealed message.
    ///
    /// # Errors
    /// When the connection fails or the message is too long.
    pub async fn send(&mut self, message: &impl Message) -> Result<(), WorkError> {
        Ok(self.channel.send(&mut self.stream, message).await?)
    }

    /// Receives a sealed message within `limit`; `operation` names the wait.
    ///
    /// # Errors
    /// When it does not come in time, or is not what the other side should say.
    pub async fn receive<M: Message + Default>(
        &mut self,
        operation: &'static str,
        limit: Duration,
    ) -> Result<M, WorkError> {
        within(operation, limit, self.channel.receive(&mut self.stream)).await
    }
}

/// A connection whose other side knows what is wanted, and has not said welcome.
#[derive(Debug)]
pub struct Greeted {
    stream: TcpStream,
    channel: Channel,
}

/// Whom to connect to, for what, and how patiently.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The agent's data plane.
    pub plane: &'a Arc<Plane>,
    /// The run.
    pub hold: &'a Arc<Hold>,
    /// The peer's data port.
    pub peer: SocketAddr,
    /// What the peer is asked for.
    pub work: Work,
    /// Congestion control to pin; empty for the host's default.
    pub congestion: &'a str,
    /// How long connecting may take.
    pub connect: Duration,
    /// How long the connection may stay without a sign of the peer; `None` leaves it to TCP.
    pub patience: Option<Duration>,
    /// How long the peer may take to be ready.
    pub ready: Duration,
}

impl Call<'_> {
    /// Connects and waits for the peer's welcome.
    ///
    /// # Errors
    /// When the peer cannot be reached, does not know this run, refuses or is not ready in time.
    pub async fn dial(&self) -> Result<Connection, WorkError> {
        self.welcomed(self.greet().await?).await
    }

    /// Connects and says what is wanted, which the peer may not be ready for.
    ///
    /// # Errors
    /// When the peer cannot be reached.
    pub async fn greet(&self) -> Result<Greeted, WorkError> {
        let hello = Hello {
            run_id: self.hold.run_id.clone(),
            source: self.hold.name.clone(),
            nonce: Vec::new(),
            work: Some(self.work.clone()),
        };
        let connecting = connect(self.plane, self.peer, self.congestion);
        let mut stream = within(CONNECT, self.connect, connecting).await?;
        let greeting = handshake::connect(&mut stream, &self.hold.secret, hello, rand::random());
        let channel = within(GREET, self.connect.max(GREET_LIMIT), greeting).await?;
        Ok(Greeted { stream, channel })
    }

    /// Waits for the peer's welcome.
    ///
    /// # Errors
    /// When it does not know this run, refuses or is not ready in time.
    pub async fn welcomed(&self, greeted: Greeted) -> Result<Connection, WorkError> {
        let Greeted {
            mut stream,
            mut channel,
        } = greeted;
        // Before, the path may be full of another probe, and a lost sign of life mean nothing.
        if let Some(patience) = self.patience {
            tcp::set_patience(&stream, patience)?;
        }
        let probe_id = within(READY, self.ready, channel.welcome(&mut stream)).await?;
        Ok(Connection {
            stream,
            channel,
            probe_id,
        })
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
        if let Err(error) = tcp::defer_port_choice(&socket) {
            debug!(%error, "ports may run out");
        }
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
