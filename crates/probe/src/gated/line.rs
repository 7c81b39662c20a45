//! The rate of a path whose delay varies, from a straight line through all packets of a level.
//!
//! Jitter shifts neighbouring packets together. Short blocks and short lags therefore show how the delay changes, not
//! the path's rate. Over many jitters the shifts cancel: a least-squares line through the arrivals of a saturated path
//! has the path's rate as its slope. The residuals also show whether jitter alone explains them: other traffic causes
//! larger ones.

use super::blocks::Block;
use super::record::Train;
use super::saturation::{Span, arrived_bytes};
use super::slope::Interval;

/// A level must last this many jitters for an answer that ends a train. The rate's standard error is then about 0.5 %.
pub(super) const LONG_JITTERS: f64 = 100.0;
/// Delays that are this many jitters apart count as independent.
const MEMORY_JITTERS: f64 = 6.0;
/// Largest standard deviation of arrivals around the line that jitter alone explains, in jitters. A few round trips
/// show too little of the jitter.
const MOST_JITTERS: f64 = 1.5;

/// A line through a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Slope in bit/s.
    pub rate_bps: f64,
    /// 95 % interval of the slope.
    pub interval: Interval,
    /// Whether jitter explains the residuals.
    pub steady: bool,
}

/// Fits one line to all packets of a level; spans share only the slope. `None` if there are too few packets.
pub(super) fn line(train: &Train, level: &[Block], spans: &[Span]) -> Option<Line> {
    let (from, to) = (level.first()?.first, level.last()?.last);
    let (mut bytes_2, mut both, mut ns_2, mut count, mut length_ns) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for span in spans {
        let (start, end) = (span.start.max(from), span.end.min(to + 1));
        if end < start + 2 {
            continue;
        }
        let origin_ns = train.arrivals[start].received_ns;
        let points = (start..end).map(|index| {
            let ns = (train.arrivals[index].received_ns - origin_ns) as f64;
            (arrived_bytes(train, index), ns)
        });
        let number = (end - start) as f64;
        let (bytes, ns) = points
            .clone()
            .fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let (middle_bytes, middle_ns) = (bytes / number, ns / number);
        for (bytes, ns) in points {
            let (bytes, ns) = (bytes - middle_bytes, ns - middle_ns);
            bytes_2 += bytes * bytes;
            both += bytes * ns;
            ns_2 += ns * ns;
        }
        count += number;
        length_ns += (train.arrivals[end - 1].received_ns - origin_ns) as f64;
    }
    let ns_per_byte = both / bytes_2;
    if !(ns_per_byte.is_finite() && ns_per_byte > 0.0) {
        return None;
    }
    let jitter_ns = train.jitter_ns as f64;
    let left_ns = ((ns_2 - both * ns_per_byte).max(0.0) / count).sqrt();
    let independent = (length_ns / (MEMORY_JITTERS * jitter_ns)).max(1.0);
    let error = left_ns / (ns_2 / count).sqrt() / independent.sqrt();
    let rate_bps = 8e9 / ns_per_byte;
    Some(Line {
        rate_bps,
        interval: Interval {
            low: rate_bps * (1.0 - 1.96 * error),
            high: rate_bps * (1.0 + 1.96 * error),
        },
        steady: left_ns <= MOST_JITTERS * jitter_ns,
    })
}
