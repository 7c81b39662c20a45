//! An active flow.

/// Number of a link.
pub(crate) type Index = u32;

/// Number of an active flow; reused after the flow ends.
pub(crate) type Slot = u32;

/// The holder of a slot without a flow.
pub(super) const NONE: Index = Index::MAX;

/// An active flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) path: Vec<Index>,
    pub(super) weight: f64,
    /// The link that limits it.
    pub(super) holder: Index,
    /// Bytes of the whole flow; may be infinite.
    pub(super) bytes: f64,
    /// Bytes sent by the time when the holder's clock showed `mark`.
    pub(super) sent: f64,
    pub(super) mark: f64,
    pub(super) owner: u32,
}

/// A flow that sent its last byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// The owner given to `Sharing::start`.
    pub(crate) owner: u32,
    /// The slot that it had.
    pub(crate) slot: Slot,
    /// The link that limited it at the end.
    pub(crate) holder: Index,
}

impl Flow {
    pub(super) fn is_active(&self) -> bool {
        self.holder != NONE
    }
}
