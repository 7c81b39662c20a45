//! Connections to peers that accept none. Such a peer opens them itself whenever another agent asks.
//!
//! 1. The controller finds that no host can connect to an agent which can connect to others, and asks that agent to call
//!    back.
//! 2. The agent keeps one connection open to each peer: its line.
//! 3. A peer that wants to connect to the agent sends a number over the line. The agent connects to the peer and says
//!    the number.
//! 4. From then on, both sides use that connection as if the peer had made it: the agent sends its challenge next.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// A request to open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Names the connection.
    pub(crate) number: u64,
    /// Size of the largest IP packets of the connection; 0 = the path's MTU.
    pub(crate) mtu_bytes: u32,
}

/// The lines of this agent's peers, the connections that it waits for, and those that it opened for others.
#[derive(Debug)]
pub struct Callbacks {
    state: Mutex<State>,
    opened: mpsc::UnboundedSender<TcpStream>,
    guests: tokio::sync::Mutex<mpsc::UnboundedReceiver<TcpStream>>,
}

#[derive(Debug, Default)]
struct State {
    /// The lines by the address at which this agent would reach the peer; the last one is used.
    lines: HashMap<SocketAddr, Vec<(u64, mpsc::UnboundedSender<Asked>)>>,
    waiting: HashMap<u64, oneshot::Sender<TcpStream>>,
}

impl Default for Callbacks {
    fn default() -> Self {
        let (opened, guests) = mpsc::unbounded_channel();
        Self {
            state: Mutex::default(),
            opened,
            guests: tokio::sync::Mutex::new(guests),
        }
    }
}

impl Callbacks {
    /// Records a peer's line until the result is dropped.
    pub(crate) fn attach(&self, peer: SocketAddr) -> Line<'_> {
        let (asks, asked) = mpsc::unbounded_channel();
        let number = rand::random();
        self.state().lines.entry(peer).or_default().push((number, asks));
        Line {
            callbacks: self,
            peer,
            number,
            asked,
        }
    }

    /// Lets a peer open a connection; `None` if the peer has no line, or its line breaks.
    pub(crate) async fn ask(&self, peer: SocketAddr, mtu_bytes: u32) -> Option<TcpStream> {
        let number = rand::random();
        let (deliver, delivery) = oneshot::channel();
        let _waiting = {
            let mut state = self.state();
            let (_, line) = state.lines.get(&peer)?.last()?;
            line.send(Asked { number, mtu_bytes }).ok()?;
            state.waiting.insert(number, deliver);
            Waiting {
                callbacks: self,
                number,
            }
        };
        delivery.await.ok()
    }

    /// Whether a connection of this number is waited for.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        self.state().waiting.contains_key(&number)
    }

    /// Hands over a connection that a peer has opened.
    pub(crate) fn deliver(&self, number: u64, stream: TcpStream) {
        if let Some(deliver) = self.state().waiting.remove(&number) {
            // The caller may have given up meanwhile.
            let _ = deliver.send(stream);
        }
    }

    /// Treats a connection that this agent has opened for a peer as one that the peer has made.
    pub(crate) fn turn(&self, stream: TcpStream) {
        // The receiver lives as long as the sender.
        let _ = self.opened.send(stream);
    }

    /// Waits for the next such connection.
    pub(crate) async fn guest(&self) -> Option<TcpStream> {
        self.guests.lock().await.recv().await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The lock cannot be poisoned half-way through a change: no code panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of a peer, on the side that may ask for connections.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    callbacks: &'a Callbacks,
    peer: SocketAddr,
    number: u64,
    asked: mpsc::UnboundedReceiver<Asked>,
}

impl Line<'_> {
    /// Waits for the next request to send over the line.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        self.asked.recv().await
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let mut state = self.callbacks.state();
        if let Some(lines) = state.lines.get_mut(&self.peer) {
            lines.retain(|(number, _)| *number != self.number);
            if lines.is_empty() {
                state.lines.remove(&self.peer);
            }
        }
    }
}

/// Forgets a connection that is no longer waited for.
struct Waiting<'a> {
    callbacks: &'a Callbacks,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.callbacks.state().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_peer_with_a_line_opens_the_connection() {
        let callbacks = Callbacks::default();
        let peer: SocketAddr = "10.0.0.3:7411".parse().unwrap();
        assert!(callbacks.ask(peer, 0).await.is_none());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut line = callbacks.attach(peer);
        let opening = async {
            let asked = line.next().await.unwrap();
            assert!(asked.mtu_bytes == 1400 && callbacks.awaits(asked.number));
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            callbacks.deliver(asked.number, stream);
            asked.number
        };
        let (stream, number) = tokio::join!(callbacks.ask(peer, 1400), opening);
        assert_eq!(stream.unwrap().peer_addr().unwrap(), listener.local_addr().unwrap());
        assert!(!callbacks.awaits(number));
    }

    #[tokio::test]
    async fn without_its_line_a_peer_is_not_asked() {
        let callbacks = Callbacks::default();
        let peer: SocketAddr = "10.0.0.3:7411".parse().unwrap();
        let first = callbacks.attach(peer);
        let mut second = callbacks.attach(peer);
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(10), callbacks.ask(peer, 0));
        assert!(given_up.await.is_err());
        let asked = second.next().await.unwrap();
        assert!(!callbacks.awaits(asked.number));
        drop(second);
        drop(first);
        assert!(callbacks.ask(peer, 0).await.is_none());
    }
}
