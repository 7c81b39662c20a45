//! The packets of a search for the path's MTU, and their answers.
//!
//! ```text
//!  0      4          12      16                32
//!  | GVM1 | probe id | MTU   | keyed MAC (16) | zeros up to the MTU
//!  | GVK1 | probe id | MTU   | keyed MAC (16) |
//! ```
//!
//! Integers are big-endian. A receiver answers a packet only if all of its bytes arrived.

use crate::packet::{PacketError, PacketKey, open, seal};

/// First four bytes of a request; the last of them is the layout's version.
pub const SIZE_MAGIC: [u8; 4] = *b"GVM1";
/// First four bytes of an answer.
pub const FITS_MAGIC: [u8; 4] = *b"GVK1";
/// Size of an answer, and of a request without its zeros, in bytes.
pub const SIZE_BYTES: usize = 32;

const BODY: usize = 16;

/// A request: do IP packets of this size arrive?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The probe that the search belongs to.
    pub probe_id: u64,
    /// Size of the whole IP packet in bytes.
    pub mtu_bytes: u32,
}

impl Size {
    /// Writes the request to the front of `buffer` and leaves the rest unchanged.
    ///
    /// # Errors
    /// [`PacketError::Short`] if `buffer` cannot hold it.
    pub fn write(&self, key: &PacketKey, buffer: &mut [u8]) -> Result<(), PacketError> {
        seal(key, &self.body(SIZE_MAGIC), buffer)
    }

    /// Encodes the answer.
    pub fn answer(&self, key: &PacketKey) -> [u8; SIZE_BYTES] {
        let mut bytes = [0; SIZE_BYTES];
        // The buffer has the length that sealing needs.
        let _ = seal(key, &self.body(FITS_MAGIC), &mut bytes);
        bytes
    }

    /// Reads a request. Accepts any bytes.
    ///
    /// # Errors
    /// A [`PacketError`] if the bytes are not a request of the run.
    pub fn read(key: &PacketKey, bytes: &[u8]) -> Result<Self, PacketError> {
        Ok(Self::of(&open(key, SIZE_MAGIC, bytes)?))
    }

    /// Reads an answer. Accepts any bytes.
    ///
    /// # Errors
    /// A [`PacketError`] if the bytes are not an answer of the run.
    pub fn read_answer(key: &PacketKey, bytes: &[u8]) -> Result<Self, PacketError> {
        Ok(Self::of(&open(key, FITS_MAGIC, bytes)?))
    }

    fn body(&self, magic: [u8; 4]) -> [u8; BODY] {
        let mut body = [0; BODY];
        body[..4].copy_from_slice(&magic);
        body[4..12].copy_from_slice(&self.probe_id.to_be_bytes());
        body[12..].copy_from_slice(&self.mtu_bytes.to_be_bytes());
        body
    }

    fn of(body: &[u8; BODY]) -> Self {
        let [_, _, _, _, id @ .., a, b, c, d] = *body;
        Self {
            probe_id: u64::from_be_bytes(id),
            mtu_bytes: u32::from_be_bytes([a, b, c, d]),
        }
    }
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
        fn questions_and_answers_read_back(probe_id: u64, mtu_bytes: u32) {
            let size = Size { probe_id, mtu_bytes };
            let mut bytes = [0; SIZE_BYTES + 8];
            size.write(&key(1), &mut bytes).unwrap();
            prop_assert_eq!(Size::read(&key(1), &bytes), Ok(size));
            prop_assert_eq!(Size::read(&key(2), &bytes), Err(PacketError::Mac));
            prop_assert_eq!(Size::read_answer(&key(1), &bytes), Err(PacketError::Magic));
            let answer = size.answer(&key(1));
            prop_assert_eq!(Size::read_answer(&key(1), &answer), Ok(size));
            prop_assert_eq!(Size::read(&key(1), &answer), Err(PacketError::Magic));
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(Size::read(&key(1), &bytes).is_err());
            prop_assert!(Size::read_answer(&key(1), &bytes).is_err());
        }
    }
}
