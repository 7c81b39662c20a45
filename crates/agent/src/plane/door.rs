//! Accepts connections on the data port and authenticates them.
//!
//! 1. A connection from an address that no hold has enrolled is closed before any byte of it is read.
//! 2. A connection from an enrolled address gets a challenge. The client must answer with the secret of the run that it
//!    names. Whether the run is unknown or the secret is wrong, the connection is closed in the same way.
//! 3. Only then does the agent read the requested work.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gavotte_probe::sockets::tcp;
use tokio::net::{TcpListener, TcpStream};
use tracing::field::Empty;
use tracing::{Instrument, Span, debug, info, info_span, warn};

use crate::contract::agents::Failure;
use crate::contract::data::{Welcome, hello::Work};
use crate::error::{FrameError, HandshakeError, WorkError, within};
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::dial::Connection;
use crate::plane::greeters::{Greeters, Greeting};
use crate::plane::handshake;
use crate::plane::segments;
use crate::plane::stalls;

/// How long an unknown client may take to answer the challenge.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An authenticated incoming connection.
#[derive(Debug)]
pub struct Guest {
    /// The agent's data plane.
    pub plane: Arc<Plane>,
    /// The run that the connection belongs to.
    pub hold: Arc<Hold>,
    /// The client's enrolled name.
    pub source: String,
    /// The client's address.
    pub remote: IpAddr,
    /// The connection to the client.
    pub connection: Connection,
}

impl Guest {
    /// Sends the welcome.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn welcome(&mut self, probe_id: u64) -> Result<(), WorkError> {
        let welcome = Welcome {
            probe_id,
            ..Welcome::default()
        };
        self.connection.send(&welcome).await
    }

    /// Refuses the connection.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn refuse(&mut self, refusal: String, failure: Failure) -> Result<(), WorkError> {
        let welcome = Welcome {
            probe_id: 0,
            refusal,
            failure: failure.into(),
        };
        self.connection.send(&welcome).await
    }
}

/// Accepts connections for as long as the agent lives, and passes each guest with its requested work to `receive`.
pub async fn run<F, R>(plane: Arc<Plane>, listener: TcpListener, receive: F)
where
    F: Fn(Guest, Option<Work>) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), WorkError>> + Send + 'static,
{
    let greeters = Greeters::default();
    loop {
        let arrived = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, _)| stream),
            Some(stream) = plane.callbacks.guest() => Ok(stream),
        };
        match arrived.and_then(|stream| Ok((stream.peer_addr()?, stream))) {
            Ok((remote, stream)) => {
                let span = info_span!("guest", %remote, run = Empty, peer = Empty, round = Empty);
                let Some(stranger) = span.in_scope(|| Stranger::admit(&plane, stream)) else {
                    continue;
                };
                let receive = receive.clone();
                let greeting = greeters.admit(stranger.remote);
                // A failure ends the connection, which the other side notices.
                let serving = async move {
                    match stranger.serve(greeting, receive).await {
                        Ok(()) => debug!("served"),
                        Err(error @ (WorkError::Over | WorkError::Dropped { .. })) => debug!(%error, "left"),
                        // A peer only checked whether this agent accepts connections.
                        Err(error @ WorkError::Handshake(HandshakeError::Frame(FrameError::Closed))) => {
                            debug!(%error, "the peer closed the connection before its hello");
                        }
                        Err(error) => warn!(%error, "could not serve a guest"),
                    }
                };
                tokio::spawn(serving.instrument(span));
            }
            Err(error) => {
                warn!(%error, "cannot accept connections on the data port");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection from an enrolled address that is not yet authenticated.
struct Stranger {
    plane: Arc<Plane>,
    stream: TcpStream,
    remote: IpAddr,
    local: IpAddr,
}

impl Stranger {
    fn admit(plane: &Arc<Plane>, stream: TcpStream) -> Option<Self> {
        let addresses = || {
            stream.set_nodelay(true)?;
            Ok((stream.peer_addr()?, stream.local_addr()?))
        };
        let (remote, local) = addresses()
            .inspect_err(|error: &io::Error| debug!(%error, "the connection closed at once"))
            .ok()?;
        let (remote, local) = (remote.ip().to_canonical(), local.ip().to_canonical());
        if !plane.holds.admit(remote, local) {
            info!("closed a connection from an address that is not enrolled");
            return None;
        }
        Some(Self {
            plane: Arc::clone(plane),
            stream,
            remote,
            local,
        })
    }

    async fn serve<F, R>(mut self, mut place: Greeting, receive: F) -> Result<(), WorkError>
    where
        F: Fn(Guest, Option<Work>) -> R,
        R: Future<Output = Result<(), WorkError>>,
    {
        let secret = |run_id: &str| Some(self.plane.holds.of(run_id).ok()?.secret.clone());
        let info = tcp::info(&self.stream)?;
        let mut padding_bytes = segments::padding_bytes(&self.plane, self.remote, &info);
        let known_bytes = self.plane.mtus.get(self.remote);
        // Otherwise the challenge is long, vanishes, and the guest looks for shorter segments.
        if known_bytes.is_some_and(|bytes| bytes < info.mtu_bytes) && tcp::let_fragment(&self.stream).is_ok() {
            padding_bytes = 0;
        }
        let greeting = handshake::accept(&mut self.stream, secret, rand::random(), padding_bytes);
        let (channel, hello) = tokio::select! {
            greeted = within("greet", GREETING_LIMIT, greeting) => greeted?,
            _ = &mut place.displaced => return Err(WorkError::Request("too many idle connections from this host".into())),
        };
        drop(place);
        Span::current()
            .record("run", &hello.run_id)
            .record("peer", &hello.source);
        let hold = self.plane.holds.of(&hello.run_id).map_err(|_| WorkError::Over)?;
        if padding_bytes > 0 {
            // The hello proves that the whole challenge arrived.
            self.plane.mtus.set_arrived(self.remote, info.mtu_bytes);
        }
        let peer = hold.peers.get(&hello.source);
        let watched = peer
            .ok()
            .and_then(|peer| stalls::watch(&self.plane, &hold, peer, &self.stream));
        let mut guest = Guest {
            plane: self.plane,
            hold: Arc::clone(&hold),
            source: hello.source.clone(),
            remote: self.remote,
            connection: Connection::new(self.stream, channel, 0, watched),
        };
        if !hold.peers.is_at(&hello.source, self.remote, self.local) {
            let refusal = format!("`{}` is not enrolled at {}", hello.source, self.remote);
            return guest.refuse(refusal, Failure::Refused).await;
        }
        let work = hold.dropped.unless(&hello.source, receive(guest, hello.work));
        hold.during(work).await
    }
}
