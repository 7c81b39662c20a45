//! The subscriber's side: requests blocks from a parent and stores what arrives.

use std::collections::BTreeMap;
use std::time::Duration;

use gavotte_probe::sockets::tcp;
use gavotte_swarm::broadcast::blocks::Blocks;
use tokio::sync::{mpsc, watch};

use crate::contract::agents::Feed;
use crate::contract::data::{Span, Subscribe, Want, hello::Work};
use crate::error::WorkError;
use crate::plane::dial::Connection;
use crate::plane::stream::readable;
use crate::work::broadcast::lanes::{Heard, Lanes};
use crate::work::broadcast::subscriber::Subscriber;

/// Largest number of spans in one message, which must fit in a frame.
const SPANS: usize = 3000;
/// Number of corrupt copies of a block from one parent after which the subscriber gives that parent up.
const TRIES: u32 = 3;

impl Subscriber {
    /// Runs until it is dropped; the requested blocks may change in the meantime.
    ///
    /// # Errors
    /// If the parent cannot be reached, vanishes, or sends the same block corrupt several times.
    pub(super) async fn run(self, mut feed: watch::Receiver<Feed>) -> Result<(), WorkError> {
        let having = self.hold.dropped.unless(&self.parent, Box::pin(self.have(&mut feed)));
        self.hold.during(having).await
    }

    async fn have(&self, feed: &mut watch::Receiver<Feed>) -> Result<(), WorkError> {
        let now = feed.borrow_and_update().clone();
        let mut asked = Blocks::none(self.share.layout().count());
        let mut wants = self.wants(&now, &mut asked).into_iter();
        let mut subscribe = Subscribe {
            broadcast_id: self.broadcast_id.clone(),
            want: wants.next(),
            encrypt: self.share.encrypted,
            ..Subscribe::default()
        };
        let bytes = asked
            .iter()
            .map(|block| u64::from(self.share.layout().length(block)))
            .sum();
        let round_trip = Duration::try_from_secs_f64(now.round_trip_s).unwrap_or_default();
        let mut lanes = Lanes::new(bytes, round_trip);
        let (opening, mut open) = mpsc::channel(1);
        lanes.widen(now.pace_bps, self, &opening);
        let stream = self.call(Work::Subscribe(subscribe.clone()))?.connect().await?;
        lanes.measured(Duration::from_secs_f64(tcp::info(&stream)?.rtt_s));
        lanes.widen(now.pace_bps, self, &opening);
        drop(opening);
        (subscribe.lane_of, subscribe.alone) = (lanes.number(), lanes.is_short());
        let call = self.call(Work::Subscribe(subscribe))?;
        let mut connection = call.welcomed(call.greet_over(stream).await?).await?;
        for want in wants {
            connection.send(&want).await?;
        }
        let mut incoming = self.incoming(&connection);
        let mut wrong = BTreeMap::new();
        let mut all_open = false;
        loop {
            tokio::select! {
                // No lane sends anything: the channel ends when each is open or has failed.
                _ = open.recv(), if !all_open => {
                    all_open = true;
                    // The host may just leave.
                    let _ = self.connected.send(self.parent.clone());
                }
                changed = feed.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let now = feed.borrow_and_update().clone();
                    lanes.widen(now.pace_bps, self, &mpsc::channel(1).0);
                    for want in self.wants(&now, &mut asked) {
                        connection.send(&want).await?;
                    }
                }
                heard = lanes.heard() => match heard? {
                    Heard::Asked(wanted) => lanes.add(wanted, self),
                    Heard::Corrupt(block) => {
                        let pace_bps = feed.borrow().pace_bps;
                        self.once_more(&mut connection, block, pace_bps, &mut wrong).await?;
                    }
                },
                ready = readable(&connection.stream) => {
                    ready?;
                    let again = incoming.read(&connection.stream, |block, offset, bytes| {
                        self.share.take(block, offset, bytes)
                    })?;
                    if let Some(wanted) = incoming.asked() {
                        lanes.add(wanted, self);
                    }
                    let pace_bps = feed.borrow().pace_bps;
                    for (block, _) in again {
                        self.once_more(&mut connection, block, pace_bps, &mut wrong).await?;
                    }
                }
            }
        }
    }

    /// The messages that request the blocks that are newly wanted, and name those that are no longer wanted. There is at
    /// least one, since each carries the pace.
    fn wants(&self, feed: &Feed, asked: &mut Blocks) -> Vec<Want> {
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
        let parts = wanted.chunks(SPANS).map(|spans| (spans.to_vec(), Vec::new()));
        let wants = unwanted
            .chunks(SPANS)
            .map(|spans| (Vec::new(), spans.to_vec()))
            .chain(parts)
            .map(|(wanted, unwanted)| Want {
                wanted,
                unwanted,
                pace_bps: feed.pace_bps,
            });
        let mut wants: Vec<Want> = wants.collect();
        if wants.is_empty() {
            wants.push(Want {
                pace_bps: feed.pace_bps,
                ..Want::default()
            });
        }
        wants
    }

    /// Requests a block again that was corrupt.
    async fn once_more(
        &self,
        connection: &mut Connection,
        block: u32,
        pace_bps: u64,
        wrong: &mut BTreeMap<u32, u32>,
    ) -> Result<(), WorkError> {
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
