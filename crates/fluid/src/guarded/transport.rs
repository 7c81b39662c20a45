//! The senders of flows: TCP connections with a window, or constant rates that ignore losses.

use gavotte_net::{Bandwidth, Seconds, Volume};

/// CUBIC (RFC 9438): the share of a window that remains after a loss, and how fast the window returns.
const KEPT: f64 = 0.7;
const CUBIC: f64 = 0.4;
/// The growth of Reno with the same decrease, in packets per round trip.
const RENO: f64 = 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
const FIRST_WINDOW_PACKETS: f64 = 10.0;
/// Largest number of bytes that Linux queues at a receiver.
const MOST_WINDOW_BYTES: f64 = 6e6;
/// A window of fewer packets does not have enough packets after a lost one to reveal the loss.
const FEW_PACKETS: f64 = 4.0;
/// The shortest retransmission timeout of Linux.
const TIMEOUT_S: f64 = 0.2;

/// The kind of a sender.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Window(Window),
    /// A constant rate.
    Constant(Bandwidth),
}

/// A TCP connection that always has something to send.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bytes: f64,
    packet_bytes: f64,
    threshold_bytes: f64,
    /// CUBIC's window before the last loss, and the time of that loss.
    peak_bytes: f64,
    lost_s: f64,
    /// Losses until this time belong to the window that was already reduced.
    deaf_until_s: f64,
    /// The time until which nothing is sent.
    silent_until_s: f64,
    most_bytes_per_s: f64,
}

impl Window {
    pub(crate) fn new(Seconds(now_s): Seconds, most: Bandwidth, Volume(packet_bytes): Volume) -> Self {
        Self {
            bytes: FIRST_WINDOW_PACKETS * packet_bytes,
            packet_bytes,
            threshold_bytes: f64::INFINITY,
            peak_bytes: 0.0,
            lost_s: now_s,
            deaf_until_s: now_s,
            silent_until_s: now_s,
            most_bytes_per_s: most.bytes_per_s(),
        }
    }

    /// Bytes in flight or waiting to be sent.
    pub(crate) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// The rate that only the path would limit, in bytes per second.
    pub(crate) fn wanted(&self, Seconds(now_s): Seconds, Seconds(round_trip_s): Seconds) -> f64 {
        if now_s < self.silent_until_s {
            return 0.0;
        }
        (self.bytes / round_trip_s).min(self.most_bytes_per_s)
    }

    /// Records that `bytes` were acknowledged in a step.
    pub(crate) fn acknowledged(
        &mut self,
        Seconds(now_s): Seconds,
        Volume(bytes): Volume,
        Seconds(round_trip_s): Seconds,
    ) {
        if self.bytes / round_trip_s > 2.0 * self.most_bytes_per_s {
            return;
        }
        let growth = if self.bytes < self.threshold_bytes {
            bytes
        } else {
            let cubic_s = (self.peak_bytes / self.packet_bytes * (1.0 - KEPT) / CUBIC).cbrt();
            let at_s = now_s - self.lost_s + round_trip_s - cubic_s;
            let goal = self.peak_bytes + CUBIC * at_s.powi(3) * self.packet_bytes;
            let cubic = ((goal - self.bytes) / self.bytes).clamp(0.0, 0.5) * bytes;
            cubic.max(RENO * self.packet_bytes * bytes / self.bytes)
        };
        self.bytes = (self.bytes + growth).min(MOST_WINDOW_BYTES);
    }

    /// Records that `packets` were lost.
    pub(crate) fn lost(&mut self, Seconds(now_s): Seconds, packets: f64, Seconds(round_trip_s): Seconds) {
        if now_s < self.deaf_until_s {
            return;
        }
        let whole = self.bytes / self.packet_bytes;
        (self.peak_bytes, self.lost_s) = (self.bytes, now_s);
        self.threshold_bytes = (self.bytes * KEPT).max(2.0 * self.packet_bytes);
        if whole < FEW_PACKETS || packets > whole / 2.0 {
            self.bytes = self.packet_bytes;
            self.silent_until_s = now_s + TIMEOUT_S;
            self.deaf_until_s = self.silent_until_s;
        } else {
            self.bytes = self.threshold_bytes;
            self.deaf_until_s = now_s + round_trip_s;
        }
    }
}
