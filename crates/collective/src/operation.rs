//! What an operation along a tree has to do.

use crate::error::TreeError;

/// What goes from the root to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOperation {
    /// What each host is to have in the end, in bytes: the message of a broadcast, one block of a scatter.
    pub bytes: f64,
    /// Equal pieces, each sent on as soon as it is there; at least 1.
    pub segments: u32,
    /// Whether each host has a block of its own (scatter), so that a link carries one for every host below it.
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
