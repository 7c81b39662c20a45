//! Finds how large the packets of a probe may be, and whether they still arrive when it ends.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gavotte_probe::mtu::search::PathMtu;
use gavotte_probe::sockets::path::Path;
use gavotte_probe::sockets::tcp::TcpInfo;
use tracing::{debug, info};

use crate::error::WorkError;
use crate::plane::dial::{Call, Connection};
use crate::plane::leash::Leash;
use crate::plane::segments;

/// How often a train restarts with smaller packets because its path's MTU has shrunk.
pub(super) const RESTARTS: usize = 2;

/// How long a full segment may take to arrive: TCP sends it again after 0.2 s, and then after 0.6 s.
const ARRIVAL: Duration = Duration::from_secs(1);

/// Fails if IP packets of `mtu_bytes` no longer reach the peer of a probe that began at `began`. Its rate is then wrong,
/// and the controller measures the path again, with smaller packets.
///
/// A probe whose last packets are missing asks this. Where firewalls drop ICMP, nothing else shows that the path's MTU
/// has shrunk during the probe.
///
/// # Errors
/// [`WorkError::Shrunk`], or an error of the socket.
pub(super) async fn confirm(
    call: &Call<'_>,
    mtu_bytes: u32,
    began: Instant,
    round_trip: Duration,
) -> Result<(), WorkError> {
    let (plane, hold, peer) = (call.plane, call.hold, call.peer);
    // A router's report may have come after the last packet was sent.
    if Path::open(plane.source(), peer)?.kernel_mtu_bytes()? < mtu_bytes {
        return Err(WorkError::Shrunk { mtu_bytes });
    }
    plane.mtus.forget(peer.ip(), began);
    let arriving = segments::arrives(plane, hold, peer, mtu_bytes);
    if let Ok(true) = tokio::time::timeout(ARRIVAL + 4 * round_trip, arriving).await {
        return Ok(());
    }
    let info = TcpInfo {
        mtu_bytes,
        rtt_s: round_trip.as_secs_f64(),
        ..TcpInfo::default()
    };
    // Boxed, since its connections would otherwise make every probe's future large.
    match Box::pin(segments::search_now(plane, hold, peer, &info, |_| ())).await? {
        Some(_) => Err(WorkError::Shrunk { mtu_bytes }),
        None => Ok(()),
    }
}

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
