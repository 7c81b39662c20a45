//! Rates of short blocks of proven packets, their mode, and the level shift where a bucket runs dry.

use super::record::Train;
use super::saturation::{Span, arrived_bytes};

/// Packets in one block. Long enough that a stamp's jitter is small against the block, short enough that a stall of the
/// receiver's core spoils few blocks.
const BLOCK_PACKETS: usize = 16;
/// Shortest block, in nanoseconds: stamps jitter by some microseconds.
const BLOCK_NS: i64 = 1_000_000;

/// One block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// Rate on the wire, bit/s.
    pub rate_bps: f64,
    /// Its length, in seconds.
    pub seconds: f64,
    /// Index of the arrival it begins with, which it does not count.
    pub first: usize,
    /// Index of its last arrival.
    pub last: usize,
    /// Number of its span.
    pub span: usize,
}

/// Cuts the spans into blocks, in time order. Packets with one and the same stamp (a super-packet) are never parted.
pub(super) fn blocks(train: &Train, spans: &[Span]) -> Vec<Block> {
    let stamp = |index: usize| train.arrivals[index].received_ns;
    let mut found = Vec::new();
    for (number, span) in spans.iter().enumerate() {
        // The first packet of a span opens it; a block counts what came after its own first stamp.
        let mut first = last_of_stamp(train, span.start, span.end);
        let mut at = first;
        while at + 1 < span.end {
            at = last_of_stamp(train, at + 1, span.end);
            let ns = stamp(at) - stamp(first);
            if at - first >= BLOCK_PACKETS && ns >= BLOCK_NS {
                let bytes = arrived_bytes(train, at) - arrived_bytes(train, first);
                let seconds = ns as f64 * 1e-9;
                found.push(Block {
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
    found
}

fn last_of_stamp(train: &Train, index: usize, end: usize) -> usize {
    let stamp = train.arrivals[index].received_ns;
    (index..end)
        .take_while(|i| train.arrivals[*i].received_ns == stamp)
        .last()
        .unwrap_or(index)
}

/// Half-sample mode: the densest place of the sample (Robertson and Cryer 1974; Bickel and Fruehwirth 2006). Up to half
/// of the blocks may be off in any direction.
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

/// Middle value; NaN of nothing.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Blocks on each side that a shift must have.
const SIDE_BLOCKS: usize = 4;
/// A drop smaller than this is taken for noise: shapers behind one another with caps this near are one for placement.
const SHIFT_RATIO: f64 = 1.2;
/// Share of blocks on each side that must lie on their side of the middle.
const SIDE_SHARE: f64 = 0.8;

/// Index of the first block after the rate fell for good, as `ShaperProbe` finds a token bucket (IMC 2011, section 3), or
/// `None` when one level explains all blocks.
pub(super) fn shift(rates: &[f64]) -> Option<usize> {
    if rates.len() < 2 * SIDE_BLOCKS {
        return None;
    }
    let cost = |side: &[f64]| {
        let middle = median(side);
        side.iter().map(|rate| (rate / middle).ln().abs()).sum::<f64>()
    };
    // At most 64 places are tried; a bucket's end is then known to 1/64 of the train, and the median bears that.
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
