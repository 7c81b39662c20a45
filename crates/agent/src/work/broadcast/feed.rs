//! The subscriber's side: requests blocks from a parent and stores what arrives.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use gavotte_swarm::broadcast::blocks::Blocks;
use gavotte_swarm::broadcast::replica::Taken;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::contract::agents::Feed;
use crate::contract::data::{Span, Subscribe, Want, hello::Work};
use crate::error::WorkError;
use crate::hold::Hold;
use crate::plane::Plane;
use crate::plane::dial::{Call, Connection};
use crate::work::broadcast::share::Share;

/// How long the other end of a subscription may be silent.
pub const PATIENCE: Duration = Duration::from_secs(4);
/// Size of the block number, offset and length before each piece.
pub(super) const HEADER_BYTES: usize = 12;
/// Bytes read from a connection in one call.
const GULP_BYTES: usize = 128 << 10;
/// Largest number of spans in one message, which must fit in a frame.
const SPANS: usize = 3000;
/// How long connecting may take.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Number of corrupt copies of a block from one parent after which the subscriber gives that parent up.
const TRIES: u32 = 3;

/// Receives blocks from one parent.
pub(super) struct Subscriber {
    pub(super) plane: Arc<Plane>,
    pub(super) hold: Arc<Hold>,
    pub(super) share: Arc<Share>,
    pub(super) broadcast_id: String,
    pub(super) congestion: String,
    pub(super) parent: String,
}

impl Subscriber {
    /// Runs until it is dropped; the requested blocks may change in the meantime.
    ///
    /// # Errors
    /// If the parent cannot be reached, vanishes, or sends the same block corrupt several times.
    pub(super) async fn run(self, mut feed: watch::Receiver<Feed>) -> Result<(), WorkError> {
        let having = self.hold.dropped.unless(&self.parent, self.have(&mut feed));
        self.hold.during(having).await
    }

    async fn have(&self, feed: &mut watch::Receiver<Feed>) -> Result<(), WorkError> {
        let call = Call {
            plane: &self.plane,
            hold: &self.hold,
            peer: self.hold.peers.get(&self.parent)?,
            work: Work::Subscribe(Subscribe {
                broadcast_id: self.broadcast_id.clone(),
                one_at_a_time: false,
            }),
            congestion: &self.congestion,
            connect: CONNECT_LIMIT,
            patience: Some(PATIENCE),
            ready: CONNECT_LIMIT,
        };
        let mut connection = call.dial().await?;
        let mut asked = Blocks::none(self.share.layout().count());
        let mut incoming = Incoming::default();
        let mut wrong = BTreeMap::new();
        let now = feed.borrow_and_update().clone();
        self.ask(&mut connection, &now, &mut asked).await?;
        loop {
            tokio::select! {
                changed = feed.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let now = feed.borrow_and_update().clone();
                    self.ask(&mut connection, &now, &mut asked).await?;
                }
                ready = connection.stream.readable() => {
                    ready.map_err(WorkError::io("receive"))?;
                    let again = incoming.read(&connection.stream, |block, offset, bytes| {
                        self.share.take(block, offset, bytes)
                    })?;
                    let pace_bps = feed.borrow().pace_bps;
                    for (block, taken) in again {
                        self.once_more(&mut connection, block, taken, pace_bps, &mut wrong).await?;
                    }
                }
            }
        }
    }

    /// Sends the parent the blocks that are newly wanted, and those that are no longer wanted.
    async fn ask(&self, connection: &mut Connection, feed: &Feed, asked: &mut Blocks) -> Result<(), WorkError> {
        let count = self.share.layout().count();
        let meant = if feed.blocks.is_empty() {
            Blocks::all(count)
        } else {
            Blocks::from_bytes(count, &feed.blocks)
        };
        let lacking = meant.without(&self.share.have());
        let unwanted: Vec<Span> = spans(&asked.without(&meant), |_| 0);
        let wanted = spans(&lacking.without(asked), |block| self.share.filled(block));
        *asked = asked.within(&meant);
        asked.add(&lacking);
        let mut wants = vec![Want::default()];
        let parts = wanted.chunks(SPANS).map(|spans| (spans.to_vec(), Vec::new()));
        for (wanted, unwanted) in unwanted
            .chunks(SPANS)
            .map(|spans| (Vec::new(), spans.to_vec()))
            .chain(parts)
        {
            wants.push(Want {
                wanted,
                unwanted,
                pace_bps: feed.pace_bps,
            });
        }
        wants[0].pace_bps = feed.pace_bps;
        for want in wants {
            connection.send(&want).await?;
        }
        Ok(())
    }

    /// Requests a block again that was corrupt, or of which a part is missing.
    async fn once_more(
        &self,
        connection: &mut Connection,
        block: u32,
        taken: Taken,
        pace_bps: u64,
        wrong: &mut BTreeMap<u32, u32>,
    ) -> Result<(), WorkError> {
        if taken == Taken::Bad {
            let times = wrong.entry(block).or_default();
            *times += 1;
            if *times >= TRIES {
                let (parent, layout) = (&self.parent, self.share.layout());
                let text = format!(
                    "block {block} of {} from {parent} was corrupt {times} times",
                    layout.count()
                );
                return Err(WorkError::Refused(text));
            }
        }
        let span = Span {
            first: block,
            count: 1,
            offset: self.share.filled(block),
        };
        let want = Want {
            wanted: vec![span],
            unwanted: Vec::new(),
            pace_bps,
        };
        connection.send(&want).await
    }
}

/// Converts blocks to spans. A block of which some bytes are present starts a span.
fn spans(blocks: &Blocks, filled: impl Fn(u32) -> u32) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for block in blocks.iter() {
        let offset = filled(block);
        match spans.last_mut() {
            Some(last) if offset == 0 && last.first + last.count == block => last.count += 1,
            _ => spans.push(Span {
                first: block,
                count: 1,
                offset,
            }),
        }
    }
    spans
}

/// Splits the bytes of a connection into pieces. The available part of a piece is passed on before the rest arrives.
#[derive(Default)]
pub(super) struct Incoming {
    header: Vec<u8>,
    block: u32,
    offset: u32,
    left: u32,
    buffer: Vec<u8>,
}

impl Incoming {
    /// Reads the bytes that have arrived. Returns the blocks that must be requested again, with the reason.
    pub(super) fn read(
        &mut self,
        stream: &TcpStream,
        mut take: impl FnMut(u32, u32, &[u8]) -> Result<Taken, WorkError>,
    ) -> Result<Vec<(u32, Taken)>, WorkError> {
        self.buffer.resize(GULP_BYTES, 0);
        let count = match stream.try_read(&mut self.buffer) {
            Ok(0) => {
                return Err(WorkError::io("receive")(io::ErrorKind::UnexpectedEof.into()));
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) => return Err(WorkError::io("receive")(error)),
        };
        let buffer = std::mem::take(&mut self.buffer);
        let again = self.cut(&buffer[..count], &mut take);
        self.buffer = buffer;
        again
    }

    fn cut(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(u32, u32, &[u8]) -> Result<Taken, WorkError>,
    ) -> Result<Vec<(u32, Taken)>, WorkError> {
        let mut again = Vec::new();
        while !bytes.is_empty() {
            if self.left == 0 {
                let some = bytes.len().min(HEADER_BYTES - self.header.len());
                self.header.extend_from_slice(&bytes[..some]);
                bytes = &bytes[some..];
                if self.header.len() == HEADER_BYTES {
                    let number = |at: usize| {
                        let word = [0, 1, 2, 3].map(|byte| self.header[4 * at + byte]);
                        u32::from_be_bytes(word)
                    };
                    (self.block, self.offset, self.left) = (number(0), number(1), number(2));
                    self.header.clear();
                }
                continue;
            }
            let some = bytes.len().min(self.left as usize);
            let taken = take(self.block, self.offset, &bytes[..some])?;
            self.offset = self.offset.saturating_add(some as u32);
            self.left -= some as u32;
            bytes = &bytes[some..];
            if taken == Taken::Bad {
                again.push((self.block, taken));
            }
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_are_the_same_however_they_come(
            pieces in prop::collection::vec((0u32..9, 0u32..1000, prop::collection::vec(any::<u8>(), 1..50)), 0..8),
            cuts in prop::collection::vec(1usize..40, 1..30),
        ) {
            let mut wire = Vec::new();
            let mut sent = Vec::new();
            for (block, offset, bytes) in &pieces {
                for number in [*block, *offset, bytes.len() as u32] {
                    wire.extend(number.to_be_bytes());
                }
                wire.extend(bytes);
                sent.extend(bytes.iter().zip(*offset..).map(|(byte, at)| (*block, at, *byte)));
            }
            let (mut incoming, mut came, mut rest) = (Incoming::default(), Vec::new(), wire.as_slice());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at(cut.min(rest.len()));
                rest = later;
                incoming.cut(now, |block, offset, bytes| {
                    came.extend(bytes.iter().zip(offset..).map(|(byte, at)| (block, at, *byte)));
                    Ok(Taken::Grew)
                }).unwrap();
            }
            prop_assert_eq!(came, sent);
        }
    }
}
