//! The MTUs of paths to peers that the agent has learnt and the kernel does not know.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a smaller MTU stays valid, since routes change (RFC 8899, section 5.1.1 also uses 600 s).
const BELIEVED: Duration = Duration::from_secs(600);
/// How long full packets are assumed to arrive; a new check costs one full segment.
const ARRIVING: Duration = Duration::from_secs(60);

/// MTUs by the peer's address. Only enrolled peers have entries.
#[derive(Debug, Default)]
pub struct Mtus(Mutex<HashMap<IpAddr, Known>>);

/// What the agent knows about one path.
#[derive(Debug, Default)]
struct Known {
    /// Largest size that arrives, if the kernel assumes a larger one.
    least: Option<(u32, Instant)>,
    /// A size that arrived in a TCP segment.
    arrived: Option<(u32, Instant)>,
    /// Locked by the task that searches.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Mtus {
    /// The largest IP packet that reaches `peer`, in bytes; `None` if the kernel's value is right.
    pub fn get(&self, peer: IpAddr) -> Option<u32> {
        self.of(peer, |known| {
            known.least = known.least.filter(|(_, since)| since.elapsed() < BELIEVED);
            known.least.map(|(bytes, _)| bytes)
        })
    }

    /// Records that packets above `bytes` do not reach `peer`.
    pub fn set(&self, peer: IpAddr, bytes: u32) {
        self.of(peer, |known| known.least = Some((bytes, Instant::now())));
    }

    /// Whether TCP segments in IP packets of `bytes` have recently reached `peer`.
    pub fn arrive(&self, peer: IpAddr, bytes: u32) -> bool {
        self.of(peer, |known| {
            known.arrived = known.arrived.filter(|(_, since)| since.elapsed() < ARRIVING);
            known.arrived.is_some_and(|(most, _)| bytes <= most)
        })
    }

    /// Records that a TCP segment in an IP packet of `bytes` has reached `peer`.
    pub fn set_arrived(&self, peer: IpAddr, bytes: u32) {
        let larger = self.arrive(peer, bytes.saturating_add(1));
        if !larger {
            self.of(peer, |known| known.arrived = Some((bytes, Instant::now())));
        }
    }

    /// Forgets the sizes that arrived at `peer` before `time`, since packets have vanished from then on.
    pub fn forget(&self, peer: IpAddr, time: Instant) {
        self.of(peer, |known| {
            known.arrived = known.arrived.filter(|(_, since)| *since > time);
        });
    }

    /// Waits until no other task searches for the MTU to `peer`. The search ends when the guard is dropped.
    pub async fn turn(&self, peer: IpAddr) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = self.of(peer, |known| Arc::clone(&known.turn));
        turn.lock_owned().await
    }

    fn of<T>(&self, peer: IpAddr, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(peer.to_canonical()).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_mtu_is_known_under_both_spellings_of_an_address() {
        let mtus = Mtus::default();
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(mtus.get(peer), None);
        mtus.set("::ffff:10.0.0.1".parse().unwrap(), 1400);
        assert_eq!(mtus.get(peer), Some(1400));
    }

    #[test]
    fn what_arrived_before_packets_vanished_is_forgotten() {
        let mtus = Mtus::default();
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        mtus.forget(peer, Instant::now());
        let earlier = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        mtus.set_arrived(peer, 1400);
        mtus.forget(peer, earlier);
        assert!(mtus.arrive(peer, 1400));
        mtus.forget(peer, Instant::now());
        assert!(!mtus.arrive(peer, 1400));
    }

    #[test]
    fn smaller_segments_arrive_where_larger_ones_did() {
        let mtus = Mtus::default();
        let peer: IpAddr = "10.0.0.1".parse().unwrap();
        assert!(!mtus.arrive(peer, 1400));
        mtus.set_arrived(peer, 1400);
        assert!(mtus.arrive(peer, 1400) && mtus.arrive(peer, 1280) && !mtus.arrive(peer, 1500));
    }
}
