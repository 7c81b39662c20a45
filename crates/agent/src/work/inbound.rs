//! Receives the packets of one train.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use gavotte_probe::gated::wire::Ack;
use gavotte_probe::mtu::Family;
use gavotte_probe::mtu::wire::Size;
use gavotte_probe::packet::PacketKey;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::{self, BATCH, TrainReceiver};
use tokio::sync::OwnedMutexGuard;

/// The receiving end of one train.
pub(super) struct Inbound {
    receiver: OwnedMutexGuard<TrainReceiver>,
    source: IpAddr,
    key: PacketKey,
    probe_id: u64,
    overflow: u32,
    clock_steps: u32,
    from: Option<SocketAddr>,
    hops: Option<u32>,
}

/// One packet from the train's source.
pub(super) struct Piece<'a> {
    /// The packet's first bytes.
    pub bytes: &'a [u8],
    /// Size of the packet's UDP payload in bytes.
    pub payload_bytes: u32,
    /// The kernel's receive timestamp, in nanoseconds since 1970.
    pub stamp_ns: Option<u64>,
    /// Number of packets that the socket had dropped by then.
    pub overflow: u32,
}

impl Inbound {
    /// Listens for packets from `source` with `probe_id`. Earlier drops of the socket do not count.
    pub(super) fn new(
        mut receiver: OwnedMutexGuard<TrainReceiver>,
        source: IpAddr,
        key: PacketKey,
        probe_id: u64,
    ) -> Self {
        Self {
            overflow: receiver.overflow(),
            clock_steps: receiver.clock_steps(),
            receiver,
            source,
            key,
            probe_id,
            from: None,
            hops: None,
        }
    }

    /// The address family of the train's path.
    pub(super) fn family(&self) -> Family {
        Family::of(self.source)
    }

    /// Passes the packets that arrive until `until` to `take`, which returns whether a packet belongs to the train.
    /// Answers the packets of an MTU search. Returns whether the socket was emptied.
    pub(super) fn read(
        &mut self,
        until: Instant,
        mut take: impl FnMut(&PacketKey, &Piece<'_>) -> bool,
    ) -> Result<bool, SocketError> {
        let family = self.family();
        let mut fits: Vec<(SocketAddr, Size)> = Vec::new();
        let count = self.receiver.receive(until, |datagram| {
            if datagram.source != self.source {
                return;
            }
            let piece = Piece {
                bytes: datagram.kept,
                payload_bytes: datagram.length as u32,
                stamp_ns: datagram.stamp_ns,
                overflow: datagram.overflow.wrapping_sub(self.overflow),
            };
            if let Ok(size) = Size::read(&self.key, piece.bytes) {
                if size.probe_id == self.probe_id && family.packet_bytes(piece.payload_bytes) == size.mtu_bytes {
                    fits.push((datagram.from(), size));
                }
            } else if take(&self.key, &piece) {
                self.from = Some(datagram.from());
                self.hops = self.hops.or_else(|| datagram.ttl.and_then(receiver::hops));
            }
        })?;
        for (from, size) in fits {
            self.receiver.answer(from, &size.answer(&self.key));
        }
        Ok(count < BATCH)
    }

    /// Sends an acknowledgement to the sender of the train's last packet.
    pub(super) fn answer(&self, ack: &Ack) {
        if let Some(from) = self.from {
            self.receiver.answer(from, &ack.write(&self.key));
        }
    }

    /// Size of the socket's buffer in bytes.
    pub(super) fn buffer_bytes(&self) -> u32 {
        self.receiver.buffer_bytes()
    }

    /// Number of packets that the socket has dropped since the start.
    pub(super) fn overflow(&self) -> u64 {
        u64::from(self.receiver.overflow().wrapping_sub(self.overflow))
    }

    /// Whether the clock of packet timestamps was set since the start, so that the timestamps are wrong.
    pub(super) fn clock_was_set(&mut self) -> bool {
        self.receiver.clock_steps() != self.clock_steps
    }

    /// Number of hops; 0 if unknown.
    pub(super) fn hops(&self) -> u32 {
        self.hops.unwrap_or(0)
    }
}

/// The error of a train with wrong timestamps; empty if the clock was not set.
pub(super) fn clock_error(was_set: bool) -> String {
    let error = "its clock was set during the train, perhaps by NTP; measure again";
    if was_set { error.to_owned() } else { String::new() }
}

/// The error of packets without a kernel timestamp; empty if there are none.
pub(super) fn stamp_error(unstamped: u64) -> String {
    match unstamped {
        0 => String::new(),
        count => format!("{count} packets arrived without a kernel time stamp"),
    }
}
