//! Whether a peer is still there while bytes flow to it. TCP alone says so only after a quarter of an hour, and a deadline
//! on its acknowledgements would end flows that starve on a full path.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::plane::Plane;
use crate::plane::dial::connect;

/// Pause before each look. Phases shorter than this are never looked at.
const PERIOD: Duration = Duration::from_millis(500);
/// How long one connection may take: its first packet is sent again after a second.
pub const LIMIT: Duration = Duration::from_millis(1200);
/// So many connections in a row must fail: a full path loses a packet now and then.
const MISSES: u32 = 2;

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
    stopped(plane, peer).await;
    told.send_replace(true);
}

/// Returns when `peer` takes no connections any more: 3 s after it went.
pub(crate) async fn stopped(plane: Arc<Plane>, peer: SocketAddr) {
    let mut misses = 0;
    while misses < MISSES {
        if misses == 0 {
            sleep(PERIOD).await;
        }
        // Closed again at once, before it has said hello.
        let taken = timeout(LIMIT, connect(&plane, peer, "")).await;
        misses = if matches!(taken, Ok(Ok(_))) { 0 } else { misses + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Caps;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_peer_that_stops_listening_is_noticed() {
        let caps = Caps {
            max_bytes: 1,
            max_time: Duration::from_secs(1),
        };
        let (plane, _door) = Plane::bind(Some(Ipv4Addr::LOCALHOST.into()), 0, caps).unwrap();
        let peer = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = peer.local_addr().unwrap();
        let mut stop = Box::pin(stopped(plane, address));
        assert!(timeout(PERIOD * 2, &mut stop).await.is_err());
        drop(peer);
        stop.await;
    }
}
