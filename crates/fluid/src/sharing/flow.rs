//! An active flow.

/// Number of a link.
pub(crate) type Index = u32;

/// Number of an active flow; used again after it ended.
pub(crate) type Slot = u32;

/// The holder of a slot without a flow.
pub(super) const NONE: Index = Index::MAX;

/// An active flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) path: Vec<Index>,
    pub(super) weight: f64,
    /// The link that holds it back.
    pub(super) holder: Index,
    /// Bytes in all; may be infinite.
    pub(super) bytes: f64,
    /// Bytes sent until the holder's clock showed `mark`.
    pub(super) sent: f64,
    pub(super) mark: f64,
    pub(super) owner: u32,
}

/// A flow that sent its last byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// As given to `Sharing::start`.
    pub(crate) owner: u32,
    /// Its slot until now.
    pub(crate) slot: Slot,
    /// The link that held it back at the end.
    pub(crate) holder: Index,
}

impl Flow {
    pub(super) fn is_active(&self) -> bool {
        self.holder != NONE
    }
}
