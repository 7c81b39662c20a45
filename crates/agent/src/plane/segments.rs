//! Checks whether full TCP segments reach a peer, and searches for the size that does if they vanish without an ICMP
//! message.
//!
//! 1. A greeting to a peer fills one segment, unless a segment of that size has arrived recently. The acceptor's
//!    challenge does so, too.
//! 2. A greeting is suspect if it is not answered and acknowledged in time. Its connection stays open, since it may
//!    only be slow.
//! 3. Meanwhile, connections with smaller segments greet the peer. Each of them fills one segment in both directions.
//! 4. If smaller segments arrive and larger ones do not, connections to that peer use the largest size that does.
//!
//! The same search shows why a connection has stalled (`stalls`), or a probe has lost its last packets (`work::sizing`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gavotte_probe::mtu::search::{Action, Search};
use gavotte_probe::mtu::{Family, MOST_BYTES};
use gavotte_probe::sockets::tcp::{self, TcpInfo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};
use tracing::{debug, info};

use crate::contract::data::{Greet, Hello, hello::Work};
use crate::error::{HandshakeError, WorkError};
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::connect::{Greeted, connect};
use crate::plane::handshake;

/// A greeting that takes longer than this plus `ROUND_TRIPS` is suspect: TCP has sent its last segment twice by then.
const SUSPECT: Duration = Duration::from_millis(300);
const ROUND_TRIPS: u32 = 4;
/// A third of the time that a connection of a search may take beyond its round trips: a lost segment is repeated after
/// 200 ms.
const RESEND: Duration = Duration::from_millis(80);
/// Shortest and longest pause between two checks whether a greeting has been acknowledged.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Number of zeros that fill a segment to a peer; 0 if one has arrived recently, or if none can be filled.
pub(crate) fn padding_bytes(plane: &Plane, peer: std::net::IpAddr, info: &TcpInfo) -> usize {
    let full = info.mtu_bytes > MOST_BYTES || plane.mtus.arrive(peer, info.mtu_bytes);
    if full { 0 } else { info.mss_bytes as usize }
}

fn round_trip(info: &TcpInfo) -> Duration {
    Duration::from_secs_f64(info.rtt_s)
}

/// Sends the greeting on a connection and waits until the peer's kernel has all of it.
///
/// # Errors
/// If the peer closes the connection, or the connection fails.
pub(crate) async fn greet(
    hold: &Hold,
    mut stream: TcpStream,
    work: Work,
    padding_bytes: usize,
) -> Result<Greeted, WorkError> {
    let hello = Hello {
        run_id: hold.run_id.clone(),
        source: hold.name.clone(),
        nonce: Vec::new(),
        padding: vec![0; padding_bytes],
        work: Some(work),
    };
    let channel = handshake::connect(&mut stream, &hold.secret, hello, rand::random()).await?;
    if padding_bytes > 0 {
        acknowledged(&stream).await?;
    }
    Ok(Greeted { stream, channel })
}

async fn acknowledged(stream: &TcpStream) -> Result<(), WorkError> {
    loop {
        let info = tcp::info(stream)?;
        if info.unacknowledged == 0 && info.unsent_bytes == 0 {
            return Ok(());
        }
        sleep((round_trip(&info) / 4).clamp(LOOK.0, LOOK.1)).await;
    }
}

/// Waits until a greeting is suspect, then searches for the largest IP packets whose TCP segments reach the peer and
/// return. `info` describes the greeting's connection. `None` if no smaller segments arrive, or if all do.
///
/// # Errors
/// Only if the search is cancelled.
pub(crate) async fn search(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    peer: SocketAddr,
    info: &TcpInfo,
) -> Result<Option<u32>, WorkError> {
    let began = Instant::now();
    sleep(SUSPECT + ROUND_TRIPS * round_trip(info)).await;
    // The peer's challenge may be long, and vanish, although segments of that size have arrived before.
    plane.mtus.forget(peer.ip(), began);
    search_now(plane, hold, peer, info, |_| ()).await
}

/// The same as `search`, without a wait. `arrive` gets each size that is known to arrive where a larger one does not,
/// before the search is over: later ones are larger by a few bytes.
///
/// # Errors
/// Only if the search is cancelled.
pub(crate) async fn search_now(
    plane: &Arc<Plane>,
    hold: &Arc<Hold>,
    peer: SocketAddr,
    info: &TcpInfo,
    mut arrive: impl FnMut(u32) + Send,
) -> Result<Option<u32>, WorkError> {
    let _turn = plane.mtus.turn(peer.ip()).await;
    if let Some(bytes) = plane.mtus.get(peer.ip()).filter(|bytes| *bytes < info.mtu_bytes) {
        return Ok(Some(bytes));
    }
    if plane.mtus.arrive(peer.ip(), info.mtu_bytes) {
        return Ok(None);
    }
    // The search waits for three of these: the connection, the challenge and the welcome take one each.
    let round_trip = round_trip(info) + RESEND;
    let mut search = Search::suspecting(Family::of(peer.ip()), info.mtu_bytes, round_trip);
    let mut tries = JoinSet::new();
    let path_mtu = loop {
        match search.poll(Instant::now()) {
            Action::Send(bytes) => {
                // A further round shows that the one before has ended.
                search.confirmed().into_iter().for_each(&mut arrive);
                let (plane, hold) = (Arc::clone(plane), Arc::clone(hold));
                tries.spawn(async move { arrives(&plane, &hold, peer, bytes).await.then_some(bytes) });
            }
            Action::WaitUntil(until) => {
                tokio::select! {
                    Some(ended) = tries.join_next() => {
                        if let Some(bytes) = ended.map_err(|_| WorkError::Over)? {
                            search.handle_answer(bytes);
                        }
                    }
                    () = sleep_until(until.into()) => {}
                }
            }
            Action::Done(path_mtu) => break path_mtu,
        }
    };
    if path_mtu.confirmed && path_mtu.bytes >= info.mtu_bytes {
        plane.mtus.set_arrived(peer.ip(), info.mtu_bytes);
    }
    if !path_mtu.confirmed || path_mtu.bytes >= info.mtu_bytes {
        debug!(mtu_bytes = path_mtu.bytes, "no smaller segments arrive either");
        return Ok(None);
    }
    info!(%peer, kernel_bytes = info.mtu_bytes, mtu_bytes = path_mtu.bytes, "larger segments vanish on the path");
    plane.mtus.set(peer.ip(), path_mtu.bytes);
    Ok(Some(path_mtu.bytes))
}

/// Whether the peer answers a greeting in segments of IP packets of `mtu_bytes`.
pub(crate) async fn arrives(plane: &Plane, hold: &Hold, peer: SocketAddr, mtu_bytes: u32) -> bool {
    let greeting = async {
        let stream = connect(plane, peer, "", Some(mtu_bytes)).await?;
        let segment_bytes = tcp::info(&stream)?.mss_bytes as usize;
        let Greeted {
            mut stream,
            mut channel,
        } = greet(hold, stream, Work::Greet(Greet {}), segment_bytes).await?;
        Ok::<_, WorkError>(channel.welcome(&mut stream).await?)
    };
    // A refusal is an answer, too.
    matches!(
        greeting.await,
        Ok(_) | Err(WorkError::Handshake(HandshakeError::Refused { .. }))
    )
}
