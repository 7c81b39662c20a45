//! Finds the task of an address and port, or a name for it if the tasks are not known yet.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Index of an end in a [`Directory`].
pub type End = u32;

/// Largest number of names kept. Further unnamed ends share one name, so that a scan of a whole network takes at most
/// 40 MB.
pub const MOST_NAMES: usize = 1 << 18;

/// The name of all ends beyond [`MOST_NAMES`].
pub const OTHERS: &str = "others";

/// Names of ends. The given ones come first, in their order; others are added as they are seen, by their address.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    names: Vec<String>,
    given: usize,
    addresses: HashMap<IpAddr, End>,
    sockets: HashMap<SocketAddr, End>,
    ports: HashMap<u16, End>,
    others: Option<End>,
}

impl Directory {
    /// Takes keys such as `10.0.0.1`, `10.0.0.1:7077`, `[fd00::1]:7077` and `*:7077`; the most exact key wins.
    ///
    /// # Errors
    /// The key that has none of these forms.
    pub fn new(keys: &[String]) -> Result<Self, String> {
        let mut directory = Self {
            names: keys.to_vec(),
            given: keys.len(),
            ..Self::default()
        };
        for (end, key) in (0..).zip(keys) {
            if let Ok(address) = key.parse::<IpAddr>() {
                directory.addresses.insert(address.to_canonical(), end);
            } else if let Ok(socket) = key.parse::<SocketAddr>() {
                let canonical = SocketAddr::new(socket.ip().to_canonical(), socket.port());
                directory.sockets.insert(canonical, end);
            } else if let Some(Ok(port)) = key.strip_prefix("*:").map(str::parse) {
                directory.ports.insert(port, end);
            } else {
                return Err(key.clone());
            }
        }
        Ok(directory)
    }

    /// Returns the sending and the receiving end.
    ///
    /// Without names, traffic from an address to itself is separated by its service, the end with the lower port. Otherwise all
    /// of a machine's loopback would be one task.
    pub fn pair(&mut self, source: SocketAddr, target: SocketAddr) -> (End, End) {
        if self.given > 0 || source.ip() != target.ip() {
            return (self.end(source), self.end(target));
        }
        if source.port() < target.port() {
            (self.service(source), self.end(target))
        } else {
            (self.end(source), self.service(target))
        }
    }

    fn end(&mut self, at: SocketAddr) -> End {
        if self.given > 0 {
            let exact = self.sockets.get(&at).or_else(|| self.ports.get(&at.port()));
            if let Some(end) = exact {
                return *end;
            }
        }
        if let Some(end) = self.addresses.get(&at.ip()) {
            return *end;
        }
        let end = self.added(|| at.ip().to_string());
        if self.others != Some(end) {
            self.addresses.insert(at.ip(), end);
        }
        end
    }

    fn service(&mut self, at: SocketAddr) -> End {
        if let Some(end) = self.sockets.get(&at) {
            return *end;
        }
        let end = self.added(|| at.to_string());
        if self.others != Some(end) {
            self.sockets.insert(at, end);
        }
        end
    }

    fn added(&mut self, name: impl Fn() -> String) -> End {
        if let Some(end) = self.others {
            return end;
        }
        let end = self.names.len() as End;
        if self.names.len() >= self.given + MOST_NAMES {
            self.names.push(OTHERS.to_owned());
            self.others = Some(end);
        } else {
            self.names.push(name());
        }
        end
    }

    /// The number of ends whose names were given.
    pub fn given(&self) -> End {
        self.given as End
    }

    /// The name of an end.
    pub fn name(&self, end: End) -> &str {
        &self.names[end as usize]
    }
}
