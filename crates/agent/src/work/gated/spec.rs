//! The checked parameters of a gated train.

use std::time::Duration;

use gavotte_probe::gated::Shape;
use gavotte_probe::gated::wire::DATA_BYTES;
use gavotte_probe::mtu::{Family, MOST_BYTES as MOST_MTU_BYTES};
use gavotte_probe::packet::MAX_PAYLOAD_BYTES;

use crate::contract::agents::GatedTrain;
use crate::error::WorkError;

/// Default byte budget: empties a bucket of 60 MB at any rate.
const MAX_BYTES: u64 = 64_000_000;
/// Smallest byte budget: a train must have room for one packet at MTU 1500.
const LEAST_BYTES: u32 = 1_472;
/// Largest byte budget of one train; bounds its receiver's memory to 40 bytes per packet.
const MOST_BYTES: u64 = 2_000_000_000;
/// Default time: 190 packets at 2 Mbit/s.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Longest train.
const MOST_TIME: Duration = Duration::from_secs(60);

/// A checked gated train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// Largest UDP payload of one packet in bytes.
    pub(super) payload_bytes: u32,
    pub(super) max_time: Duration,
    pub(super) hold: Duration,
    pub(super) max_bytes: u64,
    pub(super) keep_trace: bool,
    pub(super) pause: Duration,
}

impl Spec {
    /// Checks a probe's parameters; zeros mean defaults.
    ///
    /// # Errors
    /// A text that names the parameter that is out of range.
    pub fn new(asked: &GatedTrain) -> Result<Self, WorkError> {
        let refuse = |text: String| Err(WorkError::Request(text));
        let payload_bytes = match asked.payload_bytes {
            0 => Family::V4.payload_bytes(MOST_MTU_BYTES),
            other => other,
        };
        if !(DATA_BYTES..=MAX_PAYLOAD_BYTES).contains(&(payload_bytes as usize)) {
            return refuse(format!(
                "gated_train.payload_bytes: {DATA_BYTES} to {MAX_PAYLOAD_BYTES}, not {payload_bytes}"
            ));
        }
        let max_bytes = match asked.max_bytes {
            0 => MAX_BYTES,
            other => other,
        };
        if max_bytes > MOST_BYTES || max_bytes < u64::from(payload_bytes.min(LEAST_BYTES)) {
            return refuse(format!("gated_train.max_bytes: at most {MOST_BYTES}, not {max_bytes}"));
        }
        let hold = time(asked.hold_s, "gated_train.hold_s")?;
        let max_time = match time(asked.max_seconds, "gated_train.max_seconds")? {
            Duration::ZERO => MAX_TIME.max(hold),
            time => time,
        };
        if hold > max_time {
            return refuse(format!("gated_train.hold_s: at most max_seconds, not {}", asked.hold_s));
        }
        Ok(Self {
            payload_bytes,
            max_time,
            hold,
            max_bytes,
            keep_trace: asked.keep_trace,
            pause: time(asked.pause_s, "gated_train.pause_s")?,
        })
    }

    /// The train with packets of `payload_bytes`.
    pub(super) fn shape(&self, payload_bytes: u32) -> Shape {
        Shape {
            payload_bytes,
            max_packets: (self.max_bytes / u64::from(payload_bytes.max(1))) as u32,
            max_time: self.max_time,
            hold: self.hold,
        }
    }
}

fn time(seconds: f64, what: &str) -> Result<Duration, WorkError> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= MOST_TIME)
        .ok_or_else(|| WorkError::Request(format!("{what}: at most {} s, not {seconds}", MOST_TIME.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_stand_for_defaults() {
        let spec = Spec::new(&GatedTrain::default()).unwrap();
        assert_eq!((spec.payload_bytes, spec.shape(1472).max_packets), (9188, 43_478));
    }

    #[test]
    fn specs_out_of_range_are_named() {
        let refused = |change: fn(&mut GatedTrain)| {
            let mut asked = GatedTrain::default();
            change(&mut asked);
            Spec::new(&asked).unwrap_err().to_string()
        };
        assert!(refused(|t| t.payload_bytes = 55).contains("payload_bytes"));
        assert!(refused(|t| t.payload_bytes = 70_000).contains("payload_bytes"));
        assert!(refused(|t| t.max_bytes = u64::MAX).contains("max_bytes"));
        assert!(refused(|t| t.max_bytes = 100).contains("max_bytes"));
        assert!(refused(|t| t.max_seconds = f64::NAN).contains("max_seconds"));
        assert!(refused(|t| t.max_seconds = -1.0).contains("max_seconds"));
        assert!(refused(|t| t.hold_s = 61.0).contains("hold_s"));
        assert!(refused(|t| t.pause_s = 61.0).contains("pause_s"));
        assert!(
            refused(|t| {
                t.hold_s = 2.0;
                t.max_seconds = 1.0;
            })
            .contains("hold_s")
        );
    }
}
