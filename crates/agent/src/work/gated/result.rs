//! Converts an answer to the message for the controller.

use gavotte_probe::gated::{Answer, Refusal, Train, Verdict};

use crate::contract::agents::{GatedRefusal, GatedTrainResult, Verdict as VerdictCode};

/// Width of the bins of a train with a minimum duration, in seconds.
const BIN_S: f64 = 0.01;
/// Largest number of bins: 60 s of them. A report with all of them still fits in a frame.
const MAX_BINS: usize = 6_001;

/// Fills in the result. Trains with a minimum duration (`held`) have bins.
pub(super) fn result(train: &Train, answer: &Result<Answer, Refusal>, held: bool) -> GatedTrainResult {
    let first = train.arrivals.first().map_or(0, |arrival| arrival.received_ns);
    let last = train.arrivals.last().map_or(0, |arrival| arrival.received_ns);
    let counted = GatedTrainResult {
        wire_bytes: train.wire_bytes,
        payload_bytes: train.payload_bytes,
        sent: train.sent,
        received: train.arrivals.len() as u64,
        seconds: (last - first) as f64 * 1e-9,
        first_unix_ns: first as u64,
        bin_s: if held { BIN_S } else { 0.0 },
        bin_bytes: if held { bins(train, first) } else { Vec::new() },
        ..GatedTrainResult::default()
    };
    match answer {
        Ok(answer) => GatedTrainResult {
            verdict: code(answer.verdict).into(),
            rate_bps: answer.rate_bps,
            low_bps: answer.interval.low,
            high_bps: answer.interval.high,
            peak_bps: answer.peak_bps,
            peak_saturated: answer.peak_saturated,
            policed: answer.policed,
            bucket_bytes: answer.bucket_bytes,
            loss: answer.loss,
            unqueued: answer.unqueued.packets,
            unqueued_lost: answer.unqueued.lost,
            blocks: answer.blocks as u32,
            saturated_s: answer.saturated_s,
            ..counted
        },
        Err(refusal) => GatedTrainResult {
            refusal: refusal.to_string(),
            refused: refused(refusal).into(),
            ..counted
        },
    }
}

fn code(verdict: Verdict) -> VerdictCode {
    match verdict {
        Verdict::PathLimited => VerdictCode::PathLimited,
        Verdict::HostLimited => VerdictCode::HostLimited,
        Verdict::BucketNotExhausted => VerdictCode::BucketNotExhausted,
    }
}

fn refused(refusal: &Refusal) -> GatedRefusal {
    match refusal {
        Refusal::Silent(_) => GatedRefusal::Silent,
        Refusal::ClockStepped => GatedRefusal::ClockStepped,
        Refusal::TooShort { .. } => GatedRefusal::TooShort,
        Refusal::Unsteady { .. } => GatedRefusal::Unsteady,
    }
}

fn bins(train: &Train, first: i64) -> Vec<u64> {
    let mut bins = Vec::new();
    for arrival in &train.arrivals {
        let at = ((arrival.received_ns - first) as f64 * 1e-9 / BIN_S) as usize;
        let at = at.min(MAX_BINS - 1);
        if bins.len() <= at {
            bins.resize(at + 1, 0);
        }
        bins[at] += u64::from(train.wire_bytes);
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use gavotte_probe::gated::Arrival;

    #[test]
    fn held_trains_are_binned_from_the_first_arrival() {
        let arrival = |ms: i64| Arrival {
            seq: ms as u32,
            batch: 0,
            sent_ns: 0,
            received_ns: 1_000_000_000 + ms * 1_000_000,
            overflow: 0,
        };
        let train = Train {
            wire_bytes: 1514,
            arrivals: [0, 9, 10, 35].map(arrival).to_vec(),
            ..Train::default()
        };
        let message = result(&train, &Err(Refusal::Silent(4)), true);
        assert_eq!(message.bin_bytes, [3028, 1514, 0, 1514]);
        assert_eq!((message.first_unix_ns, message.received), (1_000_000_000, 4));
        assert_eq!(
            (message.refused(), message.refusal.as_str()),
            (GatedRefusal::Silent, "only 4 packets arrived")
        );
        assert!(result(&train, &Err(Refusal::Silent(4)), false).bin_bytes.is_empty());
    }
}
