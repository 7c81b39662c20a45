//! Detects that a peer has vanished while bytes flow to it. TCP alone reports this only after a quarter of an hour. A
//! deadline on TCP's acknowledgements would also end flows that starve on a full path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::plane::Plane;
use crate::plane::connect::connect;

/// Pause before each check. Transfers shorter than this are never checked.
const PERIOD: Duration = Duration::from_millis(300);
/// How long a check may take: six connections may be tried, and the first packet of the first one is repeated after a
/// second.
pub const LIMIT: Duration = Duration::from_millis(1200);
/// Pause between two attempts, since a full path loses several packets in a row.
const NEXT: Duration = Duration::from_millis(200);
/// Number of refused attempts that fail a check without waiting for its end.
const REFUSALS: u32 = 2;
/// Time for answers that arrived while this host was off its core.
const GRACE: Duration = Duration::from_millis(50);

/// The peers of a replay. One task checks each peer, however many transfers go to it.
#[derive(Debug, Default)]
pub struct Pulses(Mutex<HashMap<SocketAddr, Pulse>>);

#[derive(Debug)]
struct Pulse {
    stopped: watch::Receiver<bool>,
    // Checks end with the replay.
    _looking: JoinSet<()>,
}

impl Pulses {
    /// Returns when `peer` no longer accepts connections.
    pub async fn stopped(&self, plane: &Arc<Plane>, peer: SocketAddr) {
        let mut pulse = self.of(plane, peer);
        // The sender lives until it has reported.
        let _ = pulse.wait_for(|stopped| *stopped).await;
    }

    fn of(&self, plane: &Arc<Plane>, peer: SocketAddr) -> watch::Receiver<bool> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pulse = all.entry(peer).or_insert_with(|| {
            let (report, stopped) = watch::channel(false);
            let mut looking = JoinSet::new();
            looking.spawn(look(Arc::clone(plane), peer, report));
            Pulse {
                stopped,
                _looking: looking,
            }
        });
        pulse.stopped.clone()
    }
}

async fn look(plane: Arc<Plane>, peer: SocketAddr, report: watch::Sender<bool>) {
    // A whole phase that connects at once may fill the peer's queue for a while, so two checks in a row must fail.
    loop {
        stopped(&plane, peer).await;
        if !answers(&plane, peer).await {
            break;
        }
    }
    report.send_replace(true);
}

/// Returns when `peer` no longer accepts connections: 1.5 s after it vanished.
pub(crate) async fn stopped(plane: &Arc<Plane>, peer: SocketAddr) {
    loop {
        sleep(PERIOD).await;
        if !answers(plane, peer).await {
            return;
        }
    }
}

/// Whether `peer` accepts a connection now. Each attempt closes its connection at once, before a hello.
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
                tries.spawn(async move { connect(&plane, peer, "", None).await });
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
        // The peer's queue is full, so the kernel drops further connections.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let peer = socket.listen(0).unwrap();
        let address = peer.local_addr().unwrap();
        assert!(answers(&plane, address).await);
        let mut waiting = Vec::new();
        while let Ok(Ok(stream)) = timeout(NEXT, connect(&plane, address, "", None)).await {
            waiting.push(stream);
        }
        let (answered, ()) = tokio::join!(answers(&plane, address), async {
            sleep(NEXT * 2).await;
            // Make room: one of the later attempts, or a repeated packet, succeeds.
            while timeout(NEXT, peer.accept()).await.is_ok() {}
        });
        assert!(answered);
    }
}
