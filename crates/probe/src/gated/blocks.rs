//! The rates of short blocks of proven packets, their mode, and the level shift at the moment when a bucket is empty.

use super::record::Train;
use super::saturation::{Span, arrived_bytes};

/// Full packets in one block. A block must be long compared with the jitter of a timestamp, but short enough that a
/// stall of the receiver's core affects few blocks.
const BLOCK_PACKETS: u32 = 16;
/// Shortest block, in nanoseconds: timestamps jitter by some microseconds.
const BLOCK_NS: i64 = 1_000_000;
/// Shortest block of a path whose delay varies, in multiples of its jitter.
const JITTERS: i64 = 4;

/// A block of consecutive arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// Rate on the wire, in bit/s.
    pub rate_bps: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Index of the arrival before the block, whose bytes it does not count.
    pub first: usize,
    /// Index of its last arrival.
    pub last: usize,
    /// Number of the span that the block is part of.
    pub span: usize,
}

/// Cuts the spans into blocks, in time order. Packets with the same timestamp (a super-packet) stay together.
pub(super) fn blocks(train: &Train, spans: &[Span]) -> Vec<Block> {
    let stamp = |index: usize| train.arrivals[index].received_ns;
    let packets = train.packets(BLOCK_PACKETS);
    let least_ns = BLOCK_NS.max(JITTERS * train.jitter_ns);
    let mut blocks = Vec::new();
    for (number, span) in spans.iter().enumerate() {
        // A span begins with its first packet; a block counts the packets after its own first timestamp.
        let mut first = last_of_stamp(train, span.start, span.end);
        let mut at = first;
        while at + 1 < span.end {
            at = last_of_stamp(train, at + 1, span.end);
            let ns = stamp(at) - stamp(first);
            if at - first >= packets && ns >= least_ns {
                let bytes = arrived_bytes(train, at) - arrived_bytes(train, first);
                let seconds = ns as f64 * 1e-9;
                blocks.push(Block {
                    rate_bps: 8.0 * bytes / seconds,
                    seconds,
                    first,
                    last: at,
                    span: number,
                });
                first = at;
            }
        }
    }
    blocks
}

fn last_of_stamp(train: &Train, index: usize, end: usize) -> usize {
    let stamp = train.arrivals[index].received_ns;
    (index..end)
        .take_while(|i| train.arrivals[*i].received_ns == stamp)
        .last()
        .unwrap_or(index)
}

/// Half-sample mode: the densest place of the sample (Robertson and Cryer 1974; Bickel and Fruehwirth 2006). Up to half
/// of the blocks may deviate in any direction.
pub(super) fn mode(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut sample = sorted.as_slice();
    while sample.len() > 3 {
        let half = sample.len().div_ceil(2);
        let start = (0..=sample.len() - half)
            .min_by(|a, b| (sample[a + half - 1] - sample[*a]).total_cmp(&(sample[b + half - 1] - sample[*b])))
            .unwrap_or(0);
        sample = &sample[start..start + half];
    }
    match sample {
        [a, b, c] if b - a < c - b => f64::midpoint(*a, *b),
        [a, b, c] if b - a > c - b => f64::midpoint(*b, *c),
        [_, b, _] => *b,
        [a, b] => f64::midpoint(*a, *b),
        [a] => *a,
        _ => f64::NAN,
    }
}

/// The median; NaN for an empty list.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Smallest number of blocks on each side of a shift.
const SIDE_BLOCKS: usize = 4;
/// Smaller drops count as noise: two shapers in sequence whose caps are this close count as one for placement.
const SHIFT_RATIO: f64 = 1.2;
/// Smallest share of blocks on each side that must lie on their side of the middle.
const SIDE_SHARE: f64 = 0.8;

/// Index of the first block after the rate fell permanently, as `ShaperProbe` finds a token bucket (IMC 2011, section
/// 3). `None` if one level explains all blocks.
pub(super) fn shift(rates: &[f64]) -> Option<usize> {
    if rates.len() < 2 * SIDE_BLOCKS {
        return None;
    }
    let cost = |side: &[f64]| {
        let middle = median(side);
        side.iter().map(|rate| (rate / middle).ln().abs()).sum::<f64>()
    };
    // Try at most 64 places: the bucket's end is then known to 1/64 of the train, which is accurate enough for a
    // median.
    let step = (rates.len() / 64).max(1);
    let (_, split) = (SIDE_BLOCKS..=rates.len() - SIDE_BLOCKS)
        .step_by(step)
        .map(|split| (cost(&rates[..split]) + cost(&rates[split..]), split))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (before, after) = rates.split_at(split);
    let (high, low) = (median(before), median(after));
    let middle = (high * low).sqrt();
    let share = |side: &[f64], right: &dyn Fn(f64) -> bool| {
        side.iter().filter(|rate| right(**rate)).count() as f64 / side.len() as f64
    };
    let clear = share(before, &|rate| rate > middle) >= SIDE_SHARE && share(after, &|rate| rate < middle) >= SIDE_SHARE;
    (high > SHIFT_RATIO * low && clear).then_some(split)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_bears_outliers_on_one_side() {
        let mut rates = vec![100.0, 100.1, 99.9, 100.05, 99.95, 100.02];
        rates.extend([400.0, 380.0, 900.0, 20.0, 700.0]);
        assert!((mode(&rates) - 100.0).abs() < 0.1);
        assert!(mode(&[]).is_nan());
        assert!((mode(&[3.0]) - 3.0).abs() < 1e-12);
    }

    #[test]
    fn a_drop_is_found_and_noise_is_not() {
        let mut rates = vec![1000.0; 20];
        rates.extend(vec![300.0; 30]);
        rates[5] = 250.0;
        rates[40] = 1500.0;
        assert_eq!(shift(&rates), Some(20));
        let noise: Vec<f64> = (0..50).map(|i| 100.0 + f64::from(i * 37 % 11)).collect();
        assert_eq!(shift(&noise), None);
        assert_eq!(shift(&[1.0, 2.0]), None);
    }
}
