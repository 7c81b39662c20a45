//! Finds the hosts for which bytes wait in sockets.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use crate::diag::Diag;

/// Share of the time between two looks in which a receiver's window may be closed. A receiver that reads slower than
/// bytes arrive limits the connection, not the network.
const CLOSED_MOST: f64 = 0.5;

/// Reads how many bytes wait in TCP sockets.
#[derive(Debug)]
pub struct Backlog {
    diag: Diag,
    /// By socket: for how many microseconds the receiver's window was closed.
    closed_us: HashMap<u64, u64>,
    looked: Instant,
}

impl Backlog {
    /// Opens the kernel's interface in the network of this thread.
    ///
    /// # Errors
    /// If the kernel has no such interface.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            diag: Diag::asking()?,
            closed_us: HashMap::new(),
            looked: Instant::now(),
        })
    }

    /// The addresses to which TCP connections have bytes to send that the network holds up. Bytes for a receiver that
    /// reads too slowly do not count.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn targets(&mut self) -> io::Result<HashSet<IpAddr>> {
        let since_us = self.looked.elapsed().as_secs_f64() * 1e6;
        self.looked = Instant::now();
        let (mut targets, mut closed) = (HashSet::new(), HashMap::new());
        for socket in self.diag.connections()? {
            let Some((waiting_bytes, closed_us)) = socket.waiting else {
                continue;
            };
            if waiting_bytes > 0 {
                let before_us = self.closed_us.get(&socket.cookie).copied().unwrap_or(closed_us);
                if (closed_us.saturating_sub(before_us) as f64) < CLOSED_MOST * since_us {
                    targets.insert(socket.there.ip());
                }
            }
            closed.insert(socket.cookie, closed_us);
        }
        self.closed_us = closed;
        Ok(targets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn bytes_for_a_receiver_that_does_not_read_are_no_backlog() {
        let listener = TcpListener::bind("127.0.0.77:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let mut backlog = Backlog::open().unwrap();
        let host: IpAddr = [127, 0, 0, 77].into();
        assert!(!backlog.targets().unwrap().contains(&host));
        // Fills both buffers.
        while client.write(&[1; 16384]).is_ok() {}
        backlog.targets().unwrap();
        sleep(Duration::from_millis(300));
        assert!(!backlog.targets().unwrap().contains(&host));
        server.read_exact(&mut [0; 1000]).unwrap();
    }
}
