//! The peers that a hold may exchange data with, by name and by address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::contract::agents::Peer;
use crate::error::WorkError;
use crate::plane::zone;

/// Largest number of peers of one run.
pub const MAX_PEERS: usize = 10_000;
/// Largest number of further addresses of one peer.
const MAX_ORIGINS: usize = 16;

/// The enrolled hosts of a run, which may include the agent itself.
#[derive(Debug)]
pub struct Peers {
    own: String,
    places: RwLock<Places>,
}

/// A run may have 10,000 peers, each of which takes 50 bytes and its name.
type Places = HashMap<Box<str>, Place>;

/// Where a peer is.
#[derive(Debug)]
struct Place {
    ip: IpAddr,
    data_port: u16,
    /// What few peers have.
    special: Option<Box<Special>>,
}

/// What few peers have.
#[derive(Debug)]
struct Special {
    /// Its data port, as this agent reaches it through the interface that its address names, or why it cannot.
    address: Result<SocketAddr, String>,
    /// Further addresses that its connections may come from.
    origins: Vec<IpAddr>,
}

impl Place {
    fn of(peer: &Peer) -> Result<Self, String> {
        if peer.origins.len() > MAX_ORIGINS {
            return Err(format!("peer `{}`: at most {MAX_ORIGINS} origins", peer.name));
        }
        let origins = peer.origins.iter().map(|origin| {
            let address = zone::parse_bare(origin, 0).map(|address| address.ip());
            address.map_err(|_| format!("peer `{}`: no host at its origin `{origin}`", peer.name))
        });
        let port = u16::try_from(peer.data_port).ok().filter(|port| *port != 0);
        let bare = port.and_then(|port| zone::parse_bare(&peer.address, port).ok());
        let bare = bare.ok_or_else(|| {
            format!(
                "peer `{}`: `{}` port {} is not the address of a host",
                peer.name, peer.address, peer.data_port
            )
        })?;
        // Only the paths to this peer fail if this host lacks the interface that its address names.
        let address = zone::parse(&peer.address, bare.port());
        let origins = origins.collect::<Result<Vec<_>, _>>()?;
        let usual = address.as_ref() == Ok(&bare) && origins.is_empty();
        Ok(Self {
            ip: bare.ip(),
            data_port: bare.port(),
            special: (!usual).then(|| Box::new(Special { address, origins })),
        })
    }

    fn address(&self) -> Result<SocketAddr, String> {
        match &self.special {
            None => Ok(SocketAddr::new(self.ip, self.data_port)),
            Some(special) => special.address.clone(),
        }
    }

    fn is_at(&self, remote: IpAddr) -> bool {
        self.ip == remote
            || self
                .special
                .as_ref()
                .is_some_and(|special| special.origins.contains(&remote))
    }
}

impl Peers {
    /// Checks the peers of an enrolment; `own` is the agent's own name.
    ///
    /// # Errors
    /// A text that names the invalid peer.
    pub fn new(own: &str, peers: Vec<Peer>) -> Result<Self, String> {
        if peers.len() > MAX_PEERS {
            return Err(format!("peers: at most {MAX_PEERS}, not {}", peers.len()));
        }
        let mut places = Places::new();
        for peer in peers {
            let place = Place::of(&peer)?;
            if places.insert(peer.name.as_str().into(), place).is_some() {
                return Err(format!("peer `{}` appears twice", peer.name));
            }
        }
        Ok(Self {
            own: own.to_owned(),
            places: RwLock::new(places),
        })
    }

    /// Sets a peer's address, or adds a peer that was not enrolled at the start.
    ///
    /// # Errors
    /// A text that names the peer, if its address is not a host's or there are too many peers.
    pub fn renew(&self, peer: Peer) -> Result<(), String> {
        let now = Place::of(&peer)?;
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= MAX_PEERS && !places.contains_key(peer.name.as_str()) {
            return Err(format!(
                "peer `{}`: the run has {MAX_PEERS} peers already, which is the limit",
                peer.name
            ));
        }
        places.insert(peer.name.into(), now);
        Ok(())
    }

    /// Adds peers. Those that are known keep their addresses.
    ///
    /// # Errors
    /// A text that names the invalid peer, or says that there are too many. None are added then.
    pub fn add(&self, peers: Vec<Peer>) -> Result<(), String> {
        let new = peers
            .into_iter()
            .map(|peer| Place::of(&peer).map(|place| (peer.name.into(), place)));
        let new: Vec<(Box<str>, Place)> = new.collect::<Result<_, String>>()?;
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let count = places.len() + new.iter().filter(|(name, _)| !places.contains_key(name)).count();
        if count > MAX_PEERS {
            return Err(format!("peers: at most {MAX_PEERS}, not {count}"));
        }
        for (name, place) in new {
            places.entry(name).or_insert(place);
        }
        Ok(())
    }

    /// Returns the address of an enrolled peer's data port. The agent itself is not a peer.
    ///
    /// # Errors
    /// [`WorkError::UnknownPeer`] for any other name, and [`WorkError::NoInterface`] if this host lacks the interface that
    /// the address names.
    pub fn get(&self, name: &str) -> Result<SocketAddr, WorkError> {
        self.check(name)?;
        let places = self.read();
        let place = places
            .get(name)
            .ok_or_else(|| WorkError::UnknownPeer(name.to_owned()))?;
        place.address().map_err(WorkError::NoInterface)
    }

    /// Checks that `name` is an enrolled peer, whether or not this host can reach it.
    ///
    /// # Errors
    /// [`WorkError::UnknownPeer`] for any other name.
    pub fn check(&self, name: &str) -> Result<(), WorkError> {
        let known = name != self.own && self.read().contains_key(name);
        known
            .then_some(())
            .ok_or_else(|| WorkError::UnknownPeer(name.to_owned()))
    }

    /// Whether a host at `remote` may connect to the listener at `local` at all.
    pub fn admit(&self, remote: IpAddr, local: IpAddr) -> bool {
        remote == local || self.read().values().any(|place| place.is_at(remote))
    }

    /// Whether `source` is the enrolled name of the host at `remote`. The agent itself connects from its own address.
    pub fn is_at(&self, source: &str, remote: IpAddr, local: IpAddr) -> bool {
        if source == self.own {
            return remote == local;
        }
        self.read().get(source).is_some_and(|place| place.is_at(remote))
    }

    fn read(&self) -> RwLockReadGuard<'_, Places> {
        // The lock cannot be poisoned half-way through a change: no code panics while it is held.
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, address: &str) -> Peer {
        Peer {
            name: name.into(),
            address: address.into(),
            data_port: 7411,
            origins: Vec::new(),
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
    fn the_zone_of_a_peer_is_an_interface_of_this_host() {
        let peers = Peers::new("a", vec![peer("b", "fe80::b%lo"), peer("c", "fe80::c%nowhere0")]).unwrap();
        assert!(peers.get("b").unwrap().to_string().starts_with("[fe80::b%"));
        let refused = peers.get("c").unwrap_err();
        assert_eq!(refused.failure(), crate::contract::agents::Failure::Unreachable);
        assert_eq!(
            refused.to_string(),
            "this host has no interface `nowhere0`, which `fe80::c%nowhere0` names"
        );
        for (name, ip) in [("b", "fe80::b"), ("c", "fe80::c")] {
            peers.check(name).unwrap();
            assert!(peers.is_at(name, ip.parse().unwrap(), "fe80::a".parse().unwrap()));
        }
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
        let behind = Peer {
            origins: vec!["192.0.2.9".into()],
            ..peer("b", "10.0.0.2")
        };
        peers.renew(behind).unwrap();
        for address in ["10.0.0.2", "192.0.2.9"] {
            assert!(peers.is_at("b", ip(address), local) && peers.admit(ip(address), local));
        }
        assert!(!peers.is_at("c", ip("192.0.2.9"), local));
        let nowhere = Peer {
            origins: vec!["0.0.0.0".into()],
            ..peer("b", "10.0.0.2")
        };
        assert!(peers.renew(nowhere.clone()).unwrap_err().contains("`b`"));
        assert!(peers.get("b").is_ok());
        assert!(peers.add(vec![peer("d", "10.0.0.5"), nowhere]).is_err() && peers.get("d").is_err());
        peers.add(vec![peer("d", "10.0.0.5"), peer("b", "10.0.0.9")]).unwrap();
        assert!(peers.is_at("d", ip("10.0.0.5"), local) && !peers.is_at("b", ip("10.0.0.9"), local));
    }
}
