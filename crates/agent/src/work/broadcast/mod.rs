//! Broadcasts: a host has the blocks of an object from its parents, keeps them in a file, and passes them on while they still
//! come. What is sent next, and what is right, `gavotte-swarm` knows; here are the sockets and the files.

mod disk;
mod feed;
mod fetch;
mod file;
mod folder;
mod part;
mod share;
mod subscription;

use crate::contract::agents::{ManifestReply, ManifestRequest, SpliceRequest};
use crate::error::WorkError;
use crate::hold::Hold;

pub use feed::PATIENCE;
pub use part::Part;
pub use subscription::Subscription;

/// Reads a file and tells how it is cut.
///
/// # Errors
/// When it cannot be read or cannot be cut so.
pub async fn manifest(request: &ManifestRequest) -> Result<ManifestReply, WorkError> {
    let (path, block_bytes) = (request.path.clone(), request.block_bytes);
    file::apart(move || file::manifest(&path, block_bytes)).await
}

/// Says anew from whom a host has its blocks.
///
/// # Errors
/// When no such broadcast is under way.
pub fn splice(hold: &Hold, request: SpliceRequest) -> Result<(), WorkError> {
    let share = hold.shelf.get::<share::Share>(&request.broadcast_id);
    let share = share.ok_or(WorkError::UnknownJob)?;
    if request.peers.is_empty() {
        share.splice(request.feeds);
    } else {
        share.told(request.peers);
    }
    Ok(())
}
