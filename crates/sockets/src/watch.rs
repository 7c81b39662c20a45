//! Reads all counters repeatedly and reports the traffic between two reads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::SocketAddr;

use crate::datagrams::Datagrams;
use crate::diag::{Diag, Socket};
use crate::owners::{Owner, owners};

/// Number of looks for which a connection that is missing is remembered if its end will be announced.
///
/// A program may keep a socket open long after the other end has reset the connection. The kernel no longer lists it
/// then, and announces its end with all its bytes when the program closes it. 600 looks are minutes.
const HELD_LOOKS: u32 = 600;

/// While no datagram is counted, only one look in this many reads the counts of datagrams: the kernel walks a table of
/// 65,536 places for that. A report reads them in any case.
const IDLE_LOOKS: u64 = 5;

/// Payload between one of this host's sockets and another end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The socket's own address.
    pub here: SocketAddr,
    /// The other end's address.
    pub there: SocketAddr,
    /// UDP instead of TCP.
    pub datagrams: bool,
    /// Payload bytes that this host sent.
    pub sent_bytes: u64,
    /// Payload bytes that this host received.
    pub received_bytes: u64,
}

/// The observations since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Traffic by socket and other end.
    pub moved: Vec<Moved>,
    /// Owners of this host's addresses that were not known before.
    pub owners: Vec<(SocketAddr, Owner)>,
}

#[derive(Debug)]
struct Known {
    here: SocketAddr,
    there: SocketAddr,
    sent: u64,
    received: u64,
    /// Number of the last looks at which the connection was missing. Its end may still be announced.
    missing: u32,
}

/// All sockets of one network namespace.
#[derive(Debug)]
pub struct Watch {
    diag: Diag,
    datagrams: Result<Datagrams, String>,
    open: HashMap<u64, Known>,
    owned: HashMap<u64, bool>,
    pending: BTreeMap<(SocketAddr, SocketAddr, bool), (u64, u64)>,
    owners: Vec<(SocketAddr, Owner)>,
    looks: u64,
    /// The last look at which datagrams were counted, and whether the last look read them.
    talking: (u64, bool),
    closed_unseen: u64,
    connections: u64,
}

impl Watch {
    /// Starts to watch; earlier traffic does not count.
    ///
    /// # Errors
    /// If the kernel reports nothing about sockets.
    pub fn begin() -> io::Result<Self> {
        let datagrams = Datagrams::start().map_err(|error| error.to_string());
        let mut watch = Self {
            diag: Diag::open()?,
            datagrams,
            open: HashMap::new(),
            owned: HashMap::new(),
            pending: BTreeMap::new(),
            owners: Vec::new(),
            looks: 0,
            talking: (0, false),
            closed_unseen: 0,
            connections: 0,
        };
        watch.look()?;
        Ok(watch)
    }

    /// Reads all counters.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn look(&mut self) -> io::Result<()> {
        let ended = self.diag.ended();
        let current = self.diag.connections()?;
        let first = self.looks == 0;
        for each in &ended {
            self.count(each, false);
            self.open.remove(&each.cookie);
            self.owned.remove(&each.cookie);
        }
        for each in &current {
            self.count(each, first);
        }
        let here: HashSet<u64> = current.iter().map(|each| each.cookie).collect();
        let before = self.open.len();
        // Connections and ends are read one after the other, so that one look without the connection proves nothing.
        let most = if self.diag.tells_ends() { HELD_LOOKS } else { 1 };
        self.open.retain(|cookie, known| {
            known.missing = if here.contains(cookie) { 0 } else { known.missing + 1 };
            known.missing <= most
        });
        self.closed_unseen += (before - self.open.len()) as u64;
        let ends = current.iter().map(|each| (each.cookie, each.inode, each.here));
        self.learn(ends.collect());
        self.owned
            .retain(|cookie, _| here.contains(cookie) || !self.open.contains_key(cookie));
        self.looks += 1;
        let idle = self.looks > self.talking.0 + IDLE_LOOKS;
        self.talking.1 = !idle || self.looks.is_multiple_of(IDLE_LOOKS);
        if self.talking.1 {
            self.count_datagrams()?;
        }
        Ok(())
    }

    /// Reads the counts of datagrams.
    fn count_datagrams(&mut self) -> io::Result<()> {
        let conversations = match &mut self.datagrams {
            Ok(datagrams) => datagrams.fresh()?,
            Err(_) => Vec::new(),
        };
        if conversations.is_empty() {
            return Ok(());
        }
        self.talking.0 = self.looks;
        let sockets = if conversations.iter().any(|each| !self.owned.contains_key(&each.cookie)) {
            self.diag.datagram_sockets()?
        } else {
            Vec::new()
        };
        let inodes: HashMap<u64, u32> = sockets.iter().map(|each| (each.cookie, each.inode)).collect();
        let talkers = conversations
            .iter()
            .filter_map(|each| Some((each.cookie, *inodes.get(&each.cookie)?, each.here)));
        self.learn(talkers.collect());
        for each in conversations {
            let sums = self.pending.entry((each.here, each.there, true)).or_default();
            let sum = if each.incoming { &mut sums.1 } else { &mut sums.0 };
            *sum += each.bytes;
        }
        Ok(())
    }

    /// The observations since the last call.
    pub fn report(&mut self) -> Report {
        if !self.talking.1 {
            // What cannot be read now is in the next report.
            let _ = self.count_datagrams();
        }
        let moved = std::mem::take(&mut self.pending).into_iter();
        Report {
            moved: moved
                .map(|((here, there, datagrams), (sent_bytes, received_bytes))| Moved {
                    here,
                    there,
                    datagrams,
                    sent_bytes,
                    received_bytes,
                })
                .collect(),
            owners: std::mem::take(&mut self.owners),
        }
    }

    /// The counters of the watch itself, by name.
    pub fn counters(&self) -> [(&'static str, u64); 6] {
        [
            ("looks", self.looks),
            ("connections", self.connections),
            ("closed_unseen", self.closed_unseen + self.held()),
            ("tells_ends", u64::from(self.diag.tells_ends())),
            ("counts_datagrams", u64::from(self.datagrams.is_ok())),
            (
                "uncounted_datagrams",
                self.datagrams.as_ref().map_or(0, Datagrams::lost),
            ),
        ]
    }

    /// Connections that are missing and whose end was not announced.
    fn held(&self) -> u64 {
        self.open.values().filter(|known| known.missing > 1).count() as u64
    }

    /// The reason why UDP is not counted, if it is not.
    pub fn without_datagrams(&self) -> Option<&str> {
        self.datagrams.as_ref().err().map(String::as_str)
    }

    fn count(&mut self, each: &Socket, first: bool) {
        let Some((sent, received)) = each.bytes else { return };
        let known = self.open.entry(each.cookie).or_insert_with(|| {
            self.connections += 1;
            Known {
                here: each.here,
                there: each.there,
                sent: if first { sent } else { 0 },
                received: if first { received } else { 0 },
                missing: 0,
            }
        });
        let fresh = (sent.saturating_sub(known.sent), received.saturating_sub(known.received));
        known.sent = known.sent.max(sent);
        known.received = known.received.max(received);
        if fresh != (0, 0) {
            let sums = self.pending.entry((known.here, known.there, false)).or_default();
            sums.0 += fresh.0;
            sums.1 += fresh.1;
        }
    }

    /// Finds the owners of new sockets: `(cookie, inode, own end)`.
    fn learn(&mut self, sockets: Vec<(u64, u32, SocketAddr)>) {
        let unknown: Vec<_> = sockets
            .into_iter()
            .filter(|(cookie, inode, _)| *inode != 0 && !self.owned.contains_key(cookie))
            .collect();
        if unknown.is_empty() {
            return;
        }
        let all = owners();
        for (cookie, inode, end) in unknown {
            let owner = all.get(&inode);
            // Another user's socket: do not ask about it again.
            if self.owned.insert(cookie, owner.is_some()).is_none() {
                self.owners.extend(owner.map(|owner| (end, owner.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_moves_while_it_watches_counts_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let mut pass = |bytes: usize| {
            client.write_all(&vec![1; bytes]).unwrap();
            server.read_exact(&mut vec![0; bytes]).unwrap();
        };
        pass(5000);
        let mut watch = Watch::begin().unwrap();
        pass(300);
        watch.look().unwrap();
        pass(20);
        watch.look().unwrap();
        let report = watch.report();
        let of = |here, there| {
            report
                .moved
                .iter()
                .find(|each| (each.here, each.there) == (here, there))
                .unwrap()
        };
        assert_eq!(of(ends.0, ends.1).sent_bytes, 320);
        assert_eq!(of(ends.1, ends.0).received_bytes, 320);
        let owner = report.owners.iter().find(|(end, _)| *end == ends.0).unwrap();
        assert_eq!(owner.1.pid, std::process::id());
        assert!(watch.report().moved.iter().all(|each| each.here != ends.0));
    }

    #[test]
    fn a_reset_connection_that_is_closed_much_later_counts_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut watch = Watch::begin().unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let here = client.local_addr().unwrap();
        client.write_all(&[1; 300]).unwrap();
        server.read_exact(&mut [0; 200]).unwrap();
        watch.look().unwrap();
        // The server has not read everything, so that it resets the connection.
        drop(server);
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            watch.look().unwrap();
        }
        assert_eq!(watch.held(), 1);
        drop(client);
        for _ in 0..100 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            watch.look().unwrap();
            if watch.held() == 0 {
                break;
            }
        }
        let moved = watch.report().moved;
        let sent = moved
            .iter()
            .filter(|each| each.here == here)
            .map(|each| each.sent_bytes);
        assert_eq!(sent.sum::<u64>(), 300);
        assert_eq!(watch.held(), 0);
    }

    #[test]
    fn an_end_that_is_told_after_a_look_without_the_connection_counts_nothing_twice() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut watch = Watch::begin().unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let here = client.local_addr().unwrap();
        client.write_all(&[1; 300]).unwrap();
        server.read_exact(&mut [0; 300]).unwrap();
        watch.look().unwrap();
        drop((client, server));
        let mut late = Vec::new();
        for _ in 0..100 {
            late.extend(watch.diag.ended().into_iter().filter(|each| each.here == here));
            std::thread::sleep(std::time::Duration::from_millis(10));
            if !late.is_empty() {
                break;
            }
        }
        watch.look().unwrap();
        for each in &late {
            watch.count(each, false);
        }
        let moved = watch.report().moved;
        assert_eq!(
            moved
                .iter()
                .filter(|each| each.here == here)
                .map(|each| each.sent_bytes)
                .sum::<u64>(),
            300
        );
    }
}
