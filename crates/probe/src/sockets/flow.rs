//! Sends a gated train: small batches whose hand-over to the kernel is timed on both sides, and the answers that come back.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use super::SocketError;
use super::raw;
use super::sender::connected;
use crate::gated::sender::{BATCH_PACKETS, Batch, MAX_SEGMENTS, SUPER_PACKETS};
use crate::gated::wire::{ACK_BYTES, Ack};
use crate::packet::PacketKey;

/// The socket that one gated train leaves from.
pub struct FlowSender {
    socket: UdpSocket,
    key: PacketKey,
    payload_bytes: usize,
    offload: bool,
    buffer: Vec<u8>,
}

impl FlowSender {
    /// Connects a socket to `peer`, from the address `local` if one is given.
    ///
    /// # Errors
    /// When the socket cannot be set up.
    pub fn connect(
        local: Option<IpAddr>,
        peer: SocketAddr,
        key: PacketKey,
        payload_bytes: u32,
    ) -> Result<Self, SocketError> {
        let socket = connected(local, peer)?;
        let segment = (payload_bytes as i32).to_ne_bytes();
        // Without offload (kernels before 4.18) a train is only slower.
        let offload = raw::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment).is_ok();
        let largest = BATCH_PACKETS.max(SUPER_PACKETS * MAX_SEGMENTS);
        Ok(Self {
            socket,
            key,
            payload_bytes: payload_bytes as usize,
            offload,
            buffer: vec![0; (largest * payload_bytes) as usize],
        })
    }

    /// Whether the kernel takes several packets as one.
    pub fn offload(&self) -> bool {
        self.offload
    }

    /// Hands a batch to the kernel and tells how many of its packets that were. Stops early when `wanted` turns false, or
    /// when the device turns out to refuse offload.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn send(&mut self, batch: &Batch, wanted: impl Fn() -> bool) -> Result<u32, SocketError> {
        let payload_bytes = self.payload_bytes;
        let mut count = 0;
        for (data, bytes) in batch.packets().zip(self.buffer.chunks_exact_mut(payload_bytes)) {
            data.write(&self.key, bytes)
                .map_err(|_| SocketError::TooLong { payload_bytes })?;
            count += 1;
        }
        let mut at = 0;
        while at < count && wanted() {
            // What is left over after whole super-packets goes out as one that is shorter.
            let left = count - at;
            let segments = (batch.segments as usize).min(left);
            let whole = left - left % segments;
            let bytes = &self.buffer[at * payload_bytes..(at + whole) * payload_bytes];
            match raw::send_many(self.socket.as_fd(), bytes, segments * payload_bytes) {
                Ok(pieces) => at += pieces * segments,
                Err(error) => match error.raw_os_error() {
                    // A device that cannot checksum refuses offload (udp(7)).
                    Some(libc::EIO | libc::EINVAL) if self.offload && segments > 1 => {
                        self.offload = false;
                        break;
                    }
                    // ECONNREFUSED: the answer of a port that nobody listens on (any more).
                    Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => {}
                    Some(libc::EMSGSIZE) => return Err(SocketError::TooLong { payload_bytes }),
                    _ => return Err(SocketError::system("send a train")(error)),
                },
            }
        }
        Ok(at as u32)
    }

    /// Waits until `until` for an answer that `take` has use for, then hands it all others that are there.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn answers(&self, mut until: Instant, mut take: impl FnMut(Ack) -> bool) -> Result<(), SocketError> {
        while raw::wait_readable(self.socket.as_fd(), until).map_err(SocketError::system("wait for an answer"))? {
            let mut bytes = [0; ACK_BYTES];
            match self.socket.recv(&mut bytes) {
                Ok(ACK_BYTES) => {
                    if Ack::read(&self.key, &bytes).is_ok_and(&mut take) {
                        until = Instant::now();
                    }
                }
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => {}
                    _ => return Err(SocketError::system("receive an answer")(error)),
                },
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for FlowSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSender")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}
