//! Sends the bursts of a train.

use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use super::SocketError;
use super::path::Path;
use super::raw;
use crate::packet::{Packet, PacketKey};
use crate::train::Shape;

/// The sending socket of one train.
pub struct TrainSender {
    path: Path,
    key: PacketKey,
    probe_id: u64,
    shape: Shape,
    buffer: Vec<u8>,
}

impl TrainSender {
    /// A train of this shape over `path`, which must carry its packets in one piece.
    pub fn new(path: Path, key: PacketKey, probe_id: u64, shape: Shape) -> Self {
        Self {
            path,
            key,
            probe_id,
            shape,
            buffer: vec![0; shape.packets() as usize * shape.payload_bytes() as usize],
        }
    }

    /// Prepares burst number `burst`: all its packets, authenticated and with the present time.
    pub fn prepare(&mut self, burst: u32) {
        let sent_ns = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_nanos() as u64);
        for (seq, bytes) in (0..).zip(self.buffer.chunks_exact_mut(self.shape.payload_bytes() as usize)) {
            let packet = Packet {
                probe_id: self.probe_id,
                burst,
                seq,
                sent_ns,
            };
            // The payload of a Shape always has room for a header.
            let _ = packet.write(&self.key, bytes);
        }
    }

    /// Sends the prepared burst back to back. Stops early when `wanted` returns false. Returns the number of packets
    /// sent, even with an error.
    pub fn send(&self, wanted: impl Fn() -> bool) -> (u64, Result<(), SocketError>) {
        let payload_bytes = self.shape.payload_bytes() as usize;
        let mut left = self.buffer.as_slice();
        let mut sent = 0;
        while !left.is_empty() && wanted() {
            match raw::send_many(self.path.socket.as_fd(), left, payload_bytes) {
                Ok(count) => {
                    sent += count as u64;
                    left = left.get(count * payload_bytes..).unwrap_or_default();
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    Some(libc::EMSGSIZE) => {
                        return (sent, Err(SocketError::TooLong { payload_bytes }));
                    }
                    _ => return (sent, Err(SocketError::system("send a burst")(error))),
                },
            }
        }
        (sent, Ok(()))
    }
}
