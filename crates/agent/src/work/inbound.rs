//! The packets of one train, as they come in.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::{self, BATCH, TrainReceiver};
use tokio::sync::OwnedMutexGuard;

/// Where one train comes in.
pub(super) struct Inbound {
    receiver: OwnedMutexGuard<TrainReceiver>,
    source: IpAddr,
    payload_bytes: usize,
    overflow: u32,
    port: u16,
    hops: Option<u32>,
}

impl Inbound {
    /// Listens for packets of `payload_bytes` from `source`. What the socket has dropped before does not count.
    pub(super) fn new(receiver: OwnedMutexGuard<TrainReceiver>, source: IpAddr, payload_bytes: u32) -> Self {
        Self {
            overflow: receiver.overflow(),
            receiver,
            source,
            payload_bytes: payload_bytes as usize,
            port: 0,
            hops: None,
        }
    }

    /// Hands what comes until `until` to `take`, which tells whether it is of the train: the first bytes of a packet, the
    /// kernel's stamp, and how many packets the socket had dropped by then. Returns whether it took all there was.
    pub(super) fn read(
        &mut self,
        until: Instant,
        mut take: impl FnMut(&[u8], Option<u64>, u32) -> bool,
    ) -> Result<bool, SocketError> {
        let count = self.receiver.receive(until, |datagram| {
            let fits = datagram.source == self.source && datagram.length == self.payload_bytes;
            let overflow = datagram.overflow.wrapping_sub(self.overflow);
            if fits && take(datagram.kept, datagram.stamp_ns, overflow) {
                self.port = datagram.port;
                self.hops = self.hops.or_else(|| datagram.ttl.and_then(receiver::hops));
            }
        })?;
        Ok(count < BATCH)
    }

    /// Answers whoever sent the train's last packet.
    pub(super) fn answer(&self, bytes: &[u8]) {
        self.receiver.answer(SocketAddr::new(self.source, self.port), bytes);
    }

    /// Size of the socket's buffer, in bytes.
    pub(super) fn buffer_bytes(&self) -> u32 {
        self.receiver.buffer_bytes()
    }

    /// Packets that the socket has dropped meanwhile.
    pub(super) fn overflow(&self) -> u64 {
        u64::from(self.receiver.overflow().wrapping_sub(self.overflow))
    }

    /// Path length, 0 when unknown.
    pub(super) fn hops(&self) -> u32 {
        self.hops.unwrap_or(0)
    }
}

/// What to say of packets without a kernel stamp: nothing if there were none.
pub(super) fn stamp_error(unstamped: u64) -> String {
    match unstamped {
        0 => String::new(),
        count => format!("{count} packets arrived without a kernel time stamp"),
    }
}
