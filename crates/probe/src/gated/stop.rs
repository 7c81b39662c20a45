//! Decides when a train has enough packets.

use super::answer::{Answer, Verdict};
use super::line::LONG_JITTERS;
use super::record::Train;
use super::saturation::{arrived_bytes, saturated_spans};

/// Shortest time of proof after a bucket was seen to become empty, in seconds.
const SATURATED_S: f64 = 0.03;
/// Smallest number of blocks.
const BLOCKS: usize = 12;
/// Widest interval, as a share of the rate.
const WIDTH: f64 = 0.004;
/// Widest interval if the path's delay varies.
const WANDERING_WIDTH: f64 = 0.02;
/// A bucket of at least this depth belongs to a cap. A smaller one may belong to a link, with a larger, still full one
/// behind it.
const CAP_BUCKET_BYTES: f64 = 200_000.0;
/// A policer's rate needs this many drops, this many seconds, and an interval at most this wide as a share of the rate.
const DROPS: usize = 48;
const DROPS_S: f64 = 0.1;
const DROPS_WIDTH: f64 = 0.01;
/// Without a deep bucket the train continues for this many seconds, or for this many wire bytes.
const LONG_S: f64 = 0.05;
const LONG_BYTES: f64 = 8e6;
/// On slow paths it also continues for this many wire bytes, or for this many seconds: until its bucket is empty, a
/// policer or a slower shaper looks like the link behind it.
const LEAST_BYTES: f64 = 1e6;
const SLOW_S: f64 = 0.15;
/// The last part of a train, as a share of its arrivals, and the share of its packets that a policer drops at least.
const LAST: f64 = 0.25;
const DROPPED: f64 = 0.05;

/// Whether an answer needs no more packets.
pub fn enough(train: &Train, answer: &Answer) -> bool {
    let width = (answer.interval.high - answer.interval.low) / answer.rate_bps;
    if answer.policed {
        return answer.blocks >= DROPS && answer.saturated_s >= DROPS_S && width <= DROPS_WIDTH;
    }
    if train.wanders() {
        let least_s = (LONG_JITTERS * train.jitter_ns as f64 * 1e-9).max(LONG_S);
        return answer.verdict == Verdict::PathLimited && answer.saturated_s >= least_s && width <= WANDERING_WIDTH;
    }
    let settled = answer.verdict == Verdict::PathLimited
        && answer.saturated_s >= SATURATED_S
        && answer.blocks >= BLOCKS
        && width <= WIDTH;
    let emptied = answer.bucket_bytes.is_some_and(|bytes| bytes >= CAP_BUCKET_BYTES);
    let bytes = arrived_bytes(train, train.arrivals.len().saturating_sub(1));
    let slow = bytes < LEAST_BYTES && answer.saturated_s < SLOW_S;
    let long = bytes >= LONG_BYTES || (answer.saturated_s >= LONG_S && !slow);
    settled && (emptied || long) && !dropping(train)
}

/// Whether the last packets were dropped without waiting in a queue, as by a policer whose bucket has just become empty.
fn dropping(train: &Train) -> bool {
    let arrivals = &train.arrivals;
    let start = (arrivals.len() as f64 * (1.0 - LAST)) as usize;
    let last = &arrivals[start..];
    let (Some(first), Some(end)) = (last.first(), last.last()) else {
        return false;
    };
    // Packets that the receiver's own socket dropped count as arrived.
    let arrived = last.len() as f64 + f64::from(end.overflow.saturating_sub(first.overflow));
    let sent = f64::from(end.seq.saturating_sub(first.seq)) + 1.0;
    let spans = saturated_spans(train);
    let queued: usize = spans
        .iter()
        .map(|span| span.end.saturating_sub(span.start.max(start)))
        .sum();
    arrived < (1.0 - DROPPED) * sent && 2 * queued < last.len()
}
