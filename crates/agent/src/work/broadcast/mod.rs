//! Broadcasts: a host has the blocks of an object from its parents, keeps them in a file, and passes them on while they still
//! come. What is sent next, and what is right, `gavotte-swarm` knows; here are the sockets and the files.

mod feed;
mod file;
mod part;
mod share;
mod subscription;

use std::time::Duration;

use gavotte_swarm::broadcast::layout::Layout;
use gavotte_swarm::broadcast::replica::Hash;

use crate::contract::agents::{ManifestReply, ManifestRequest, SpliceRequest};
use crate::error::WorkError;
use crate::hold::Hold;

pub use part::Part;
pub use subscription::Subscription;

/// How long the other end of a subscription may give no sign.
pub const PATIENCE: Duration = Duration::from_secs(4);

/// Bytes of a hash.
const HASH_BYTES: usize = size_of::<Hash>();

/// Reads a file and tells how it is cut.
///
/// # Errors
/// When it cannot be read or cannot be cut so.
pub async fn manifest(request: &ManifestRequest) -> Result<ManifestReply, WorkError> {
    let (path, block_bytes) = (request.path.clone(), request.block_bytes);
    apart(move || file::manifest(&path, block_bytes)).await
}

/// Says anew from whom a host has its blocks.
///
/// # Errors
/// When no such broadcast is under way.
pub fn splice(hold: &Hold, request: SpliceRequest) -> Result<(), WorkError> {
    let share = hold.shelf.get::<share::Share>(&request.broadcast_id);
    share.ok_or(WorkError::UnknownJob)?.splice(request.feeds);
    Ok(())
}

/// How an object is cut, and the hash of each block.
fn cut(manifest: &ManifestReply) -> Result<(Layout, Vec<Hash>), WorkError> {
    let nonsense = || WorkError::Request("manifest: not one hash of 32 bytes a block".into());
    let layout = Layout::new(manifest.bytes, manifest.block_bytes).ok_or_else(nonsense)?;
    let (hashes, rest) = manifest.hashes.as_chunks::<HASH_BYTES>();
    if !rest.is_empty() || hashes.len() != layout.count() as usize {
        return Err(nonsense());
    }
    Ok((layout, hashes.to_vec()))
}

/// Does what may wait for a disk on a thread of its own.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, WorkError> + Send + 'static,
) -> Result<T, WorkError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(WorkError::Request(format!("the work on a file broke off: {error}"))))
}
