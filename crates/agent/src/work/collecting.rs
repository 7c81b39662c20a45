//! The receiving side of probes whose packets come by UDP while their sender reports by TCP when it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gavotte_probe::drain::Drain;
use gavotte_probe::packet::Packet;
use gavotte_probe::sockets::SocketError;
use gavotte_probe::sockets::receiver::TrainReceiver;
use tokio::sync::OwnedMutexGuard;

use crate::contract::data::Report;
use crate::error::WorkError;
use crate::plane::leash::Leash;
use crate::work::cpu::Meter;
use crate::work::inbound::{Inbound, Piece, clock_error, stamp_error};
use crate::work::visit::Visit;

/// How a probe takes one of its packets.
pub(super) enum Seen {
    /// It counts.
    Fresh,
    /// It counts, and no other is awaited.
    Last,
    /// It does not count, as one that came before.
    Other,
    /// It would count if the kernel had given it a timestamp.
    Unstamped,
}

/// The packets of one probe, as they arrive.
pub(super) struct Packets {
    inbound: Inbound,
    probe_id: u64,
    unstamped: u64,
    done: Arc<AtomicBool>,
    cut: Arc<AtomicBool>,
    deadline: Instant,
}

impl Packets {
    /// Passes each packet of the probe to `see`. Ends with the last packet, some time after the sender is done, or when
    /// the connection is cut.
    pub(super) fn record(&mut self, mut see: impl FnMut(&Packet, &Piece<'_>) -> Seen) -> Result<(), SocketError> {
        let mut drain = Drain::new(self.deadline);
        let mut last = false;
        while !last && !self.cut.load(Ordering::Relaxed) {
            let now = Instant::now();
            if self.done.load(Ordering::Relaxed) {
                drain.sender_done(now);
            }
            let Some(until) = drain.listen(now) else {
                break;
            };
            let (mut count, probe_id, unstamped) = (0, self.probe_id, &mut self.unstamped);
            self.inbound.read(until, |key, piece| {
                let packet = Packet::read(key, piece.bytes).ok();
                let Some(packet) = packet.filter(|packet| packet.probe_id == probe_id) else {
                    return false;
                };
                let seen = see(&packet, piece);
                last |= matches!(seen, Seen::Last);
                *unstamped += u64::from(matches!(seen, Seen::Unstamped));
                let counts = matches!(seen, Seen::Fresh | Seen::Last);
                count += u32::from(counts);
                counts
            })?;
            if count > 0 {
                drain.packets_came(Instant::now(), count);
            }
        }
        Ok(())
    }

    /// A report of the path's hops, of packets that the socket dropped, and of wrong timestamps.
    pub(super) fn report(&mut self) -> Report {
        let clock_error = clock_error(self.inbound.clock_was_set());
        Report {
            hops: self.inbound.hops(),
            overflow: self.inbound.overflow(),
            error: if clock_error.is_empty() {
                stamp_error(self.unstamped)
            } else {
                clock_error
            },
            ..Report::default()
        }
    }
}

/// Receives a probe's packets on a blocking thread until the sender is done, and sends it the report.
///
/// `train` is the socket with the probe's number, and `operation` names the wait for the sender in errors.
///
/// # Errors
/// If the connection fails, or the sender is not done within `limit`.
pub(super) async fn answer(
    visit: &mut Visit,
    train: (OwnedMutexGuard<TrainReceiver>, u64),
    operation: &'static str,
    limit: Duration,
    collect: impl FnOnce(Packets) -> Result<Report, SocketError> + Send + 'static,
) -> Result<(), WorkError> {
    let (receiver, probe_id) = train;
    let (_leash, cut) = Leash::new();
    let meter = Meter::start();
    let done = Arc::new(AtomicBool::new(false));
    let key = visit.guest.hold.secret.packet_key();
    let packets = Packets {
        inbound: Inbound::new(receiver, visit.guest.remote, key, probe_id),
        probe_id,
        unstamped: 0,
        done: Arc::clone(&done),
        cut,
        deadline: Instant::now() + limit,
    };
    let collecting = tokio::task::spawn_blocking(move || collect(packets));
    let connection = &mut visit.guest.connection;
    let sent: Report = connection.receive(operation, limit).await?;
    if !sent.error.is_empty() {
        // The sender knows the error already; there is nothing to report.
        return Ok(());
    }
    done.store(true, Ordering::Relaxed);
    let mut report = match collecting.await.map_err(|_| WorkError::Over)? {
        Ok(report) => report,
        Err(error) => Report {
            error: error.to_string(),
            ..Report::default()
        },
    };
    report.cpu = meter.share();
    report.withheld = Some(meter.withheld());
    connection.send(&report).await
}
