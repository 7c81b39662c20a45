//! The parent's side of a subscription: sends the wanted blocks as soon as they are present.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp;
use gavotte_swarm::broadcast::serving::Serving;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tonic::async_trait;
use tracing::debug;

use crate::contract::data::{Subscribe, Want};
use crate::error::{FrameError, HandshakeError, WorkError};
use crate::plane::handshake::Channel;
use crate::work::broadcast::feed::HEADER_BYTES;
use crate::work::broadcast::share::Share;
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// Largest number of bytes that the kernel may hold unsent, so that newly wanted blocks do not wait behind earlier
/// ones.
const BACKLOG_BYTES: u32 = 128 << 10;
/// A Cornet's conversation continues for this long even if other peers wait.
const CHAT: Duration = Duration::from_millis(500);
/// The pace of a subscription that must wait: no more of its bytes go to the kernel.
const HELD_BPS: u64 = 1;
/// Bytes reserved from the hold's budget at a time.
const STEP_BYTES: u64 = 4 << 20;

/// A subscriber's request for blocks.
pub struct Subscription(Subscribe);

impl Subscription {
    /// Wraps the subscriber's request.
    pub fn new(asked: Subscribe) -> Self {
        Self(asked)
    }
}

#[async_trait]
impl Answer for Subscription {
    async fn answer(&self, visit: &mut Visit) -> Result<(), WorkError> {
        let hold = Arc::clone(&visit.guest.hold);
        let share = hold.shelf.get::<Share>(&self.0.broadcast_id);
        let share = share.ok_or(WorkError::UnknownJob)?;
        visit.welcome(0).await?;
        let connection = &mut visit.guest.connection;
        if let Err(error) = tcp::set_backlog(&connection.stream, BACKLOG_BYTES) {
            debug!(%error, "cannot limit the backlog");
        }
        let wanted = Wanted {
            one_at_a_time: self.0.one_at_a_time,
            ..Wanted::default()
        };
        let (reader, writer) = connection.stream.split();
        tokio::select! {
            heard = listen(reader, &mut connection.channel, &share, &wanted) => heard,
            sent = send(writer, &share, &wanted, &hold.budget) => sent,
        }
    }
}

#[derive(Default)]
struct Wanted {
    serving: Mutex<Serving>,
    changed: Notify,
    /// Whether the subscription must wait.
    held: AtomicBool,
    /// Whether the subscriber requests one block at a time, as in a Cornet.
    one_at_a_time: bool,
}

impl Wanted {
    fn with<T>(&self, what: impl FnOnce(&mut Serving) -> T) -> T {
        what(&mut self.serving.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn listen(
    mut stream: ReadHalf<'_>,
    channel: &mut Channel,
    share: &Share,
    wanted: &Wanted,
) -> Result<(), WorkError> {
    let count = share.layout().count();
    loop {
        let want: Want = match channel.receive(&mut stream).await {
            Ok(want) => want,
            // The subscriber has all that it wants, or has changed to other parents.
            Err(HandshakeError::Frame(FrameError::Closed)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Bytes of a held subscription that are already in the kernel leave at the old pace.
        wanted.held.store(want.pace_bps == HELD_BPS, Ordering::Relaxed);
        if want.pace_bps != HELD_BPS
            && let Err(error) = tcp::set_pace(stream.as_ref(), want.pace_bps)
        {
            debug!(%error, "cannot set the pace");
        }
        wanted.with(|serving| {
            for span in &want.unwanted {
                let end = span.first.saturating_add(span.count).min(count);
                (span.first..end).for_each(|block| serving.forgo(block));
            }
            for span in &want.wanted {
                let end = span.first.saturating_add(span.count).min(count);
                for block in span.first..end {
                    if wanted.one_at_a_time && share.is_source() {
                        let block = share.instead_of(block);
                        serving.want(block, 0);
                        continue;
                    }
                    serving.want(block, if block == span.first { span.offset } else { 0 });
                }
            }
        });
        wanted.changed.notify_one();
    }
}

async fn send(
    mut stream: WriteHalf<'_>,
    share: &Share,
    wanted: &Wanted,
    budget: &crate::hold::budget::Allowance,
) -> Result<(), WorkError> {
    share.started().await;
    let mut grown = share.grown();
    let mut reservation = budget.reserve(0)?;
    let mut buffer = Vec::new();
    let _slot = if wanted.one_at_a_time {
        share.waiting.fetch_add(1, Ordering::Relaxed);
        let slot = share.slots.acquire().await;
        share.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(slot.map_err(|_| WorkError::Over)?)
    } else {
        None
    };
    let began = Instant::now();
    loop {
        grown.mark_unchanged();
        if wanted.held.load(Ordering::Relaxed) {
            wanted.changed.notified().await;
            continue;
        }
        let piece = wanted.with(|serving| share.next(serving, HEADER_BYTES, &mut buffer))?;
        let Some(piece) = piece else {
            let served = wanted.one_at_a_time && wanted.with(|serving| serving.wanted()) == 0;
            if served && began.elapsed() > CHAT && share.waiting.load(Ordering::Relaxed) > 0 {
                // The peer's turn is over, since others wait.
                return Ok(());
            }
            tokio::select! {
                _ = grown.changed() => {}
                () = wanted.changed.notified() => {}
            }
            continue;
        };
        let mut left = u64::from(piece.length);
        while left > 0 {
            reservation.top_up(STEP_BYTES)?;
            let step = left.min(reservation.unspent());
            reservation.spend(step);
            left -= step;
        }
        for (at, number) in [piece.block, piece.offset, piece.length].into_iter().enumerate() {
            buffer[4 * at..4 * at + 4].copy_from_slice(&number.to_be_bytes());
        }
        stream.write_all(&buffer).await.map_err(WorkError::io("send"))?;
    }
}
