//! The door of the data plane: who may come in.
//!
//! A connection from an address that no hold has enrolled is dropped before a byte of it is read. An enrolled one is
//! challenged and must answer with the secret of the run it names; whether a run is unknown or the secret wrong, it is
//! hung up on all the same. Only then does anybody look at what it wants.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

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

/// How long a stranger may take to answer the challenge.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, such as one for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An authenticated connection that wants something.
#[derive(Debug)]
pub struct Guest {
    /// The agent's data plane.
    pub plane: Arc<Plane>,
    /// The run that it belongs to.
    pub hold: Arc<Hold>,
    /// Its enrolled name.
    pub source: String,
    /// Where it comes from.
    pub remote: IpAddr,
    /// What is said to it.
    pub connection: Connection,
}

impl Guest {
    /// Lets it go on.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn welcome(&mut self, probe_id: u64) -> Result<(), WorkError> {
        let welcome = Welcome {
            probe_id,
            ..Welcome::default()
        };
        self.connection.send(&welcome).await
    }

    /// Turns it away.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn refuse(&mut self, refusal: String, failure: Failure) -> Result<(), WorkError> {
        let welcome = Welcome {
            probe_id: 0,
            refusal,
            failure: failure.into(),
        };
        self.connection.send(&welcome).await
    }
}

/// Accepts connections for as long as the agent lives, and hands each guest with what it wants to `receive`.
pub async fn run<F, R>(plane: Arc<Plane>, listener: TcpListener, receive: F)
where
    F: Fn(Guest, Option<Work>) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), WorkError>> + Send + 'static,
{
    let greeters = Greeters::default();
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
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
                        // A look whether somebody is here.
                        Err(error @ WorkError::Handshake(HandshakeError::Frame(FrameError::Closed))) => {
                            debug!(%error, "left before it said hello");
                        }
                        Err(error) => warn!(%error, "could not serve"),
                    }
                };
                tokio::spawn(serving.instrument(span));
            }
            Err(error) => {
                warn!(%error, "cannot take connections on the data port");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection from an enrolled address.
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
            .inspect_err(|error: &io::Error| debug!(%error, "was gone at once"))
            .ok()?;
        let (remote, local) = (remote.ip().to_canonical(), local.ip().to_canonical());
        if !plane.holds.admit(remote, local) {
            info!("hung up on an address that nobody has enrolled");
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
        let greeting = handshake::accept(&mut self.stream, secret, rand::random());
        let (channel, hello) = tokio::select! {
            greeted = within("greet", GREETING_LIMIT, greeting) => greeted?,
            _ = &mut place.displaced => return Err(WorkError::Request("too many connections idled here".into())),
        };
        drop(place);
        Span::current()
            .record("run", &hello.run_id)
            .record("peer", &hello.source);
        let hold = self.plane.holds.of(&hello.run_id).map_err(|_| WorkError::Over)?;
        let mut guest = Guest {
            plane: self.plane,
            hold: Arc::clone(&hold),
            source: hello.source.clone(),
            remote: self.remote,
            connection: Connection {
                stream: self.stream,
                channel,
                probe_id: 0,
            },
        };
        if !hold.peers.is_at(&hello.source, self.remote, self.local) {
            let refusal = format!("`{}` is not enrolled at {}", hello.source, self.remote);
            return guest.refuse(refusal, Failure::Refused).await;
        }
        let work = hold.dropped.unless(&hello.source, receive(guest, hello.work));
        hold.during(work).await
    }
}
