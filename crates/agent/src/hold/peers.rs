//! Whom a hold may talk to, by name and by address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::contract::agents::Peer;
use crate::error::WorkError;

/// Most peers of one run.
pub const MAX_PEERS: usize = 10_000;

/// The enrolled hosts of a run. The agent itself may be among them.
#[derive(Debug)]
pub struct Peers {
    own: String,
    addresses: RwLock<HashMap<String, SocketAddr>>,
}

impl Peers {
    /// Checks an enrolment's peers; `own` is the agent's own name.
    ///
    /// # Errors
    /// Text that names the peer that makes no sense.
    pub fn new(own: &str, peers: Vec<Peer>) -> Result<Self, String> {
        if peers.len() > MAX_PEERS {
            return Err(format!("peers: at most {MAX_PEERS}, not {}", peers.len()));
        }
        let mut addresses = HashMap::new();
        for peer in peers {
            let address = address(&peer)?;
            if addresses.insert(peer.name.clone(), address).is_some() {
                return Err(format!("peer `{}` appears twice", peer.name));
            }
        }
        Ok(Self {
            own: own.to_owned(),
            addresses: RwLock::new(addresses),
        })
    }

    /// Takes the present address of a peer, of one that was not there at the enrolment too.
    ///
    /// # Errors
    /// Text that names the peer that has no host, or is one too many.
    pub fn renew(&self, peer: Peer) -> Result<(), String> {
        let now = address(&peer)?;
        let mut addresses = self.addresses.write().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MAX_PEERS && !addresses.contains_key(&peer.name) {
            return Err(format!("peer `{}`: there are {MAX_PEERS} already", peer.name));
        }
        addresses.insert(peer.name, now);
        Ok(())
    }

    /// Where an enrolled peer's data port is; the agent itself is no peer.
    ///
    /// # Errors
    /// [`WorkError::UnknownPeer`] for everyone else.
    pub fn get(&self, name: &str) -> Result<SocketAddr, WorkError> {
        let known = self.read().get(name).copied().filter(|_| name != self.own);
        known.ok_or_else(|| WorkError::UnknownPeer(name.to_owned()))
    }

    /// Whether anyone at `remote` may speak to the listener at `local` at all.
    pub fn admit(&self, remote: IpAddr, local: IpAddr) -> bool {
        remote == local || self.read().values().any(|peer| peer.ip() == remote)
    }

    /// Whether `source` is the enrolled name of `remote`. The agent itself comes from its own address.
    pub fn is_at(&self, source: &str, remote: IpAddr, local: IpAddr) -> bool {
        if source == self.own {
            return remote == local;
        }
        self.read().get(source).is_some_and(|peer| peer.ip() == remote)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<String, SocketAddr>> {
        // Nothing can panic while the lock is held half-way through a change.
        self.addresses.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(peer: &Peer) -> Result<SocketAddr, String> {
    let sound = || {
        let ip = peer.address.parse::<IpAddr>().ok()?.to_canonical();
        let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
        let port = u16::try_from(peer.data_port).ok().filter(|port| *port != 0)?;
        (!ip.is_unspecified() && !ip.is_multicast() && !broadcast).then(|| SocketAddr::new(ip, port))
    };
    sound().ok_or_else(|| {
        format!(
            "peer `{}`: no host at `{}` port {}",
            peer.name, peer.address, peer.data_port
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, address: &str) -> Peer {
        Peer {
            name: name.into(),
            address: address.into(),
            data_port: 7411,
        }
    }

    #[test]
    fn senseless_peers_are_named() {
        for address in [
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "ff02::1",
            "host.example",
            "",
        ] {
            assert!(
                Peers::new("a", vec![peer("x", address)]).unwrap_err().contains("`x`"),
                "{address}"
            );
        }
        for data_port in [0, 70_000] {
            assert!(
                Peers::new(
                    "a",
                    vec![Peer {
                        data_port,
                        ..peer("x", "10.0.0.2")
                    }]
                )
                .is_err()
            );
        }
        let twice = Peers::new("a", vec![peer("b", "10.0.0.2"), peer("b", "10.0.0.3")]);
        assert!(twice.unwrap_err().contains("twice"));
    }

    #[test]
    fn names_go_with_addresses() {
        let peers = Peers::new(
            "a",
            vec![peer("a", "10.0.0.1"), peer("b", "10.0.0.2"), peer("c", "fd00::3")],
        )
        .unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let local = ip("10.0.0.1");
        assert!(peers.is_at("b", ip("10.0.0.2"), local));
        assert!(!peers.is_at("b", ip("fd00::3"), local));
        assert!(peers.is_at("a", local, local));
        assert!(!peers.is_at("a", ip("10.0.0.2"), local));
        assert!(peers.admit(ip("fd00::3"), local));
        assert!(!peers.admit(ip("10.0.0.4"), local));
        assert!(peers.get("a").is_err());
        assert!(peers.get("b").is_ok());
    }
}
