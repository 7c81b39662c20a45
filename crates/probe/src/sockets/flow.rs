//! Sends a gated train: small batches whose hand-over to the kernel is timed on both sides, and the answers that come back.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use super::SocketError;
use super::raw;
use super::sender::connected;
use crate::gated::wire::{ACK_BYTES, Ack, Data};
use crate::packet::PacketKey;

/// Most packets of one batch without offload. Handing over 16 packets takes 0.1 ms, which the proof of a queue must bear.
pub const BATCH_PACKETS: u32 = 16;
/// Most packets the kernel may be handed as one: 64 is its own limit, and 65,507 bytes are UDP's.
pub const MAX_SEGMENTS: u16 = 32;
const MAX_SUPER_BYTES: u32 = 65_507;
/// Super-packets of one batch.
const SUPER_PACKETS: u32 = 4;

/// The socket that one gated train leaves from.
pub struct FlowSender {
    socket: UdpSocket,
    key: PacketKey,
    probe_id: u64,
    payload_bytes: u32,
    offload: bool,
    buffer: Vec<u8>,
    clock: Instant,
    batch: u32,
    seq: u32,
    ended_ns: u64,
}

impl FlowSender {
    /// Connects a socket to `peer`, from the address `local` if one is given. The sender's clock starts now.
    ///
    /// # Errors
    /// When the socket cannot be set up.
    pub fn connect(
        local: Option<IpAddr>,
        peer: SocketAddr,
        key: PacketKey,
        probe_id: u64,
        payload_bytes: u32,
    ) -> Result<Self, SocketError> {
        let socket = connected(local, peer)?;
        let segment = (payload_bytes as i32).to_ne_bytes();
        // Without offload (kernels before 4.18) a train is only slower.
        let offload = raw::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment).is_ok();
        let largest = BATCH_PACKETS.max(SUPER_PACKETS * u32::from(MAX_SEGMENTS));
        Ok(Self {
            socket,
            key,
            probe_id,
            payload_bytes,
            offload,
            buffer: vec![0; (largest * payload_bytes) as usize],
            clock: Instant::now(),
            batch: 0,
            seq: 0,
            ended_ns: 0,
        })
    }

    /// Packets handed to the kernel so far.
    pub fn sent(&self) -> u32 {
        self.seq
    }

    /// Number of batches so far.
    pub fn batches(&self) -> u32 {
        self.batch
    }

    /// The sender's clock just after the last batch had been taken.
    pub fn ended_ns(&self) -> u64 {
        self.ended_ns
    }

    /// Packets that a batch has with that many segments.
    pub fn batch_packets(&self, segments: u16) -> u32 {
        match self.segments(segments) {
            1 => BATCH_PACKETS,
            segments => SUPER_PACKETS * segments,
        }
    }

    fn segments(&self, advised: u16) -> u32 {
        let most = (MAX_SUPER_BYTES / self.payload_bytes).clamp(1, u32::from(MAX_SEGMENTS));
        if self.offload {
            u32::from(advised).clamp(1, most)
        } else {
            1
        }
    }

    /// Sends one batch of up to `most` packets, `segments` of them as one. Stops early when `wanted` turns false.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn send(&mut self, most: u32, segments: u16, waits: u32, wanted: impl Fn() -> bool) -> Result<(), SocketError> {
        let segments = self.segments(segments);
        let count = most.min(self.batch_packets(segments as u16));
        let payload_bytes = self.payload_bytes as usize;
        let sent_ns = self.now_ns();
        let packets = self.buffer.chunks_exact_mut(payload_bytes).take(count as usize);
        for (seq, bytes) in (self.seq..).zip(packets) {
            let data = Data {
                probe_id: self.probe_id,
                batch: self.batch,
                seq,
                sent_ns,
                ended_ns: self.ended_ns,
                waits,
            };
            data.write(&self.key, bytes)
                .map_err(|_| SocketError::TooLong { payload_bytes })?;
        }
        let mut at = 0;
        while at < count as usize && wanted() {
            // What is left over after whole super-packets goes out as one that is shorter.
            let left = count as usize - at;
            let segments = (segments as usize).min(left);
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
        self.seq += at as u32;
        self.ended_ns = self.now_ns();
        self.batch += 1;
        Ok(())
    }

    /// Waits until `until` for an answer and takes all there are; the newest by number counts.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn answers(&mut self, until: Instant, mut newest: Option<Ack>) -> Result<Option<Ack>, SocketError> {
        let mut until = until;
        while raw::wait_readable(self.socket.as_fd(), until).map_err(SocketError::system("wait for an answer"))? {
            let mut bytes = [0; ACK_BYTES];
            match self.socket.recv(&mut bytes) {
                Ok(ACK_BYTES) => {
                    let ack = Ack::read(&self.key, &bytes).ok();
                    let ack = ack.filter(|ack| ack.probe_id == self.probe_id && ack.heard <= self.seq);
                    if let Some(ack) = ack.filter(|ack| newest.is_none_or(|newest| ack.number > newest.number)) {
                        newest = Some(ack);
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
        Ok(newest)
    }

    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}

impl std::fmt::Debug for FlowSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSender")
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}
