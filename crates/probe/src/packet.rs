//! The format of one packet of a train.
//!
//! ```text
//!  0      4          12      16     20          28                44
//!  | GVP1 | probe id | burst | seq  | send stamp | keyed MAC (16) | zeros ...
//! ```
//!
//! Integers are big-endian. The MAC is BLAKE3 over all bytes before it, cut to 16 bytes; its key is derived from the
//! run's secret. Each train has a fresh probe id. The receiver thus rejects packets of earlier trains by their id, and
//! forged packets by their MAC.

use thiserror::Error;

/// First four bytes of every train packet; the last of them is the layout's version.
pub const MAGIC: [u8; 4] = *b"GVP1";

/// Size of the header in bytes, and therefore the smallest UDP payload of a train.
pub const HEADER_BYTES: usize = 44;

/// Largest UDP payload over IPv4.
pub const MAX_PAYLOAD_BYTES: usize = 65_507;

const MAC_AT: usize = 28;
const MAC_BYTES: usize = HEADER_BYTES - MAC_AT;

/// The key that authenticates the packets of one run.
#[derive(Clone)]
pub struct PacketKey([u8; 32]);

impl PacketKey {
    /// Derives the packet key from the run's secret, so that a packet's MAC is valid for no other purpose.
    pub fn derive(secret: &[u8; 32]) -> Self {
        Self(blake3::derive_key("gavotte 1 train packet", secret))
    }

    fn mac(&self, bytes: &[u8]) -> [u8; MAC_BYTES] {
        let full = blake3::keyed_hash(&self.0, bytes);
        let mut cut = [0; MAC_BYTES];
        cut.copy_from_slice(&full.as_bytes()[..MAC_BYTES]);
        cut
    }
}

impl std::fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PacketKey(..)")
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The train that the packet belongs to; the receiver chooses it at random.
    pub probe_id: u64,
    /// Index of its burst in the train, from 0.
    pub burst: u32,
    /// Index of the packet in its burst, from 0.
    pub seq: u32,
    /// The sender's wall clock when the burst was prepared, in nanoseconds since 1970.
    pub sent_ns: u64,
}

/// Why bytes are not a packet of this run.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PacketError {
    /// There are fewer bytes than a header has.
    #[error("{0} bytes are too short for a packet of a train")]
    Short(usize),
    /// The packet belongs to another protocol, or to another version of this one.
    #[error("not a train packet")]
    Magic,
    /// The MAC was not computed with the run's secret.
    #[error("the packet's MAC is wrong")]
    Mac,
}

impl Packet {
    /// Writes the header to the front of `buffer` and leaves the rest unchanged.
    ///
    /// # Errors
    /// [`PacketError::Short`] if `buffer` cannot hold a header.
    pub fn write(&self, key: &PacketKey, buffer: &mut [u8]) -> Result<(), PacketError> {
        let mut body = [0; MAC_AT];
        body[0..4].copy_from_slice(&MAGIC);
        body[4..12].copy_from_slice(&self.probe_id.to_be_bytes());
        body[12..16].copy_from_slice(&self.burst.to_be_bytes());
        body[16..20].copy_from_slice(&self.seq.to_be_bytes());
        body[20..28].copy_from_slice(&self.sent_ns.to_be_bytes());
        seal(key, &body, buffer)
    }

    /// Reads a packet and checks its MAC in constant time. Accepts any bytes; ignores those after the header.
    ///
    /// # Errors
    /// A [`PacketError`] if the bytes are not a packet of the run that `key` belongs to.
    pub fn read(key: &PacketKey, bytes: &[u8]) -> Result<Self, PacketError> {
        let header: [u8; MAC_AT] = open(key, MAGIC, bytes)?;
        let header = &header;
        Ok(Self {
            probe_id: u64::from_be_bytes(take(header, 4)),
            burst: u32::from_be_bytes(take(header, 12)),
            seq: u32::from_be_bytes(take(header, 16)),
            sent_ns: u64::from_be_bytes(take(header, 20)),
        })
    }
}

/// Writes `body` and its MAC to the front of `buffer`.
pub(crate) fn seal(key: &PacketKey, body: &[u8], buffer: &mut [u8]) -> Result<(), PacketError> {
    let short = PacketError::Short(buffer.len());
    let (front, rest) = buffer.split_at_mut_checked(body.len()).ok_or(short)?;
    let mac = rest.get_mut(..MAC_BYTES).ok_or(short)?;
    front.copy_from_slice(body);
    mac.copy_from_slice(&key.mac(body));
    Ok(())
}

/// Reads a body that starts with `magic` from the front of `bytes`, and checks its MAC in constant time.
pub(crate) fn open<const N: usize>(key: &PacketKey, magic: [u8; 4], bytes: &[u8]) -> Result<[u8; N], PacketError> {
    let short = PacketError::Short(bytes.len());
    let (body, rest) = bytes.split_first_chunk::<N>().ok_or(short)?;
    let mac = rest.first_chunk::<MAC_BYTES>().ok_or(short)?;
    if !body.starts_with(&magic) {
        return Err(PacketError::Magic);
    }
    let expected = key.mac(body);
    let differing = expected.iter().zip(mac).fold(0, |sum, (a, b)| sum | (a ^ b));
    if differing != 0 {
        return Err(PacketError::Mac);
    }
    Ok(*body)
}

fn take<const N: usize>(header: &[u8; MAC_AT], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&header[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(byte: u8) -> PacketKey {
        PacketKey::derive(&[byte; 32])
    }

    #[test]
    fn a_short_buffer_is_refused() {
        let packet = Packet {
            probe_id: 1,
            burst: 0,
            seq: 0,
            sent_ns: 0,
        };
        assert_eq!(packet.write(&key(1), &mut [0; 43]), Err(PacketError::Short(43)));
        assert_eq!(Packet::read(&key(1), &[0; 43]), Err(PacketError::Short(43)));
    }

    #[test]
    fn the_key_is_not_printed() {
        assert_eq!(format!("{:?}", key(7)), "PacketKey(..)");
    }

    proptest! {
        #[test]
        fn reads_back_what_was_written(probe_id: u64, burst: u32, seq: u32, sent_ns: u64, extra in 0usize..64) {
            let packet = Packet { probe_id, burst, seq, sent_ns };
            let mut bytes = vec![0; HEADER_BYTES + extra];
            packet.write(&key(1), &mut bytes).unwrap();
            prop_assert_eq!(Packet::read(&key(1), &bytes), Ok(packet));
            prop_assert_eq!(Packet::read(&key(2), &bytes), Err(PacketError::Mac));
        }

        #[test]
        fn any_flipped_bit_is_noticed(at in 0usize..HEADER_BYTES * 8) {
            let packet = Packet { probe_id: 9, burst: 3, seq: 4, sent_ns: 5 };
            let mut bytes = [0; HEADER_BYTES];
            packet.write(&key(1), &mut bytes).unwrap();
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Packet::read(&key(1), &bytes).is_err());
        }

        #[test]
        fn any_bytes_are_safe_to_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Packet::read(&key(1), &bytes).is_err());
        }
    }
}
