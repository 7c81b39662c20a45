//! When a train has told enough.

use super::answer::{Answer, Verdict};
use super::record::Train;
use super::saturation::arrived_bytes;

/// Least time of proof, in seconds, behind a bucket that was seen to run dry.
const SATURATED_S: f64 = 0.03;
/// Fewest blocks.
const BLOCKS: usize = 12;
/// Widest interval, as a share of the rate.
const WIDTH: f64 = 0.004;
/// A bucket this deep is a cap's; a shallower one may be a link's, with a deeper one behind it still full.
const CAP_BUCKET_BYTES: f64 = 200_000.0;
/// Without a deep bucket the train goes on so long, in seconds, or so far, in wire bytes.
const LONG_S: f64 = 0.05;
const LONG_BYTES: f64 = 8e6;

/// Whether an answer needs no more packets.
pub fn enough(train: &Train, answer: &Answer) -> bool {
    let width = (answer.interval.high - answer.interval.low) / answer.rate_bps;
    let settled = answer.verdict == Verdict::PathLimited
        && answer.saturated_s >= SATURATED_S
        && answer.blocks >= BLOCKS
        && width <= WIDTH;
    let emptied = answer.bucket_bytes.is_some_and(|bytes| bytes >= CAP_BUCKET_BYTES);
    let long =
        answer.saturated_s >= LONG_S || arrived_bytes(train, train.arrivals.len().saturating_sub(1)) >= LONG_BYTES;
    settled && (emptied || long)
}
