//! Connects to a peer's data port and completes the handshake.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::mtu::MOST_BYTES;
use gavotte_probe::sockets::tcp;
use prost::Message;
use tokio::net::TcpStream;
use tokio::time::timeout_at;

use crate::contract::agents::{Probe, probe::Kind as Asked};
use crate::contract::data::hello::Work;
use crate::error::{CONNECT, GREET, READY, WorkError, within};
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::connect::{Greeted, connect, connect_directly};
use crate::plane::handshake::Channel;
use crate::plane::segments;
use crate::plane::stalls::{self, Watched};

/// Shortest limit for the peer's challenge.
const GREET_LIMIT: Duration = Duration::from_secs(3);

/// An authenticated connection between two agents.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub stream: TcpStream,
    /// Authenticates the messages on the connection.
    pub channel: Channel,
    /// The id that packets of a train must have.
    pub probe_id: u64,
    /// Round-trip time of the connection; zero before the pings.
    pub round_trip: Duration,
    /// Variation of the round trips, as the side that answers pings measures it; zero on the other side.
    pub jitter: Duration,
    /// Earliest time at which the probe may start to send.
    pub start: Instant,
    /// Ends its stalls if the path's MTU shrinks.
    pub watched: Option<Watched>,
}

impl Connection {
    /// A connection without pings so far.
    pub(crate) fn new(stream: TcpStream, channel: Channel, probe_id: u64, watched: Option<Watched>) -> Self {
        Self {
            stream,
            channel,
            probe_id,
            round_trip: Duration::ZERO,
            jitter: Duration::ZERO,
            start: Instant::now(),
            watched,
        }
    }

    /// Sends an authenticated message.
    ///
    /// # Errors
    /// If the connection fails or the message is too long.
    pub async fn send(&mut self, message: &impl Message) -> Result<(), WorkError> {
        Ok(self.channel.send(&mut self.stream, message).await?)
    }

    /// Receives an authenticated message within `limit`; `operation` names the wait.
    ///
    /// # Errors
    /// If it does not arrive in time, or is not the expected message.
    pub async fn receive<M: Message + Default>(
        &mut self,
        operation: &'static str,
        limit: Duration,
    ) -> Result<M, WorkError> {
        within(operation, limit, self.channel.receive(&mut self.stream)).await
    }
}

/// The parameters of a connection to a peer.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The agent's data plane.
    pub plane: &'a Arc<Plane>,
    /// The run.
    pub hold: &'a Arc<Hold>,
    /// The peer's data port.
    pub peer: SocketAddr,
    /// The requested work.
    pub work: Work,
    /// Congestion control to use; empty for the host's default.
    pub congestion: &'a str,
    /// How long connecting may take.
    pub connect: Duration,
    /// How long the peer may be silent before the connection fails; `None` leaves this to TCP.
    pub patience: Option<Duration>,
    /// How long the peer may take to be ready.
    pub ready: Duration,
}

impl Call<'_> {
    /// Connects and waits for the peer's welcome.
    ///
    /// # Errors
    /// If the peer cannot be reached, does not know this run, refuses or is not ready in time.
    pub async fn dial(&self) -> Result<Connection, WorkError> {
        self.welcomed(self.greet().await?).await
    }

    /// Connects and sends the hello with the requested work. The peer may not be ready for it yet.
    ///
    /// # Errors
    /// If the peer cannot be reached.
    pub async fn greet(&self) -> Result<Greeted, WorkError> {
        self.greet_over(self.connect().await?).await
    }

    /// Says what is wanted over a connection that `connect` made.
    ///
    /// # Errors
    /// When the peer does not answer in time.
    pub async fn greet_over(&self, stream: TcpStream) -> Result<Greeted, WorkError> {
        let (plane, address) = (self.plane, self.peer.ip());
        let limit = self.connect.max(GREET_LIMIT);
        let info = tcp::info(&stream)?;
        // Short segments show nothing about the path's MTU.
        let padding_bytes = match self.asked_mtu_bytes() {
            Some(_) => 0,
            None => segments::padding_bytes(plane, address, &info),
        };
        let until = tokio::time::Instant::now() + limit;
        // Boxed, since otherwise every future that contains them would be large.
        let mut greeting = Box::pin(segments::greet(self.hold, stream, self.work.clone(), padding_bytes));
        if info.mtu_bytes <= MOST_BYTES {
            tokio::select! {
                biased;
                greeted = &mut greeting => {
                    if greeted.is_ok() && padding_bytes > 0 {
                        plane.mtus.set_arrived(address, info.mtu_bytes);
                    }
                    return greeted;
                }
                smaller = Box::pin(segments::search(plane, self.hold, self.peer, &info)) => if smaller?.is_some() {
                    let stream = self.connect().await?;
                    let greeting = Box::pin(segments::greet(self.hold, stream, self.work.clone(), 0));
                    return within(GREET, limit, greeting).await;
                }
            }
        }
        let late = |_| WorkError::Late {
            operation: GREET,
            limit,
        };
        timeout_at(until, greeting).await.map_err(late)?
    }

    /// Connects, and says nothing yet.
    ///
    /// # Errors
    /// When the peer cannot be reached.
    pub async fn connect(&self) -> Result<TcpStream, WorkError> {
        let connecting = connect(self.plane, self.peer, self.congestion, self.most_bytes());
        within(CONNECT, self.connect, connecting).await
    }

    /// Size of the largest packets that the work may use, if it asks for a bound.
    fn asked_mtu_bytes(&self) -> Option<u32> {
        match &self.work {
            Work::Probe(Probe {
                kind: Some(Asked::Bulk(bulk)),
                ..
            }) if bulk.mtu_bytes > 0 => Some(bulk.mtu_bytes),
            _ => None,
        }
    }

    /// Size of the largest packets of a connection, if anything bounds it.
    fn most_bytes(&self) -> Option<u32> {
        let known_bytes = self.plane.mtus.get(self.peer.ip());
        known_bytes.into_iter().chain(self.asked_mtu_bytes()).min()
    }

    /// The same as [`Self::dial`] without help: a peer that accepts no connections cannot be reached.
    ///
    /// # Errors
    /// As [`Self::dial`].
    pub async fn dial_directly(&self) -> Result<Connection, WorkError> {
        let connecting = connect_directly(self.plane, self.peer, self.congestion, self.most_bytes());
        let stream = within(CONNECT, self.connect, connecting).await?;
        self.welcomed(self.greet_over(stream).await?).await
    }

    /// Waits for the peer's welcome.
    ///
    /// # Errors
    /// If the peer does not know this run, refuses or is not ready in time.
    pub async fn welcomed(&self, greeted: Greeted) -> Result<Connection, WorkError> {
        let Greeted {
            mut stream,
            mut channel,
        } = greeted;
        // Only now: another probe may fill the path until here, so that silence would prove nothing.
        if let Some(patience) = self.patience {
            tcp::set_patience(&stream, patience)?;
        }
        let probe_id = within(READY, self.ready, channel.welcome(&mut stream)).await?;
        let watched = stalls::watch(self.plane, self.hold, self.peer, &stream);
        Ok(Connection::new(stream, channel, probe_id, watched))
    }
}
