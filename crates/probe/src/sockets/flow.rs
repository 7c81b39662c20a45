//! Sends a gated train in small batches, records the time before and after each batch, and receives the
//! acknowledgements.

use std::os::fd::AsFd;
use std::time::Instant;

use super::SocketError;
use super::path::Path;
use super::raw;
use crate::gated::sender::{BATCH_PACKETS, Batch, MAX_SEGMENTS, SUPER_PACKETS};
use crate::gated::wire::{ACK_BYTES, Ack};
use crate::packet::PacketKey;

/// The sending socket of one gated train.
pub struct FlowSender {
    path: Path,
    key: PacketKey,
    payload_bytes: usize,
    offload: bool,
    buffer: Vec<u8>,
}

impl FlowSender {
    /// A train of packets of `payload_bytes` over `path`, which must carry them in one piece.
    pub fn new(path: Path, key: PacketKey, payload_bytes: u32) -> Self {
        let segment = (payload_bytes as i32).to_ne_bytes();
        // Without offload (kernels before 4.18) a train is only slower.
        let offload = raw::set_option(path.socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment).is_ok();
        let largest = BATCH_PACKETS.max(SUPER_PACKETS * MAX_SEGMENTS);
        Self {
            path,
            key,
            payload_bytes: payload_bytes as usize,
            offload,
            buffer: vec![0; (largest * payload_bytes) as usize],
        }
    }

    /// Whether the kernel accepts several packets as one.
    pub fn offload(&self) -> bool {
        self.offload
    }

    /// Hands a batch to the kernel. Returns the number of packets that were handed over. Stops early when `wanted`
    /// returns false, or when the device refuses offload.
    ///
    /// # Errors
    /// If the system refuses.
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
            // The rest after all whole super-packets forms a shorter one.
            let left = count - at;
            let segments = (batch.segments as usize).min(left);
            let whole = left - left % segments;
            let bytes = &self.buffer[at * payload_bytes..(at + whole) * payload_bytes];
            match raw::send_many(self.path.socket.as_fd(), bytes, segments * payload_bytes) {
                Ok(pieces) => at += pieces * segments,
                Err(error) => match error.raw_os_error() {
                    // A device that cannot compute checksums refuses offload (udp(7)).
                    Some(libc::EIO | libc::EINVAL) if self.offload && segments > 1 => {
                        self.offload = false;
                        break;
                    }
                    // ECONNREFUSED: no process listens on the peer's port (any more).
                    Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => {}
                    Some(libc::EMSGSIZE) => return Err(SocketError::TooLong { payload_bytes }),
                    _ => return Err(SocketError::system("send a train")(error)),
                },
            }
        }
        Ok(at as u32)
    }

    /// Waits until `until` for an acknowledgement that `take` accepts, then passes it all others that have arrived.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn answers(&self, mut until: Instant, mut take: impl FnMut(Ack) -> bool) -> Result<(), SocketError> {
        while raw::wait_readable(self.path.socket.as_fd(), until).map_err(SocketError::system("wait for an answer"))? {
            let mut bytes = [0; ACK_BYTES];
            match self.path.socket.recv(&mut bytes) {
                Ok(ACK_BYTES) => {
                    if Ack::read(&self.key, &bytes).is_ok_and(&mut take) {
                        until = Instant::now();
                    }
                }
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED) => {}
                    // A router has reported a smaller MTU since the train began.
                    Some(libc::EMSGSIZE) => {
                        return Err(SocketError::TooLong {
                            payload_bytes: self.payload_bytes,
                        });
                    }
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
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
