//! Finds connections that stall because the MTU of their path has shrunk, and ends the stall.
//!
//! Where routers report the smaller MTU, the kernel does so itself. Where firewalls drop ICMP, it repeats the same segment
//! until the connection ends.
//!
//! 1. Each authenticated connection is watched. It has stalled if its oldest segment was sent again twice in a row, 0.6 s
//!    after the path's last packet.
//! 2. Connections with smaller segments greet the peer, and show which sizes arrive (`segments`). One search serves all
//!    connections to that peer.
//! 3. If smaller segments arrive and larger ones do not, routers may fragment an IPv4 connection's packets from then on.
//!    The kernel repeats its segment 1.4 or 3 s after the stall began, and the connection continues.
//! 4. An IPv6 connection is closed. Its work continues on another one, with smaller segments and the bytes that the peer
//!    has not acknowledged.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use gavotte_probe::mtu::MOST_BYTES;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::tcp;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::{Instrument, debug, info};

use crate::hold::Hold;
use crate::plane::{Plane, segments};

/// Number of timeouts in a row after which a connection has stalled.
const TIMEOUTS: u8 = 2;
/// Shortest pause between two looks at one connection.
const LOOK: Duration = Duration::from_millis(250);
/// Pause for each watched connection: all together are looked at 5,000 times a second, which takes 1 % of a core.
const LOOK_EACH: Duration = Duration::from_micros(200);

/// Pause between two looks at one of the plane's connections.
fn pause(plane: &Plane) -> Duration {
    LOOK.max(LOOK_EACH * plane.watched.load(Ordering::Relaxed))
}

/// A connection that is watched for as long as this value lives.
#[derive(Debug)]
pub struct Watched {
    plane: Weak<Plane>,
    // Shared with the task, and closed with this value: the kernel must end the connection when its stream is dropped.
    socket: Arc<Mutex<Option<OwnedFd>>>,
    closed: Arc<AtomicBool>,
    looking: AbortHandle,
}

impl Watched {
    /// Returns how many bytes the peer has not acknowledged, if the connection was closed. The kernel then forgets them
    /// when the stream is dropped, and the peer learns that the connection is over.
    pub fn undelivered_bytes(&self) -> Option<u64> {
        if !self.closed.load(Ordering::Relaxed) {
            return None;
        }
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = socket.as_ref()?;
        if let Err(error) = tcp::reset_when_closed(socket) {
            debug!(%error, "the kernel continues to send");
        }
        tcp::undelivered_bytes(socket).ok()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.looking.abort();
        drop(self.socket.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(plane) = self.plane.upgrade() {
            plane.watched.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Watches a connection to a peer whose data port is at `peer`. `None` if the connection cannot stall: one within the
/// host, whose packets are larger than those of any network.
pub(super) fn watch(plane: &Arc<Plane>, hold: &Arc<Hold>, peer: SocketAddr, stream: &TcpStream) -> Option<Watched> {
    let outside = tcp::info(stream).is_ok_and(|info| info.mtu_bytes <= MOST_BYTES);
    let socket = stream.as_fd().try_clone_to_owned().ok().filter(|_| outside)?;
    let socket = Arc::new(Mutex::new(Some(socket)));
    plane.watched.fetch_add(1, Ordering::Relaxed);
    let closed = Arc::new(AtomicBool::new(false));
    let patient = Arc::new(Patient {
        plane: Arc::downgrade(plane),
        hold: Arc::downgrade(hold),
        peer,
        socket: Arc::clone(&socket),
        closed: Arc::clone(&closed),
    });
    let looking = tokio::spawn(async move { while patient.look().await.is_some() {} }.in_current_span());
    Some(Watched {
        plane: Arc::downgrade(plane),
        socket,
        closed,
        looking: looking.abort_handle(),
    })
}

struct Patient {
    plane: Weak<Plane>,
    hold: Weak<Hold>,
    peer: SocketAddr,
    socket: Arc<Mutex<Option<OwnedFd>>>,
    closed: Arc<AtomicBool>,
}

impl Patient {
    /// Waits until the connection stalls, and ends one stall. `None` if the connection is over.
    async fn look(self: &Arc<Self>) -> Option<()> {
        let mut moved = Instant::now();
        let stalled = loop {
            sleep(pause(self.plane.upgrade()?.as_ref())).await;
            let info = self.with(tcp::info)?.ok()?;
            if info.timeouts == 0 {
                moved = Instant::now();
            } else if info.timeouts >= TIMEOUTS {
                break info;
            }
        };
        let (plane, hold) = (self.plane.upgrade()?, self.hold.upgrade()?);
        plane.mtus.forget(self.peer.ip(), moved);
        // A task of its own: what it finds out also serves later connections, if this one ends first.
        let patient = Arc::clone(self);
        let searching = async move {
            let mut helped = false;
            let mut help = |_| {
                if !std::mem::replace(&mut helped, true) {
                    patient.help();
                }
            };
            let smaller = segments::search_now(&plane, &hold, patient.peer, &stalled, &mut help).await;
            if let Ok(Some(mtu_bytes)) = smaller {
                help(mtu_bytes);
            }
        };
        tokio::spawn(searching.in_current_span()).await.ok()?;
        // Until the kernel has sent the segment again, or another search is of use.
        self.recovered().await
    }

    /// Lets routers fragment the connection's packets, or closes it.
    fn help(&self) {
        let peer = self.peer;
        match self.with(tcp::let_fragment) {
            Some(Ok(())) => info!(%peer, "routers may fragment a connection's packets"),
            Some(Err(error)) => {
                info!(%peer, %error, "closes a connection whose segments vanish");
                self.closed.store(true, Ordering::Relaxed);
                if let Some(Err(error)) = self.with(tcp::shut_down) {
                    debug!(%error, "the connection was closed before");
                }
            }
            None => {}
        }
    }

    /// Waits until the peer has acknowledged a segment. `None` if the connection is over.
    async fn recovered(&self) -> Option<()> {
        while self.with(tcp::info)?.ok()?.timeouts > 0 {
            sleep(pause(self.plane.upgrade()?.as_ref())).await;
        }
        Some(())
    }

    fn with<T>(&self, what: impl FnOnce(&OwnedFd) -> Result<T, SocketError>) -> Option<Result<T, SocketError>> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.as_ref().map(what)
    }
}
