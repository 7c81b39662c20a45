//! The parent's side of a subscription: sends the wanted blocks as soon as they are present.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gavotte_probe::sockets::tcp::{self, TcpInfo};
use gavotte_swarm::broadcast::serving::Piece;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{MissedTickBehavior, interval};
use tonic::async_trait;
use tracing::debug;

use crate::contract::data::{Subscribe, Want};
use crate::error::{FrameError, HandshakeError, WorkError};
use crate::hold::budget::{Allowance, Reservation};
use crate::plane::handshake::Channel;
use crate::plane::several::INITIAL_WINDOW_BYTES;
use crate::plane::shortfall::{self, Seen, Shortfall};
use crate::plane::stream::writable;
use crate::work::broadcast::incoming::{HEADER_BYTES, asking};
use crate::work::broadcast::outgoing::Outgoing;
use crate::work::broadcast::share::Share;
use crate::work::broadcast::wanted::{Place, Turn, Wanted};
use crate::work::kind::Answer;
use crate::work::visit::Visit;

/// Largest number of bytes that the kernel may hold unsent, so that newly wanted blocks do not wait behind earlier
/// ones.
const BACKLOG_BYTES: u32 = 128 << 10;
/// The same for one of several connections: no other can send these.
const LANE_BACKLOG_BYTES: u32 = 4 << 10;
/// Shortest and longest pause of a connection without room for half a block: a sixteenth of its round trip.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));
/// A Cornet's conversation continues for this long even if other peers wait.
const CHAT: Duration = Duration::from_millis(500);
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
        if self.0.encrypt != share.encrypted {
            let text = if share.encrypted {
                "the broadcast is encrypted, but the subscription is not"
            } else {
                "the subscription is encrypted, but the broadcast is not"
            };
            return Err(WorkError::Request(text.into()));
        }
        let wanted = match self.0.lane_of {
            0 => Arc::default(),
            number => share.lanes(&visit.guest.source, number),
        };
        let sending = Sending {
            share: &share,
            wanted: &wanted,
            budget: &hold.budget,
            one_at_a_time: self.0.one_at_a_time,
            alone: self.0.lane_of == 0 || self.0.alone,
            may_ask: self.0.lane_of != 0,
        };
        if let Some(want) = &self.0.want {
            sending.adopt(want, &visit.guest.connection.stream);
        }
        visit.welcome(0).await?;
        let source = &visit.guest.source;
        let connection = &mut visit.guest.connection;
        let mut outgoing = share.outgoing(&connection.channel, source, &hold.name);
        let place = wanted.join(&connection.stream)?;
        let round_trip = Duration::from_secs_f64(tcp::info(&connection.stream)?.rtt_s);
        let looking = async {
            if self.0.want.is_some() && sending.may_ask {
                sending.look(round_trip).await;
            }
            std::future::pending().await
        };
        let (reader, mut writer) = connection.stream.split();
        let sent = async {
            if sending.alone {
                sending.alone(&mut writer, &place, &mut outgoing).await?;
                if !sending.may_ask {
                    // A Cornet's turn is over.
                    return Ok(());
                }
            }
            sending.in_turn(&mut writer, &place, &mut outgoing).await
        };
        tokio::select! {
            heard = sending.listen(reader, &mut connection.channel) => heard,
            sent = sent => sent,
            never = looking => never,
        }
    }
}

/// One connection of a subscription.
struct Sending<'a> {
    share: &'a Share,
    wanted: &'a Wanted,
    budget: &'a Allowance,
    /// Whether the subscriber requests one block at a time, as in a Cornet.
    one_at_a_time: bool,
    /// Whether the subscription begins without any other connection.
    alone: bool,
    /// Whether the parent may ask for more connections.
    may_ask: bool,
}

impl Sending<'_> {
    fn adopt(&self, want: &Want, stream: &TcpStream) {
        let share = self.share;
        let chooses = self.one_at_a_time && share.is_source();
        self.wanted.adopt(want, share.layout().count(), |block| {
            chooses.then(|| share.instead_of(block))
        });
        if self.alone
            && !self.wanted.is_held()
            && let Err(error) = tcp::set_pace(stream, want.pace_bps)
        {
            debug!(%error, "cannot set the pace");
        }
    }

    async fn listen(&self, mut stream: ReadHalf<'_>, channel: &mut Channel) -> Result<(), WorkError> {
        loop {
            let want: Want = match channel.receive(&mut stream).await {
                Ok(want) => want,
                // The subscriber has all that it wants, or has changed to other parents.
                Err(HandshakeError::Frame(FrameError::Closed)) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.adopt(&want, stream.as_ref());
        }
    }

    /// Looks from time to time whether the subscription loses packets at random and is slower than its pace, and asks the
    /// subscriber for more connections then.
    async fn look(&self, round_trip: Duration) {
        let (share, wanted) = (self.share, self.wanted);
        let mut shortfall = Shortfall::default();
        share.started().await;
        let mut looks = interval(shortfall::period(round_trip));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let sight = wanted.look();
            let seen = Seen {
                at: Instant::now(),
                left_bytes: wanted.with(|serving| serving.wanted_bytes(|block| share.layout().length(block))),
                pace_bps: if sight.was_idle || wanted.is_held() {
                    0
                } else {
                    wanted.pace_bps()
                },
                retransmits: sight.retransmits,
                is_queued: sight.is_queued,
            };
            if shortfall.observe(seen, sight.count) {
                let connections = shortfall.connections(sight.count);
                debug!(connections, ?seen, "loses packets at random");
                wanted.ask(connections);
            }
        }
    }

    /// Sends the lowest wanted block of which any bytes are present, over the subscription's only connection. Ends when
    /// there are others, and the blocks that it has begun are sent.
    async fn alone(
        &self,
        stream: &mut WriteHalf<'_>,
        place: &Place<'_>,
        outgoing: &mut Outgoing,
    ) -> Result<(), WorkError> {
        let (share, wanted) = (self.share, self.wanted);
        share.started().await;
        let (mut grown, mut changes) = (share.grown(), wanted.changes());
        let mut reservation = self.budget.reserve(0)?;
        let mut buffer = Vec::new();
        if let Err(error) = tcp::set_backlog((*stream).as_ref(), BACKLOG_BYTES) {
            debug!(%error, "cannot limit the backlog");
        }
        let _slot = if self.one_at_a_time {
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
            wanted.released().await;
            changes.mark_unchanged();
            self.tell(stream, place, outgoing).await?;
            let several = self.may_ask && wanted.is_several();
            if several && !wanted.with(|serving| serving.has_begun()) {
                return Ok(());
            }
            let piece = wanted.with(|serving| share.next(serving, several, HEADER_BYTES, &mut buffer))?;
            let Some(piece) = piece else {
                wanted.set_idle();
                let served = self.one_at_a_time && wanted.with(|serving| serving.wanted()) == 0;
                if served && began.elapsed() > CHAT && share.waiting.load(Ordering::Relaxed) > 0 {
                    // The peer's turn is over, since others wait.
                    return Ok(());
                }
                tokio::select! {
                    _ = grown.changed() => {}
                    _ = changes.changed() => {}
                }
                continue;
            };
            seal(piece, &mut reservation, STEP_BYTES, &mut buffer)?;
            let wire = outgoing.wire(&buffer)?;
            place.give(wire.len());
            stream.write_all(wire).await.map_err(WorkError::io("send"))?;
        }
    }

    /// Asks the subscriber for more connections, if there are too few.
    async fn tell(
        &self,
        stream: &mut WriteHalf<'_>,
        place: &Place<'_>,
        outgoing: &mut Outgoing,
    ) -> Result<(), WorkError> {
        if let Some(connections) = self.wanted.asked() {
            let words = asking(connections);
            let wire = outgoing.wire(&words)?;
            place.give(wire.len());
            stream.write_all(wire).await.map_err(WorkError::io("send"))?;
        }
        Ok(())
    }

    /// Sends over one of several connections: whenever it has room, the lowest block that no other has claimed.
    async fn in_turn(
        &self,
        stream: &mut WriteHalf<'_>,
        place: &Place<'_>,
        outgoing: &mut Outgoing,
    ) -> Result<(), WorkError> {
        let (share, wanted) = (self.share, self.wanted);
        if let Err(error) = tcp::set_backlog(stream.as_ref(), LANE_BACKLOG_BYTES) {
            debug!(%error, "cannot limit the backlog");
        }
        share.started().await;
        let mut grown = share.grown();
        let mut reservation = self.budget.reserve(0)?;
        let (mut buffer, mut set_bps) = (Vec::new(), 0);
        loop {
            let info = room(stream.as_ref()).await?;
            wanted.see(place, &info);
            let claimed = wanted.claim(place, share.grown(), |serving| share.claim(serving)).await;
            let Turn::Block(block, mut sent) = claimed else {
                let pause = Duration::from_secs_f64(info.rtt_s / 4.0);
                tokio::time::sleep(pause.clamp(LOOK.0, 4 * LOOK.1)).await;
                continue;
            };
            self.tell(stream, place, outgoing).await?;
            while sent < share.layout().length(block) {
                grown.mark_unchanged();
                let Some(piece) = share.piece(block, sent, HEADER_BYTES, &mut buffer)? else {
                    // The sender lives as long as the share.
                    let _ = grown.changed().await;
                    continue;
                };
                sent += piece.length;
                seal(piece, &mut reservation, u64::from(piece.length), &mut buffer)?;
                let wire = outgoing.wire(&buffer)?;
                place.give(wire.len());
                self.hand_over(stream, wire, &mut set_bps).await?;
            }
            wanted.sent(place, block);
        }
    }

    /// Gives bytes to the kernel when the pace of all connections together allows it.
    async fn hand_over(&self, stream: &WriteHalf<'_>, bytes: &[u8], set_bps: &mut u64) -> Result<(), WorkError> {
        let (wanted, mut left) = (self.wanted, bytes);
        while !left.is_empty() {
            writable(stream.as_ref()).await?;
            wanted.released().await;
            let turn = wanted.pacer.turn(|| wanted.pace_bps()).await;
            let pace_bps = wanted.pace_bps();
            if pace_bps != *set_bps && !wanted.is_held() {
                // A first window leaves at the pace, not as a burst.
                tcp::set_pace(stream.as_ref(), pace_bps)?;
                *set_bps = pace_bps;
            }
            match stream.try_write(left) {
                Ok(count) => {
                    turn.sends(count as u64);
                    left = &left[count..];
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(WorkError::io("send")(error)),
            }
        }
        Ok(())
    }
}

/// Takes a piece's bytes from the budget and writes its header.
fn seal(piece: Piece, reservation: &mut Reservation<'_>, step_bytes: u64, buffer: &mut [u8]) -> Result<(), WorkError> {
    let mut left = u64::from(piece.length);
    while left > 0 {
        reservation.top_up(step_bytes)?;
        let step = left.min(reservation.unspent());
        reservation.spend(step);
        left -= step;
    }
    for (at, number) in [piece.block, piece.offset, piece.length].into_iter().enumerate() {
        buffer[4 * at..4 * at + 4].copy_from_slice(&number.to_be_bytes());
    }
    Ok(())
}

/// Waits until half a first window can leave at once, so that no block waits on a full connection while others are free.
/// Returns what the connection shows.
async fn room(stream: &TcpStream) -> Result<TcpInfo, WorkError> {
    loop {
        let info = tcp::info(stream)?;
        let under_way = u64::from(info.unacknowledged) * u64::from(info.mss_bytes) + info.unsent_bytes;
        if under_way == 0 || under_way + INITIAL_WINDOW_BYTES / 2 <= info.cwnd_bytes {
            return Ok(info);
        }
        let pause = Duration::from_secs_f64(info.rtt_s / 16.0).clamp(LOOK.0, LOOK.1);
        tokio::time::sleep(pause).await;
    }
}
