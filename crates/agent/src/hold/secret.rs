//! The secret by which the agents of one run recognise each other.

use gavotte_probe::packet::PacketKey;

/// The run's secret, which every agent of the run receives at enrolment. It is never printed.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Wraps a secret; `None` unless it has exactly 32 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The key that authenticates the run's packets.
    pub fn packet_key(&self) -> PacketKey {
        PacketKey::derive(&self.0)
    }

    /// The secret's bytes, for deriving other keys.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}
