//! What a flow sends: a TCP connection by its window, or a rate that nothing slows down.

/// Payload and headers of a full packet.
pub(crate) const PACKET_BYTES: f64 = 1500.0;
/// CUBIC (RFC 9438): what a window keeps after a loss, and how fast it comes back.
const KEPT: f64 = 0.7;
const CUBIC: f64 = 0.4;
/// As fast as Reno would be with that decrease, in packets a round trip.
const RENO: f64 = 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
const FIRST_WINDOW_BYTES: f64 = 10.0 * PACKET_BYTES;
/// What Linux lets wait at a receiver.
const MOST_WINDOW_BYTES: f64 = 6e6;
/// A window of fewer packets has too few behind a lost one to tell of it.
const FEW_PACKETS: f64 = 4.0;
/// The least time-out of Linux.
const TIMEOUT_S: f64 = 0.2;

/// How a flow sends.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Window(Window),
    /// So many bytes a second.
    Constant(f64),
}

/// A TCP connection that always has something to send.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bytes: f64,
    threshold_bytes: f64,
    /// Of CUBIC: the window before the last loss, and when that was.
    peak_bytes: f64,
    lost_s: f64,
    /// Losses until then are of the window that was cut already.
    deaf_until_s: f64,
    /// Nothing is sent until then.
    silent_until_s: f64,
    most_bytes_per_s: f64,
}

impl Window {
    pub(crate) fn new(now_s: f64, most_bytes_per_s: f64) -> Self {
        Self {
            bytes: FIRST_WINDOW_BYTES,
            threshold_bytes: f64::INFINITY,
            peak_bytes: 0.0,
            lost_s: now_s,
            deaf_until_s: now_s,
            silent_until_s: now_s,
            most_bytes_per_s,
        }
    }

    /// What is in flight or waits to be sent.
    pub(crate) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// What it would send if nothing but the way held it back, bytes a second.
    pub(crate) fn wanted(&self, now_s: f64, round_trip_s: f64) -> f64 {
        if now_s < self.silent_until_s {
            return 0.0;
        }
        (self.bytes / round_trip_s).min(self.most_bytes_per_s)
    }

    /// So many bytes were acknowledged in a step.
    pub(crate) fn acknowledged(&mut self, now_s: f64, bytes: f64, round_trip_s: f64) {
        if self.bytes / round_trip_s > 2.0 * self.most_bytes_per_s {
            return;
        }
        let growth = if self.bytes < self.threshold_bytes {
            bytes
        } else {
            let cubic_s = (self.peak_bytes / PACKET_BYTES * (1.0 - KEPT) / CUBIC).cbrt();
            let at_s = now_s - self.lost_s + round_trip_s - cubic_s;
            let goal = self.peak_bytes + CUBIC * at_s.powi(3) * PACKET_BYTES;
            let cubic = ((goal - self.bytes) / self.bytes).clamp(0.0, 0.5) * bytes;
            cubic.max(RENO * PACKET_BYTES * bytes / self.bytes)
        };
        self.bytes = (self.bytes + growth).min(MOST_WINDOW_BYTES);
    }

    /// So many packets were lost.
    pub(crate) fn lost(&mut self, now_s: f64, packets: f64, round_trip_s: f64) {
        if now_s < self.deaf_until_s {
            return;
        }
        let whole = self.bytes / PACKET_BYTES;
        (self.peak_bytes, self.lost_s) = (self.bytes, now_s);
        self.threshold_bytes = (self.bytes * KEPT).max(2.0 * PACKET_BYTES);
        if whole < FEW_PACKETS || packets > whole / 2.0 {
            self.bytes = PACKET_BYTES;
            self.silent_until_s = now_s + TIMEOUT_S;
            self.deaf_until_s = self.silent_until_s;
        } else {
            self.bytes = self.threshold_bytes;
            self.deaf_until_s = now_s + round_trip_s;
        }
    }
}
