//! What the edges of a packing still have to carry.

use gavotte_net::Seconds;

/// A host is well if bytes have reached it within this time. A host passes nothing on if none of its children has got a
/// block from it for as long.
pub(super) const SILENT_S: f64 = 1.0;

/// The blocks of a packing that a parent has yet to send to a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Number of blocks of the feed that the child lacks.
    pub(super) lacking: u32,
    /// When that number last changed.
    pub(super) changed_s: f64,
    /// Since when the parent has had some of them, and may send, without a change.
    pub(super) since_s: f64,
    /// Whether the parent has some of them, and may send.
    pub(super) offered: bool,
}

impl Pending {
    /// The state now, after the state `before`.
    pub(super) fn next(before: Option<Self>, lacking: u32, offered: bool, Seconds(now_s): Seconds) -> Self {
        let same = before.filter(|before| before.lacking == lacking);
        Self {
            lacking,
            changed_s: same.map_or(now_s, |before| before.changed_s),
            since_s: same.filter(|_| offered).map_or(now_s, |before| before.since_s),
            offered,
        }
    }

    /// Whether the child has got none of the blocks for `SILENT_S`.
    pub(super) fn is_silent(&self, now_s: f64) -> bool {
        now_s - self.changed_s >= SILENT_S
    }
}
