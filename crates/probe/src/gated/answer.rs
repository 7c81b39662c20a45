//! From proven packets to an answer that says how far it can be trusted.

use thiserror::Error;

use super::blocks::{Block, blocks, median, mode, shift};
use super::record::{Arrival, Limit, Train};
use super::saturation::{arrived_bytes, floor_ns, saturated_spans};
use super::slope::{Interval, Knot, knots as knots_of, slope};

/// Fewest blocks an answer may rest on.
const MIN_BLOCKS: usize = 5;
/// Least time a path must have been saturated for an answer, in seconds.
const MIN_SATURATED_S: f64 = 0.004;
/// Blocks this near to the mode support it.
const NEAR: f64 = 0.03;
/// Share of blocks that must support it.
const SUPPORT: f64 = 0.4;
/// Blocks of a saturated path after which its bucket counts as empty.
const BUCKET_KNOTS: usize = 8;
/// Packets of a block before the path was saturated.
const HEAD_PACKETS: usize = 16;
/// Fewest packets that tell a rate without proof, as a lower bound.
const MIN_PACKETS: usize = 32;

/// What a rate stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The path's sustained rate: its queue was never empty while this rate was seen.
    PathLimited,
    /// The hosts could not send or receive faster; the path may have more.
    HostLimited,
    /// The budget ended while everything still passed: the path may have more, or a bucket was not yet empty.
    BucketNotExhausted,
}

/// What a train says of its path. All rates are bit/s on the wire, as a shaper counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Sustained rate r; a lower bound unless the verdict is [`Verdict::PathLimited`].
    pub rate_bps: f64,
    /// Its interval; from the scatter of blocks.
    pub interval: Interval,
    /// Rate C while the bucket lasted; a lower bound unless `peak_saturated`.
    pub peak_bps: f64,
    /// Whether the peak, too, was seen with a full queue.
    pub peak_saturated: bool,
    /// Depth b of the token bucket, in wire bytes; `None` without a saturated path.
    pub bucket_bytes: Option<f64>,
    /// Share of packets that the path lost.
    pub loss: f64,
    /// Blocks the rate rests on.
    pub blocks: usize,
    /// How long the path was provably saturated at that rate, in seconds.
    pub saturated_s: f64,
    /// What the rate stands for.
    pub verdict: Verdict,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum Refusal {
    /// Next to nothing arrived.
    #[error("only {0} packets arrived")]
    Silent(usize),
    /// A clock jumped during the train.
    #[error("a clock was stepped during the train")]
    ClockStepped,
    /// The path was saturated too shortly to tell a rate.
    #[error("the path was saturated for only {saturated_ms:.1} ms in {blocks} blocks")]
    TooShort {
        /// Time with proof, in milliseconds.
        saturated_ms: f64,
        /// Blocks in it.
        blocks: usize,
    },
    /// No rate is supported by enough blocks.
    #[error("the rate is unsteady: only {support:.0} % of {blocks} blocks agree")]
    Unsteady {
        /// Share that agrees, in percent.
        support: f64,
        /// Blocks in all.
        blocks: usize,
    },
}

/// Estimates the path of a train.
///
/// # Errors
/// A [`Refusal`] when no number can be trusted.
pub fn estimate(train: &Train) -> Result<Answer, Refusal> {
    let arrivals = &train.arrivals;
    if arrivals.len() < MIN_PACKETS {
        return Err(Refusal::Silent(arrivals.len()));
    }
    if arrivals
        .windows(2)
        .any(|pair| pair[1].received_ns < pair[0].received_ns)
    {
        return Err(Refusal::ClockStepped);
    }
    let spans = saturated_spans(train);
    let found = blocks(train, &spans);
    let rates: Vec<f64> = found.iter().map(|block| block.rate_bps).collect();
    let saturated_s: f64 = found.iter().map(|block| block.seconds).sum();
    // A path that was hardly ever saturated was limited by its ends.
    let train_s = seconds(train, 0, arrivals.len() - 1);
    if found.len() < MIN_BLOCKS || saturated_s < MIN_SATURATED_S {
        if train.limit == Limit::Enough && !found.is_empty() {
            return Err(Refusal::TooShort {
                saturated_ms: 1e3 * saturated_s,
                blocks: found.len(),
            });
        }
        return unsaturated(train, train_s);
    }
    let split = shift(&rates);
    let level = &found[split.unwrap_or(0)..];
    let (rough_bps, support) = agreed(level);
    if support < SUPPORT {
        return Err(Refusal::Unsteady {
            support: 100.0 * support,
            blocks: level.len(),
        });
    }
    let knots = knots_of(train, level, rough_bps);
    let (rate_bps, interval) = slope(&knots).ok_or(Refusal::TooShort {
        saturated_ms: 1e3 * saturated_s,
        blocks: level.len(),
    })?;
    if (rate_bps / rough_bps - 1.0).abs() > NEAR {
        return Err(Refusal::Unsteady {
            support: 100.0 * support,
            blocks: level.len(),
        });
    }
    let (peak_bps, peak_saturated) = match split {
        Some(split) => {
            let rough_bps = mode(&rates[..split]);
            let before = slope(&knots_of(train, &found[..split], rough_bps));
            (before.map_or(rough_bps, |(bps, _)| bps), true)
        }
        None => (head_bps(train, spans[0].start).unwrap_or(rate_bps).max(rate_bps), false),
    };
    Ok(Answer {
        rate_bps,
        interval,
        peak_bps,
        peak_saturated,
        bucket_bytes: Some(bucket_bytes(train, &knots, rate_bps)),
        loss: loss(train),
        blocks: level.len(),
        saturated_s: level.iter().map(|block| block.seconds).sum(),
        verdict: Verdict::PathLimited,
    })
}

/// The rate most blocks agree on, bit/s, and the share of blocks that agree.
fn agreed(level: &[Block]) -> (f64, f64) {
    let rates: Vec<f64> = level.iter().map(|block| block.rate_bps).collect();
    let middle = mode(&rates);
    let near: Vec<f64> = rates
        .iter()
        .copied()
        .filter(|rate| (rate / middle - 1.0).abs() < NEAR)
        .collect();
    (median(&near), near.len() as f64 / rates.len() as f64)
}

/// Token bucket depth. A bucket that was full when the train began lets b + r t bytes through by time t, less what it had
/// no room for while the sender was slower than r with the bucket full; that is the most that `rate x time` ever was ahead.
fn bucket_bytes(train: &Train, knots: &[Knot], rate_bps: f64) -> f64 {
    let Some(floor) = floor_ns(train) else { return 0.0 };
    // The first packet is late by as much as its delay is above the smallest.
    let begin = floor + train.arrivals[0].sent_ns;
    // Later, the rate's error would count for more than a bucket that was seen once again to be empty.
    let end = knots.get(BUCKET_KNOTS).or(knots.last()).map_or(0, |knot| knot.index);
    let worth = |ns: i64| rate_bps / 8e9 * (ns - begin) as f64;
    let (mut spilt, mut depth, mut before) = (0.0f64, 0.0f64, 0.0);
    for (index, arrival) in train.arrivals.iter().enumerate().take(end + 1) {
        // No packet can have passed sooner than the smallest delay after it was sent; a late stamp is no proof of a pause.
        spilt = spilt.max(worth(floor + arrival.sent_ns) - before);
        before = arrived_bytes(train, index);
        // Half a packet, or super-packet: some shapers count it before, some after it has passed.
        let half = stamp_bytes(train, index) / 2.0;
        depth = depth.max(before - worth(arrival.received_ns) + spilt - half);
    }
    depth
}

/// Bytes that arrived under one and the same stamp.
fn stamp_bytes(train: &Train, index: usize) -> f64 {
    let stamp = train.arrivals[index].received_ns;
    let same = |arrival: &&Arrival| arrival.received_ns == stamp;
    let (before, after) = train.arrivals.split_at(index);
    let count = before.iter().rev().take_while(same).count() + after.iter().take_while(same).count();
    count as f64 * f64::from(train.wire_bytes)
}

/// Rate before the path was first saturated, bit/s: the median of short blocks, since the sender may have stalled there.
fn head_bps(train: &Train, end: usize) -> Option<f64> {
    let stamp = |index: usize| train.arrivals[index].received_ns;
    let mut rates = Vec::new();
    let mut first = 0;
    for at in 1..end {
        let ns = stamp(at) - stamp(first);
        let whole = at + 1 == end || stamp(at + 1) != stamp(at);
        if at - first >= HEAD_PACKETS && whole && ns > 0 {
            rates.push(8e9 * (arrived_bytes(train, at) - arrived_bytes(train, first)) / ns as f64);
            first = at;
        }
    }
    (!rates.is_empty()).then(|| median(&rates))
}

fn unsaturated(train: &Train, train_s: f64) -> Result<Answer, Refusal> {
    if train_s <= 0.0 {
        return Err(Refusal::Silent(train.arrivals.len()));
    }
    let bytes = arrived_bytes(train, train.arrivals.len() - 1) - f64::from(train.wire_bytes);
    let rate_bps = 8.0 * bytes / train_s;
    Ok(Answer {
        rate_bps,
        interval: Interval {
            low: rate_bps,
            high: f64::INFINITY,
        },
        peak_bps: rate_bps,
        peak_saturated: false,
        bucket_bytes: None,
        loss: loss(train),
        blocks: 0,
        saturated_s: 0.0,
        verdict: if train.limit == Limit::Bytes {
            Verdict::BucketNotExhausted
        } else {
            Verdict::HostLimited
        },
    })
}

fn loss(train: &Train) -> f64 {
    let overflow = train.arrivals.last().map_or(0, |last| u64::from(last.overflow));
    let lost = train
        .sent
        .saturating_sub(train.arrivals.len() as u64)
        .saturating_sub(overflow);
    if train.sent == 0 {
        0.0
    } else {
        lost as f64 / train.sent as f64
    }
}

fn seconds(train: &Train, from: usize, to: usize) -> f64 {
    (train.arrivals[to].received_ns - train.arrivals[from].received_ns) as f64 * 1e-9
}
