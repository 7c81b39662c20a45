//! The packets of a gated train on the wire, and the acknowledgements of its receiver.
//!
//! ```text
//!  0      4          12      16    20          28           36      40                56
//!  | GVG1 | probe id | batch | seq | sent      | ended      | waits | keyed MAC (16) | zeros ...
//!  | GVA1 | probe id | number| heard| window   | segments, enough   | keyed MAC (16) |
//!  0      4          12      16    20          24                  28               44
//! ```
//!
//! Integers are big-endian, and the MAC is that of [`crate::packet`]. Thus only an agent of the run can influence a
//! sender, and only packets of the run are acknowledged.

use crate::packet::{PacketError, PacketKey, open, seal};

const DATA_MAGIC: [u8; 4] = *b"GVG1";
const ACK_MAGIC: [u8; 4] = *b"GVA2";

/// Size of a packet's header in bytes, and therefore the smallest UDP payload of a gated train.
pub const DATA_BYTES: usize = 56;
/// Size of an acknowledgement in bytes.
pub const ACK_BYTES: usize = 48;

const DATA_BODY: usize = DATA_BYTES - 16;
const ACK_BODY: usize = ACK_BYTES - 16;

/// The header of a packet of a gated train.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// The train that the packet belongs to; the receiver chooses it at random.
    pub probe_id: u64,
    /// Number of the packet's batch: the packets handed to the kernel in one call.
    pub batch: u32,
    /// Number of the packet in the train.
    pub seq: u32,
    /// The sender's monotonic clock just before it handed the batch over, in nanoseconds.
    pub sent_ns: u64,
    /// The same clock just after the kernel accepted the previous batch.
    pub ended_ns: u64,
    /// How often the sender has had to wait for its window so far.
    pub waits: u32,
}

impl Data {
    /// Writes the packet's header to the front of `buffer`.
    ///
    /// # Errors
    /// [`PacketError::Short`] if `buffer` cannot hold it.
    pub fn write(&self, key: &PacketKey, buffer: &mut [u8]) -> Result<(), PacketError> {
        let mut body = [0; DATA_BODY];
        put(&mut body, 0, &DATA_MAGIC);
        put(&mut body, 4, &self.probe_id.to_be_bytes());
        put(&mut body, 12, &self.batch.to_be_bytes());
        put(&mut body, 16, &self.seq.to_be_bytes());
        put(&mut body, 20, &self.sent_ns.to_be_bytes());
        put(&mut body, 28, &self.ended_ns.to_be_bytes());
        put(&mut body, 36, &self.waits.to_be_bytes());
        seal(key, &body, buffer)
    }

    /// Reads a packet and checks its MAC. Accepts any bytes; ignores those after the header.
    ///
    /// # Errors
    /// A [`PacketError`] if the bytes are not such a packet of the run.
    pub fn read(key: &PacketKey, bytes: &[u8]) -> Result<Self, PacketError> {
        let body: [u8; DATA_BODY] = open(key, DATA_MAGIC, bytes)?;
        Ok(Self {
            probe_id: u64::from_be_bytes(take(&body, 4)),
            batch: u32::from_be_bytes(take(&body, 12)),
            seq: u32::from_be_bytes(take(&body, 16)),
            sent_ns: u64::from_be_bytes(take(&body, 20)),
            ended_ns: u64::from_be_bytes(take(&body, 28)),
            waits: u32::from_be_bytes(take(&body, 36)),
        })
    }
}

/// An acknowledgement from the receiver of a gated train to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The train.
    pub probe_id: u64,
    /// Number of the acknowledgement, so that the sender can ignore an outdated one.
    pub number: u32,
    /// Highest packet number that arrived, plus 1.
    pub heard: u32,
    /// Number of packets that may be in flight.
    pub window: u32,
    /// Number of packets to hand to the kernel as one (generic segmentation offload); 1 without offload.
    pub segments: u16,
    /// Rate at which to send regardless of the window, in units of 1000 bit/s on the wire; 0 = follow the window.
    pub pace_kbps: u32,
    /// Whether the receiver has enough packets.
    pub enough: bool,
}

impl Ack {
    /// Encodes the acknowledgement.
    pub fn write(&self, key: &PacketKey) -> [u8; ACK_BYTES] {
        let mut body = [0; ACK_BODY];
        put(&mut body, 0, &ACK_MAGIC);
        put(&mut body, 4, &self.probe_id.to_be_bytes());
        put(&mut body, 12, &self.number.to_be_bytes());
        put(&mut body, 16, &self.heard.to_be_bytes());
        put(&mut body, 20, &self.window.to_be_bytes());
        put(&mut body, 24, &self.segments.to_be_bytes());
        put(&mut body, 26, &u16::from(self.enough).to_be_bytes());
        put(&mut body, 28, &self.pace_kbps.to_be_bytes());
        let mut bytes = [0; ACK_BYTES];
        // The buffer has the length that sealing needs.
        let _ = seal(key, &body, &mut bytes);
        bytes
    }

    /// Reads an acknowledgement and checks its MAC. Accepts any bytes.
    ///
    /// # Errors
    /// A [`PacketError`] if the bytes are not an acknowledgement of the run.
    pub fn read(key: &PacketKey, bytes: &[u8]) -> Result<Self, PacketError> {
        let body: [u8; ACK_BODY] = open(key, ACK_MAGIC, bytes)?;
        Ok(Self {
            probe_id: u64::from_be_bytes(take(&body, 4)),
            number: u32::from_be_bytes(take(&body, 12)),
            heard: u32::from_be_bytes(take(&body, 16)),
            window: u32::from_be_bytes(take(&body, 20)),
            segments: u16::from_be_bytes(take(&body, 24)),
            enough: u16::from_be_bytes(take(&body, 26)) != 0,
            pace_kbps: u32::from_be_bytes(take(&body, 28)),
        })
    }
}

fn put(body: &mut [u8], at: usize, field: &[u8]) {
    body[at..at + field.len()].copy_from_slice(field);
}

fn take<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&body[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(byte: u8) -> PacketKey {
        PacketKey::derive(&[byte; 32])
    }

    proptest! {
        #[test]
        fn packets_read_back(probe_id: u64, batch: u32, seq: u32, sent_ns: u64, ended_ns: u64, waits: u32) {
            let data = Data { probe_id, batch, seq, sent_ns, ended_ns, waits };
            let mut bytes = [0; DATA_BYTES + 8];
            data.write(&key(1), &mut bytes).unwrap();
            prop_assert_eq!(Data::read(&key(1), &bytes), Ok(data));
            prop_assert_eq!(Data::read(&key(2), &bytes), Err(PacketError::Mac));
            prop_assert_eq!(Ack::read(&key(1), &bytes), Err(PacketError::Magic));
        }

        #[test]
        fn answers_read_back(probe_id: u64, number: u32, heard: u32, window: u32, segments: u16, pace_kbps: u32, enough: bool) {
            let ack = Ack { probe_id, number, heard, window, segments, pace_kbps, enough };
            let bytes = ack.write(&key(1));
            prop_assert_eq!(Ack::read(&key(1), &bytes), Ok(ack));
            prop_assert_eq!(Ack::read(&key(2), &bytes), Err(PacketError::Mac));
        }

        #[test]
        fn any_flipped_bit_is_noticed(at in 0usize..ACK_BYTES * 8) {
            let mut bytes = Ack { heard: 9, window: 30, ..Ack::default() }.write(&key(1));
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Ack::read(&key(1), &bytes).is_err());
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(Ack::read(&key(1), &bytes).is_err());
            prop_assert!(Data::read(&key(1), &bytes).is_err());
        }
    }
}
