//! A Cornet's receiver: fetches one block at a time from each of a few peers, which `gavotte-swarm` picks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gavotte_swarm::broadcast::blocks::Blocks;
use gavotte_swarm::broadcast::cornet::{Picker, SLOTS};
use gavotte_swarm::broadcast::replica::Taken;
use tokio::sync::mpsc;
use tracing::debug;

use crate::contract::agents::{BroadcastRequest, Failure, FeedBroken, Fetched};
use crate::contract::data::{Span, Subscribe, Want, hello::Work};
use crate::error::WorkError;
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::dial::{Call, Connection};
use crate::plane::stream::readable;
use crate::work::broadcast::incoming::Incoming;
use crate::work::broadcast::share::Share;
use crate::work::broadcast::subscriber::{CONNECT_LIMIT, PATIENCE};

/// How long to wait if there is nothing to fetch, or after a peer failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Fetches all missing blocks.
pub(super) struct Fetcher {
    plane: Arc<Plane>,
    hold: Arc<Hold>,
    share: Arc<Share>,
    broadcast_id: String,
    congestion: String,
    refused: mpsc::UnboundedSender<FeedBroken>,
    picker: Mutex<Picker>,
}

impl Fetcher {
    /// `refused` gets the peers that refuse this host's requests as invalid: waiting does not help then.
    pub(super) fn new(
        plane: &Arc<Plane>,
        hold: &Arc<Hold>,
        share: &Arc<Share>,
        request: &BroadcastRequest,
        refused: mpsc::UnboundedSender<FeedBroken>,
    ) -> Self {
        Self {
            plane: Arc::clone(plane),
            hold: Arc::clone(hold),
            share: Arc::clone(share),
            broadcast_id: request.broadcast_id.clone(),
            congestion: request.congestion.clone(),
            refused,
            picker: Mutex::new(Picker::new(request.seed)),
        }
    }

    /// Fetches until no block is missing.
    pub(super) async fn run(&self) {
        let hearing = async {
            let mut peers = self.share.peers();
            loop {
                let answer = peers.borrow_and_update().clone();
                let count = self.share.layout().count();
                let known = answer
                    .into_iter()
                    .map(|peer| (peer.name, Blocks::from_bytes(count, &peer.have)));
                let known: BTreeMap<_, _> = known.collect();
                self.picker().set_peers(known);
                if peers.changed().await.is_err() {
                    return;
                }
            }
        };
        const { assert!(SLOTS == 4) };
        let slots = async { tokio::join!(self.slot(), self.slot(), self.slot(), self.slot()) };
        tokio::select! {
            () = hearing => {}
            _ = slots => {}
        }
    }

    async fn slot(&self) {
        while !*self.share.whole().borrow() {
            let peer = self.picker().peer(&self.share.have());
            let Some(peer) = peer else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let chat = self.hold.dropped.unless(&peer, self.chat(&peer)).await;
            self.picker().end(&peer);
            if let Err(error) = chat {
                debug!(peer, %error, "a conversation failed");
                if error.failure() == Failure::Invalid {
                    self.refuse(peer, &error);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Fetches from one peer for as long as the peer has missing blocks and serves them.
    async fn chat(&self, peer: &str) -> Result<(), WorkError> {
        let call = Call {
            plane: &self.plane,
            hold: &self.hold,
            peer: self.hold.peers.get(peer)?,
            work: Work::Subscribe(Subscribe {
                broadcast_id: self.broadcast_id.clone(),
                one_at_a_time: true,
                encrypt: self.share.encrypted,
                ..Subscribe::default()
            }),
            congestion: &self.congestion,
            connect: CONNECT_LIMIT,
            patience: Some(PATIENCE),
            ready: CONNECT_LIMIT,
        };
        let mut connection = call.dial().await?;
        let mut incoming = self.share.incoming(&connection.channel, &self.hold.name, peer);
        loop {
            let block = self.picker().block(peer, &self.share.have());
            let Some(block) = block else { return Ok(()) };
            let began = Instant::now();
            self.fetch(peer, &mut connection, &mut incoming, block).await?;
            self.share.fetched(Fetched {
                peer: peer.to_owned(),
                seconds: began.elapsed().as_secs_f64(),
            });
        }
    }

    async fn fetch(
        &self,
        peer: &str,
        connection: &mut Connection,
        incoming: &mut Incoming,
        block: u32,
    ) -> Result<(), WorkError> {
        let span = Span {
            first: block,
            count: 1,
            offset: self.share.filled(block),
        };
        let want = Want {
            wanted: vec![span],
            ..Want::default()
        };
        connection.send(&want).await?;
        let (layout, mut ended, mut coming) = (self.share.layout(), false, block);
        while !ended {
            readable(&connection.stream).await?;
            let mut take = |block: u32, offset: u32, bytes: &[u8]| {
                if block != coming {
                    coming = block;
                    self.picker().substituted(peer, block);
                }
                ended |= offset + bytes.len() as u32 >= layout.length(block);
                self.share.take(block, offset, bytes)
            };
            // A corrupt block is requested again like any missing block.
            let _: Vec<(u32, Taken)> = incoming.read(&connection.stream, &mut take)?;
        }
        Ok(())
    }

    fn refuse(&self, peer: String, error: &WorkError) {
        let mut broken = FeedBroken {
            parent: peer,
            error: error.to_string(),
            ..FeedBroken::default()
        };
        broken.set_failure(error.failure());
        // No one listens when the host's part has ended.
        let _ = self.refused.send(broken);
    }

    fn picker(&self) -> MutexGuard<'_, Picker> {
        // The lock cannot be poisoned half-way through a change: no code panics while it is held.
        self.picker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
