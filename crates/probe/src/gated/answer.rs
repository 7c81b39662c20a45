//! Estimates the rate of a path from packets that provably waited in a queue, and states how reliable the estimate is.

use thiserror::Error;

use super::blocks::{Block, blocks, median, mode, shift};
use super::line::{Line, line};
use super::policed::{Policed, policed};
use super::random::{Unqueued, unqueued};
use super::record::{Arrival, Limit, Train};
use super::saturation::{Span, arrived_bytes, floor_ns, saturated_spans};
use super::slope::{Interval, Knot, knots as knots_of, slope};

/// Smallest number of blocks for an answer.
const MIN_BLOCKS: usize = 5;
/// Shortest time that a path must have been saturated for an answer, in seconds.
const MIN_SATURATED_S: f64 = 0.004;
/// Blocks within this relative distance of the mode support it.
const NEAR: f64 = 0.03;
/// Smallest share of blocks that must support the mode.
const SUPPORT: f64 = 0.4;
/// Number of blocks of a saturated path after which its bucket counts as empty.
const BUCKET_KNOTS: usize = 8;
/// Full packets of a block before the path was saturated.
const HEAD_PACKETS: u32 = 16;
/// Largest share of a policed train that may have been spent in a queue.
const QUEUED_SHARE: f64 = 0.2;
/// Smallest number of full packets that give a rate without proof, as a lower bound.
const MIN_PACKETS: u32 = 32;

/// The meaning of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The sustained rate of the path: its queue was never empty while this rate was measured.
    PathLimited,
    /// The hosts could not send or receive faster; the path may be faster.
    HostLimited,
    /// The byte budget ended before packets had to wait: the path may be faster, or a bucket was not yet empty.
    BucketNotExhausted,
}

/// The estimate from a train. All rates are in bit/s on the wire, as a shaper counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Sustained rate r; a lower bound unless the verdict is [`Verdict::PathLimited`].
    pub rate_bps: f64,
    /// Confidence interval of the rate, from the spread of blocks.
    pub interval: Interval,
    /// Rate C before the bucket was empty; a lower bound unless `peak_saturated`.
    pub peak_bps: f64,
    /// Whether the peak rate, too, was measured with a full queue.
    pub peak_saturated: bool,
    /// Depth b of the token bucket, in wire bytes; `None` if the path was not saturated.
    pub bucket_bytes: Option<f64>,
    /// Share of packets that the path lost.
    pub loss: f64,
    /// Packets that met no full queue: what was lost of them was lost at random.
    pub unqueued: Unqueued,
    /// Number of blocks on which the rate is based.
    pub blocks: usize,
    /// How long the path was provably saturated at that rate, in seconds.
    pub saturated_s: f64,
    /// Whether the path drops packets above the rate instead of queueing them.
    pub policed: bool,
    /// The meaning of the rate.
    pub verdict: Verdict,
}

/// Why a train gives no answer.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum Refusal {
    /// Almost no packet arrived.
    #[error("only {0} packets arrived")]
    Silent(usize),
    /// A clock jumped during the train, or was slewed fast.
    #[error("a clock was set during the train, or slewed by more than 500 ppm")]
    ClockStepped,
    /// The path was saturated for too short a time.
    #[error("the path was saturated for only {saturated_ms:.1} ms in {blocks} blocks")]
    TooShort {
        /// Time with proof, in milliseconds.
        saturated_ms: f64,
        /// Number of blocks in that time.
        blocks: usize,
    },
    /// Too few blocks agree on one rate.
    #[error("the rate is unsteady: only {support:.0} % of {blocks} blocks agree")]
    Unsteady {
        /// Share of blocks that agree, in percent.
        support: f64,
        /// Number of all blocks.
        blocks: usize,
    },
}

/// Estimates the path of a train.
///
/// # Errors
/// A [`Refusal`] if no number is reliable.
pub fn estimate(train: &Train) -> Result<Answer, Refusal> {
    let arrivals = &train.arrivals;
    if arrivals.len() < train.packets(MIN_PACKETS) {
        return Err(Refusal::Silent(arrivals.len()));
    }
    if arrivals
        .windows(2)
        .any(|pair| pair[1].received_ns < pair[0].received_ns)
    {
        return Err(Refusal::ClockStepped);
    }
    let spans = saturated_spans(train);
    let proven_blocks = blocks(train, &spans);
    let rates: Vec<f64> = proven_blocks.iter().map(|block| block.rate_bps).collect();
    let saturated_s: f64 = proven_blocks.iter().map(|block| block.seconds).sum();
    if let Some(policer) = policed(train).filter(|policer| never_queued(policer, &proven_blocks)) {
        return Ok(by_drops(train, &policer));
    }
    // If the path was hardly ever saturated, the hosts were the limit.
    let train_s = seconds(train, 0, arrivals.len() - 1);
    if proven_blocks.len() < MIN_BLOCKS || saturated_s < MIN_SATURATED_S {
        if train.limit == Limit::Enough && !proven_blocks.is_empty() {
            return Err(Refusal::TooShort {
                saturated_ms: 1e3 * saturated_s,
                blocks: proven_blocks.len(),
            });
        }
        return unsaturated(train, train_s);
    }
    let split = shift(&rates);
    let level = &proven_blocks[split.unwrap_or(0)..];
    let Level {
        rate_bps,
        interval,
        knots,
    } = if train.wanders() {
        wandering(train, level, &spans)?
    } else {
        steady(train, level)?
    };
    let (peak_bps, peak_saturated) = match split {
        Some(split) => {
            let rough_bps = mode(&rates[..split]);
            let before = slope(&knots_of(train, &proven_blocks[..split], rough_bps));
            (before.map_or(rough_bps, |(bps, _)| bps), true)
        }
        None => (head_bps(train, spans[0].start).unwrap_or(rate_bps).max(rate_bps), false),
    };
    Ok(Answer {
        rate_bps,
        interval,
        peak_bps,
        peak_saturated,
        bucket_bytes: Some(bucket_bytes(train, bucket_end(&knots), rate_bps)),
        loss: loss(train),
        unqueued: unqueued(train),
        blocks: level.len(),
        saturated_s: level.iter().map(|block| block.seconds).sum(),
        policed: false,
        verdict: Verdict::PathLimited,
    })
}

/// The rate of the blocks after the last level shift.
struct Level {
    rate_bps: f64,
    interval: Interval,
    knots: Vec<Knot>,
}

/// The rate on which most blocks agree, from long lags.
fn steady(train: &Train, level: &[Block]) -> Result<Level, Refusal> {
    let (rough_bps, support) = agreed(level);
    let unsteady = Refusal::Unsteady {
        support: 100.0 * support,
        blocks: level.len(),
    };
    if support < SUPPORT {
        return Err(unsteady);
    }
    let knots = knots_of(train, level, rough_bps);
    let (rate_bps, interval) = slope(&knots).ok_or(Refusal::TooShort {
        saturated_ms: 1e3 * level.iter().map(|block| block.seconds).sum::<f64>(),
        blocks: level.len(),
    })?;
    if (rate_bps / rough_bps - 1.0).abs() > NEAR {
        return Err(unsteady);
    }
    Ok(Level {
        rate_bps,
        interval,
        knots,
    })
}

/// The rate of a path whose delay varies, from a straight line.
fn wandering(train: &Train, level: &[Block], spans: &[Span]) -> Result<Level, Refusal> {
    let fitted_line = line(train, level, spans).filter(|line| line.steady);
    let Line { rate_bps, interval, .. } = fitted_line.ok_or(Refusal::Unsteady {
        support: 100.0 * agreed(level).1,
        blocks: level.len(),
    })?;
    Ok(Level {
        rate_bps,
        interval,
        knots: knots_of(train, level, rate_bps),
    })
}

/// Whether almost no packet waited in a queue once the policer had begun to drop.
fn never_queued(policer: &Policed, proven_blocks: &[Block]) -> bool {
    let later = proven_blocks.iter().filter(|block| block.first >= policer.first);
    later.map(|block| block.seconds).sum::<f64>() < QUEUED_SHARE * policer.seconds
}

fn by_drops(train: &Train, policer: &Policed) -> Answer {
    let peak_bps = head_bps(train, policer.first + 1).unwrap_or(policer.rate_bps);
    Answer {
        rate_bps: policer.rate_bps,
        interval: policer.interval,
        peak_bps: peak_bps.max(policer.rate_bps),
        peak_saturated: false,
        bucket_bytes: Some(bucket_bytes(train, policer.early, policer.rate_bps)),
        loss: loss(train),
        // A policer has no queue, so its own drops would count.
        unqueued: Unqueued::default(),
        blocks: policer.knots,
        saturated_s: policer.seconds,
        policed: true,
        verdict: Verdict::PathLimited,
    }
}

/// The rate on which most blocks agree, in bit/s, and the share of blocks that agree.
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

/// Index of the arrival by which the bucket counts as empty. At later arrivals the rate's error would outweigh the
/// proof that the bucket is empty.
fn bucket_end(knots: &[Knot]) -> usize {
    knots.get(BUCKET_KNOTS).or(knots.last()).map_or(0, |knot| knot.index)
}

/// The depth of the token bucket. A bucket that was full at the start lets b + r t bytes pass by time t, minus the
/// tokens that overflowed while the sender was slower than r. The depth is therefore the largest lead of the arrived
/// bytes over `rate x time`.
fn bucket_bytes(train: &Train, end: usize, rate_bps: f64) -> f64 {
    let Some(floor) = floor_ns(train) else { return 0.0 };
    // The first packet is late by its delay above the smallest delay.
    let begin = floor + train.arrivals[0].sent_ns;
    let worth = |ns: i64| rate_bps / 8e9 * (ns - begin) as f64;
    let (mut spilt, mut depth, mut before) = (0.0f64, 0.0f64, 0.0);
    for (index, arrival) in train.arrivals.iter().enumerate().take(end + 1) {
        // No packet can have passed earlier than the smallest delay after it was sent; a late timestamp does not prove
        // a pause.
        spilt = spilt.max(worth(floor + arrival.sent_ns) - before);
        before = arrived_bytes(train, index);
        // Subtract half a packet or super-packet: some shapers count it before it passes, some after.
        let half = stamp_bytes(train, index) / 2.0;
        depth = depth.max(before - worth(arrival.received_ns) + spilt - half);
    }
    depth
}

/// Bytes that arrived with the same timestamp.
fn stamp_bytes(train: &Train, index: usize) -> f64 {
    let stamp = train.arrivals[index].received_ns;
    let same = |arrival: &&Arrival| arrival.received_ns == stamp;
    let (before, after) = train.arrivals.split_at(index);
    let count = before.iter().rev().take_while(same).count() + after.iter().take_while(same).count();
    count as f64 * f64::from(train.wire_bytes)
}

/// The rate before the path was first saturated, in bit/s: the median of short blocks, since the sender may have
/// stalled.
fn head_bps(train: &Train, end: usize) -> Option<f64> {
    let stamp = |index: usize| train.arrivals[index].received_ns;
    let packets = train.packets(HEAD_PACKETS);
    let mut rates = Vec::new();
    let mut first = 0;
    for at in 1..end {
        let ns = stamp(at) - stamp(first);
        let whole = at + 1 == end || stamp(at + 1) != stamp(at);
        if at - first >= packets && whole && ns > 0 {
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
        unqueued: unqueued(train),
        blocks: 0,
        saturated_s: 0.0,
        policed: false,
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
