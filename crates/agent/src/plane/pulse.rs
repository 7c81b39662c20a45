//! Whether a peer is still there while bytes flow to it. TCP alone says so only after a quarter of an hour, and a deadline
//! on its acknowledgements would end flows that starve on a full path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::plane::Plane;
use crate::plane::dial::connect;

/// Pause before each look. Phases shorter than this are never looked at.
const PERIOD: Duration = Duration::from_millis(300);
/// How long a look may take: six connections may be tried, and the first packet of the first is sent again after a second.
pub const LIMIT: Duration = Duration::from_millis(1200);
/// Pause between two of them: a full path loses packets in a row.
const NEXT: Duration = Duration::from_millis(200);
/// So many must be refused where they are refused at once.
const REFUSALS: u32 = 2;
/// What came while this host was off its core still counts.
const GRACE: Duration = Duration::from_millis(50);

/// The peers of a replay, each looked at by one task however many transfers go to it.
#[derive(Debug, Default)]
pub struct Pulses(Mutex<HashMap<SocketAddr, Pulse>>);

#[derive(Debug)]
struct Pulse {
    stopped: watch::Receiver<bool>,
    // Looking ends with the replay.
    _looking: JoinSet<()>,
}

impl Pulses {
    /// Returns when `peer` takes no connections any more.
    pub async fn stopped(&self, plane: &Arc<Plane>, peer: SocketAddr) {
        let mut pulse = self.of(plane, peer);
        // The sender lives until it has said so.
        let _ = pulse.wait_for(|stopped| *stopped).await;
    }

    fn of(&self, plane: &Arc<Plane>, peer: SocketAddr) -> watch::Receiver<bool> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pulse = all.entry(peer).or_insert_with(|| {
            let (told, stopped) = watch::channel(false);
            let mut looking = JoinSet::new();
            looking.spawn(look(Arc::clone(plane), peer, told));
            Pulse {
                stopped,
                _looking: looking,
            }
        });
        pulse.stopped.clone()
    }
}

async fn look(plane: Arc<Plane>, peer: SocketAddr, told: watch::Sender<bool>) {
    // A whole phase that connects at once may overflow the peer's queue for a while: two looks in a row.
    loop {
        stopped(&plane, peer).await;
        if !answers(&plane, peer).await {
            break;
        }
    }
    told.send_replace(true);
}

/// Returns when `peer` takes no connections any more: 1.5 s after it went.
pub(crate) async fn stopped(plane: &Arc<Plane>, peer: SocketAddr) {
    loop {
        sleep(PERIOD).await;
        if !answers(plane, peer).await {
            return;
        }
    }
}

/// Whether `peer` takes a connection now. Each is closed at once, before it has said hello.
pub(crate) async fn answers(plane: &Arc<Plane>, peer: SocketAddr) -> bool {
    let mut tries = JoinSet::new();
    let mut refusals = 0;
    let mut next = interval(NEXT);
    let mut over = pin!(sleep(LIMIT));
    loop {
        tokio::select! {
            biased;
            Some(ended) = tries.join_next() => match ended {
                Ok(Ok(_)) => return true,
                _ => refusals += 1,
            },
            _ = next.tick() => {
                let plane = Arc::clone(plane);
                tries.spawn(async move { connect(&plane, peer, "").await });
            }
            () = &mut over => break,
        }
        if refusals == REFUSALS {
            return false;
        }
    }
    let late = async {
        while let Some(ended) = tries.join_next().await {
            if matches!(ended, Ok(Ok(_))) {
                return true;
            }
        }
        false
    };
    timeout(GRACE, late).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Caps;
    use std::net::Ipv4Addr;
    use tokio::net::{TcpListener, TcpSocket};

    fn plane() -> Arc<Plane> {
        let caps = Caps {
            max_bytes: 1,
            max_time: Duration::from_secs(1),
        };
        Plane::bind(Some(Ipv4Addr::LOCALHOST.into()), 0, caps).unwrap().0
    }

    #[tokio::test]
    async fn a_peer_that_stops_listening_is_noticed() {
        let plane = plane();
        let peer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = peer.local_addr().unwrap();
        let mut stop = Box::pin(stopped(&plane, address));
        assert!(timeout(PERIOD * 2, &mut stop).await.is_err());
        drop(peer);
        stop.await;
    }

    #[tokio::test]
    async fn a_peer_that_is_silent_does_not_answer() {
        let plane = plane();
        // Its queue is full, and the kernel drops what comes then.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let peer = socket.listen(0).unwrap();
        let address = peer.local_addr().unwrap();
        assert!(answers(&plane, address).await);
        let mut waiting = Vec::new();
        while let Ok(Ok(stream)) = timeout(NEXT, connect(&plane, address, "")).await {
            waiting.push(stream);
        }
        let (answered, ()) = tokio::join!(answers(&plane, address), async {
            sleep(NEXT * 2).await;
            // Room again: one of the later tries, or a packet sent again, gets in.
            while timeout(NEXT, peer.accept()).await.is_ok() {}
        });
        assert!(answered);
    }
}
