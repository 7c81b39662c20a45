//! An operation along a tree.

use crate::error::TreeError;

/// The data that goes from the root to the other hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOperation {
    /// The bytes that each host has in the end: the message of a broadcast, or one block of a scatter.
    pub bytes: f64,
    /// Number of equal pieces, each forwarded as soon as it arrives; at least 1.
    pub segments: u32,
    /// Whether each host has a block of its own (scatter), so that a link carries one block for every host below it.
    pub scatter: bool,
}

impl TreeOperation {
    pub(crate) fn check(self) -> Result<Self, TreeError> {
        let fine = self.bytes.is_finite() && self.bytes >= 0.0;
        let segments = self.segments.max(1);
        fine.then_some(Self { segments, ..self })
            .ok_or(TreeError::Bytes(self.bytes))
    }
}
