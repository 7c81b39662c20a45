//! A host's share in a broadcast: the blocks that it has, their place on disk, and the parents of the others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use gavotte_swarm::broadcast::blocks::Blocks;
use gavotte_swarm::broadcast::cornet::{Rotation, SLOTS};
use gavotte_swarm::broadcast::layout::{FAR_BLOCK_BYTES, Layout};
use gavotte_swarm::broadcast::replica::{Hash, Replica, Taken};
use gavotte_swarm::broadcast::serving::{self, Piece, Serving};
use tokio::sync::{Semaphore, watch};

use crate::contract::agents::{Feed, Fetched, Holding, SwarmPeer};
use crate::error::WorkError;
use crate::hold::jobs::State;
use crate::plane::handshake::Channel;
use crate::plane::records::Ends;
use crate::work::broadcast::cache::Cache;
use crate::work::broadcast::file::Store;
use crate::work::broadcast::incoming::Incoming;
use crate::work::broadcast::outgoing::Outgoing;
use crate::work::broadcast::wanted::Wanted;

/// Largest piece in bytes: large pieces save the cost of many small ones if many bytes are available.
const MOST: u32 = 64 << 10;
/// The same for one of several connections, which send in turn: what a new one sends before the first acknowledgement.
const MOST_IN_TURN: u32 = FAR_BLOCK_BYTES;
/// Largest number of block times that wait for a report.
const MOST_FETCHED: usize = 1000;

/// The part of an object that a host has.
#[derive(Debug)]
pub(super) struct Share {
    store: Store,
    layout: Layout,
    piece_bytes: u32,
    replica: Mutex<Replica>,
    grown: watch::Sender<u64>,
    whole: watch::Sender<bool>,
    feeds: watch::Sender<Vec<Feed>>,
    state: watch::Receiver<State>,
    sent_bytes: AtomicU64,
    bad_blocks: AtomicU64,
    peers: watch::Sender<Vec<SwarmPeer>>,
    rotation: Mutex<Rotation>,
    fetched: Mutex<Vec<Fetched>>,
    /// Subscriptions over several connections, by the subscriber's name and the number that it chose.
    lanes: Mutex<BTreeMap<(String, u64), Weak<Wanted>>>,
    /// A Cornet's sending slots, and the number of peers that wait for one.
    pub(super) slots: Semaphore,
    pub(super) waiting: AtomicU64,
    /// Bytes that a cache had when this began.
    pub(super) cached_bytes: u64,
    /// Whether all blocks are encrypted on their way.
    pub(super) encrypted: bool,
}

impl Share {
    pub(super) fn new(store: Store, replica: Replica, piece_bytes: u32, state: watch::Receiver<State>) -> Self {
        Self {
            store,
            layout: replica.layout(),
            whole: watch::Sender::new(replica.is_whole()),
            piece_bytes: piece_bytes.clamp(1, MOST),
            replica: Mutex::new(replica),
            grown: watch::Sender::new(0),
            feeds: watch::Sender::new(Vec::new()),
            state,
            sent_bytes: AtomicU64::new(0),
            bad_blocks: AtomicU64::new(0),
            peers: watch::Sender::new(Vec::new()),
            rotation: Mutex::default(),
            fetched: Mutex::default(),
            lanes: Mutex::default(),
            slots: Semaphore::new(SLOTS),
            waiting: AtomicU64::new(0),
            cached_bytes: 0,
            encrypted: false,
        }
    }

    /// Reads the pieces of a connection that the host `connector` has made to `acceptor`.
    pub(super) fn incoming(&self, channel: &Channel, connector: &str, acceptor: &str) -> Incoming {
        let ends = Ends { connector, acceptor };
        Incoming::new(self.encrypted.then(|| channel.opener(ends)))
    }

    /// Sends pieces over a connection that the host `connector` has made to `acceptor`.
    pub(super) fn outgoing(&self, channel: &Channel, connector: &str, acceptor: &str) -> Outgoing {
        let ends = Ends { connector, acceptor };
        Outgoing::new(self.encrypted.then(|| channel.sealer(ends)))
    }

    /// The tracker's newest answer.
    pub(super) fn peers(&self) -> watch::Receiver<Vec<SwarmPeer>> {
        self.peers.subscribe()
    }

    pub(super) fn set_peers(&self, peers: Vec<SwarmPeer>) {
        self.peers.send_replace(peers);
    }

    /// The block that a Cornet's source sends for a request.
    pub(super) fn instead_of(&self, block: u32) -> u32 {
        let mut rotation = self.rotation.lock().unwrap_or_else(PoisonError::into_inner);
        rotation.instead_of(block, self.layout.count())
    }

    /// Records how long a block took.
    pub(super) fn fetched(&self, fetched: Fetched) {
        let mut all = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_FETCHED {
            all.push(fetched);
        }
    }

    pub(super) fn splice(&self, feeds: Vec<Feed>) {
        self.feeds.send_replace(feeds);
    }

    pub(super) fn feeds(&self) -> watch::Receiver<Vec<Feed>> {
        self.feeds.subscribe()
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// A counter that changes whenever a block has grown.
    pub(super) fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Whether the object is complete.
    pub(super) fn whole(&self) -> watch::Receiver<bool> {
        self.whole.subscribe()
    }

    /// Returns when this host may send.
    pub(super) async fn started(&self) {
        let mut state = self.state.clone();
        // If the job ends, the hold's subscriptions end, too.
        let _ = state.wait_for(|state| matches!(state, State::Running(_))).await;
    }

    pub(super) fn holding(&self) -> Holding {
        let replica = self.replica();
        Holding {
            have: replica.have().to_bytes(),
            bytes: replica.bytes(),
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed),
            bad_blocks: self.bad_blocks.load(Ordering::Relaxed),
            cached_bytes: self.cached_bytes,
            fetched: std::mem::take(&mut *self.fetched.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Whether the object is this host's own.
    pub(super) fn is_source(&self) -> bool {
        self.store.is_source()
    }

    pub(super) fn have(&self) -> Blocks {
        self.replica().have().clone()
    }

    pub(super) fn filled(&self, block: u32) -> u32 {
        self.replica().filled(block)
    }

    /// Stores a piece that arrived. Returns that it was ignored if it does not continue its block.
    pub(super) fn take(&self, block: u32, offset: u32, bytes: &[u8]) -> Result<Taken, WorkError> {
        let mut replica = self.replica();
        // Skip bytes that another connection has brought in the meantime.
        let had = replica.filled(block).saturating_sub(offset);
        let (offset, bytes) = match bytes.get(had as usize..) {
            Some(rest) => (offset + had, rest),
            None => return Ok(Taken::Ignored),
        };
        if !replica.is_next(block, offset, bytes.len() as u32) {
            return Ok(Taken::Ignored);
        }
        // Write before the bytes count as present, since they may then be read and passed on at once.
        self.store.write(self.layout.offset(block) + u64::from(offset), bytes)?;
        let taken = replica.take(block, offset, bytes);
        let whole = taken == Taken::Whole && replica.is_whole();
        drop(replica);
        let pieces = |bytes: u32| bytes / self.piece_bytes;
        match taken {
            Taken::Ignored => {}
            Taken::Bad => {
                self.bad_blocks.fetch_add(1, Ordering::Relaxed);
            }
            Taken::Grew if pieces(offset) == pieces(offset + bytes.len() as u32) => {}
            Taken::Grew | Taken::Whole => self.grown.send_modify(|times| *times += 1),
        }
        if whole {
            self.whole.send_replace(true);
        }
        Ok(taken)
    }

    /// What the connections of a subscriber with this number share.
    pub(super) fn lanes(&self, subscriber: &str, number: u64) -> Arc<Wanted> {
        let mut all = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, wanted| wanted.strong_count() > 0);
        let key = (subscriber.to_owned(), number);
        all.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let wanted = Arc::default();
            all.insert(key, Arc::downgrade(&wanted));
            wanted
        })
    }

    /// The next block for one of a subscriber's connections, and how many of its bytes were sent.
    pub(super) fn claim(&self, serving: &mut Serving) -> Option<(u32, u32)> {
        let replica = self.replica();
        serving.claim(
            |block| replica.filled(block),
            |block| self.layout.length(block),
            self.piece_bytes,
        )
    }

    /// The next piece of a claimed block, read into `buffer` after its first `header` bytes.
    pub(super) fn piece(
        &self,
        block: u32,
        sent: u32,
        header: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Piece>, WorkError> {
        let (filled, length) = (self.filled(block), self.layout.length(block));
        let Some(piece) = serving::piece(block, sent, filled, length, self.piece_bytes, MOST_IN_TURN) else {
            return Ok(None);
        };
        self.read(piece, header, buffer)?;
        Ok(Some(piece))
    }

    /// The next piece for a subscriber, read into `buffer` after its first `header` bytes. `begun`: only of blocks that its
    /// connection has begun.
    pub(super) fn next(
        &self,
        serving: &mut Serving,
        begun: bool,
        header: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Piece>, WorkError> {
        let length = |block| self.layout.length(block);
        let piece = {
            let replica = self.replica();
            let filled = |block| replica.filled(block);
            if begun {
                serving.next_begun(filled, length, self.piece_bytes, MOST)
            } else {
                serving.next(filled, length, self.piece_bytes, MOST)
            }
        };
        let Some(piece) = piece else { return Ok(None) };
        self.read(piece, header, buffer)?;
        serving.sent(piece, length(piece.block));
        Ok(Some(piece))
    }

    fn read(&self, piece: Piece, header: usize, buffer: &mut Vec<u8>) -> Result<(), WorkError> {
        buffer.resize(header + piece.length as usize, 0);
        let offset = self.layout.offset(piece.block) + u64::from(piece.offset);
        self.store.read(offset, &mut buffer[header..])?;
        self.sent_bytes.fetch_add(u64::from(piece.length), Ordering::Relaxed);
        Ok(())
    }

    /// Gives a complete copy its final name.
    pub(super) fn keep(&self) -> Result<(), WorkError> {
        self.store.keep()
    }

    /// Adds the blocks of a complete copy to a cache.
    pub(super) fn cache(&self, cache: &Cache, hashes: &[Hash]) -> Result<(), WorkError> {
        let lengths = (0..self.layout.count()).map(|block| self.layout.length(block));
        cache.adopt(hashes.iter().copied().zip(lengths), |block| {
            let mut bytes = vec![0; self.layout.length(block) as usize];
            self.store.read(self.layout.offset(block), &mut bytes)?;
            Ok(bytes)
        })
    }

    fn replica(&self) -> MutexGuard<'_, Replica> {
        // The lock cannot be poisoned half-way through a change: no code panics while it is held.
        self.replica.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
