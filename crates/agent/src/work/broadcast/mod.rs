//! Broadcasts: a host gets the blocks of an object from its parents, stores them in a file, and passes them on while
//! others still arrive. `gavotte-swarm` decides which piece is next and which is correct; this module has the sockets
//! and the files.

mod cache;
mod discard;
mod disk;
mod feed;
mod fetch;
mod file;
mod folder;
mod incoming;
mod lanes;
mod outgoing;
mod part;
mod share;
mod space;
mod subscriber;
mod subscription;
mod unconfirmed;
mod wanted;

use crate::contract::agents::{
    DiscardReply, DiscardRequest, ManifestReply, ManifestRequest, SpaceReply, SpaceRequest, SpliceRequest,
};
use crate::error::WorkError;
use crate::hold::Hold;

pub use part::Part;
pub use subscriber::PATIENCE;
pub use subscription::Subscription;

/// Returns the size of a file or folder, or the space for its copy.
///
/// # Errors
/// If the object, or the copy's folder, does not exist or is inaccessible.
pub async fn space(request: &SpaceRequest) -> Result<SpaceReply, WorkError> {
    let (path, source) = (request.path.clone(), request.source);
    file::apart(move || {
        if source {
            space::object(&path)
        } else {
            space::copy(&path)
        }
    })
    .await
}

/// Reads a file or folder and returns its manifest.
///
/// # Errors
/// If it cannot be read or cannot be cut into such blocks.
pub async fn manifest(request: &ManifestRequest) -> Result<ManifestReply, WorkError> {
    let (path, block_bytes, most_bytes) = (request.path.clone(), request.block_bytes, request.most_block_bytes);
    file::apart(move || file::manifest(&path, block_bytes, most_bytes)).await
}

/// Removes the incomplete copy that an earlier broadcast left.
///
/// # Errors
/// If it is another user's or a broadcast writes to it.
pub async fn discard(request: &DiscardRequest) -> Result<DiscardReply, WorkError> {
    let path = request.path.clone();
    let removed = file::apart(move || discard::discard(&path)).await?;
    Ok(DiscardReply { removed })
}

/// Changes the parents from which a host gets its blocks.
///
/// # Errors
/// If this agent has no such broadcast.
pub fn splice(hold: &Hold, request: SpliceRequest) -> Result<(), WorkError> {
    let share = hold.shelf.get::<share::Share>(&request.broadcast_id);
    let share = share.ok_or(WorkError::UnknownJob)?;
    if request.peers.is_empty() {
        share.splice(request.feeds);
    } else {
        share.set_peers(request.peers);
    }
    Ok(())
}
