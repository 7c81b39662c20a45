//! The bytes of a connection to a subscriber.

use crate::error::WorkError;
use crate::plane::records::Sealer;

/// Turns pieces into the bytes that go to the kernel: records if the broadcast is encrypted.
pub(super) struct Outgoing {
    sealer: Option<Sealer>,
    wire: Vec<u8>,
}

impl Outgoing {
    /// Encrypts with `sealer`, or nothing without one.
    pub(super) fn new(sealer: Option<Sealer>) -> Self {
        Self {
            sealer,
            wire: Vec::new(),
        }
    }

    /// Returns what to send for `bytes`, before anything else is sent.
    ///
    /// # Errors
    /// If the library refuses to encrypt.
    pub(super) fn wire<'a>(&'a mut self, bytes: &'a [u8]) -> Result<&'a [u8], WorkError> {
        let Some(sealer) = &mut self.sealer else {
            return Ok(bytes);
        };
        self.wire.clear();
        sealer.seal(bytes, &mut self.wire)?;
        Ok(&self.wire)
    }
}
