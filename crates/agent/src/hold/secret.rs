//! What the agents of one run know each other by.

/// The run's secret, which every agent of the run is given at enrolment. Never printed.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Takes a secret of exactly 32 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The secret's bytes, to derive further keys from.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}
