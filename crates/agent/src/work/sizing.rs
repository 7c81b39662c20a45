//! Finds how large the packets of a train may be: the kernel's MTU, confirmed by a packet that arrives.

use std::sync::atomic::Ordering;

use gavotte_probe::mtu::search::PathMtu;
use gavotte_probe::sockets::path::Path;
use tracing::{debug, info};

use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;

/// How often a train restarts with smaller packets because its path's MTU has shrunk.
pub(super) const RESTARTS: usize = 2;

/// Returns a socket to the peer and the largest packets that reach it. The peer's receiver must be ready for the train.
///
/// # Errors
/// If the socket fails.
pub(super) async fn size(call: &Call<'_>, connection: &Connection) -> Result<(Path, PathMtu), WorkError> {
    let path = Path::open(call.plane.source(), call.peer)?;
    let key = call.hold.secret.packet_key();
    let (probe_id, round_trip) = (connection.probe_id, connection.round_trip);
    let known = call.plane.mtus.get(call.peer.ip());
    let (_leash, cut) = Leash::new();
    let searching = tokio::task::spawn_blocking(move || {
        let path_mtu = path.find_mtu(&key, probe_id, round_trip, known, || !cut.load(Ordering::Relaxed));
        path_mtu.map(|path_mtu| (path, path_mtu))
    });
    let (path, path_mtu) = searching.await.map_err(|_| WorkError::Over)??;
    let kernel_bytes = path.kernel_mtu_bytes()?;
    if !path_mtu.confirmed {
        debug!(mtu_bytes = path_mtu.bytes, "no packet of the path's MTU was answered");
    } else if path_mtu.bytes < kernel_bytes.min(gavotte_probe::mtu::MOST_BYTES) && known != Some(path_mtu.bytes) {
        info!(
            kernel_bytes,
            mtu_bytes = path_mtu.bytes,
            "larger packets vanish on the path"
        );
        call.plane.mtus.set(call.peer.ip(), path_mtu.bytes);
    }
    Ok((path, path_mtu))
}
