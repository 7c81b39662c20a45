//! The rate of a level, from long lags between the knots of its blocks.
//!
//! A shaper that is never idle lets b + r t bytes pass by time t. If its timer fires late, it catches up, up to the
//! bucket's depth. Timestamps, too, can only be late. In each block, the packet that is furthest ahead (its *knot*) is
//! therefore the least disturbed. The line through two knots far apart has the path's slope.
//!
//! A stall that outlasts the bucket causes a step, which affects only the lags across it. The lag is chosen by how well
//! its slopes agree.

use super::blocks::{Block, median, mode};
use super::record::Train;
use super::saturation::arrived_bytes;

/// Smallest number of slopes of one lag.
const MIN_SLOPES: usize = 6;
/// Only slopes within this many standard deviations of the mode count.
const KEPT: f64 = 3.0;

/// A 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The least disturbed packet of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knot {
    /// Index of the arrival.
    pub index: usize,
    /// Number of the span.
    pub span: usize,
    bytes: f64,
    ns: i64,
}

/// The knot of each block, given a rough rate in bit/s.
pub(super) fn knots(train: &Train, level: &[Block], rate_bps: f64) -> Vec<Knot> {
    let knot = |block: &Block| {
        let origin = train.arrivals[block.first].received_ns;
        let ahead = |index: usize| {
            let ns = (train.arrivals[index].received_ns - origin) as f64;
            arrived_bytes(train, index) - rate_bps / 8e9 * ns
        };
        let index = (block.first + 1..=block.last).max_by(|a, b| ahead(*a).total_cmp(&ahead(*b)));
        let index = index.unwrap_or(block.last);
        Knot {
            index,
            span: block.span,
            bytes: arrived_bytes(train, index),
            ns: train.arrivals[index].received_ns,
        }
    };
    level.iter().map(knot).collect()
}

/// The rate from the knots, in bit/s, and its 95 % interval; `None` if there are too few knots.
pub(super) fn slope(knots: &[Knot]) -> Option<(f64, Interval)> {
    let lags = (0..).map(|power| 1usize << power).take_while(|lag| *lag < knots.len());
    lags.filter_map(|lag| at_lag(knots, lag))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(rate_bps, error)| {
            let half = 1.96 * error;
            (
                rate_bps,
                Interval {
                    low: rate_bps - half,
                    high: rate_bps + half,
                },
            )
        })
}

/// The rate and its standard error from the slopes of one lag.
fn at_lag(knots: &[Knot], lag: usize) -> Option<(f64, f64)> {
    let pairs = knots.iter().zip(knots.get(lag..)?);
    let slopes: Vec<f64> = pairs
        .filter(|(from, to)| from.span == to.span && from.ns < to.ns)
        .map(|(from, to)| 8e9 * (to.bytes - from.bytes) / (to.ns - from.ns) as f64)
        .collect();
    // A step affects as many slopes as the lag is long. It may affect at most a third of them.
    if slopes.len() < MIN_SLOPES.max(3 * lag) {
        return None;
    }
    let middle = mode(&slopes);
    let deviation = 1.4826 * shortest_half(&slopes) / 2.0;
    let kept: Vec<f64> = slopes
        .iter()
        .copied()
        .filter(|slope| (slope - middle).abs() <= KEPT * deviation)
        .collect();
    if kept.is_empty() {
        return None;
    }
    // Slopes of a long lag overlap; this many are independent.
    let independent = (kept.len() as f64 / lag as f64).max(1.0);
    // The standard error of a median is 1.253 times that of a mean; few slopes may agree by chance.
    let error = 1.253 * deviation / independent.sqrt() * (1.0 + 4.0 / kept.len() as f64);
    Some((median(&kept), error))
}

/// The width of the shortest interval that contains half of the values.
fn shortest_half(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2 + 1;
    sorted
        .windows(half)
        .map(|window| window[half - 1] - window[0])
        .min_by(f64::total_cmp)
        .unwrap_or(0.0)
}
