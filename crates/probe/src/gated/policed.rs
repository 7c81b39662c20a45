//! Finds a policer on the path by the packets that it drops.
//!
//! When a policer drops a packet, it has tokens for less than that packet. Let the bucket not have filled up in
//! between. Then, at each such moment, the policer has let b + r t bytes pass, minus less than one packet. The last
//! packet that arrived before a gap in the numbers (a *knot*) marks such a moment. A line through the knots therefore
//! has the slope r.
//!
//! Random losses show no such regularity: the arrivals between them deviate like a random walk. A train counts as
//! policed only if its knots are far closer to their line than a random walk with as many losses would be.

use super::blocks::median;
use super::record::Train;
use super::saturation::{arrived_bytes, floor_ns};
use super::slope::Interval;

/// Smallest number of knots for a rate, and smallest average number in a span: a line through few knots of each span
/// fits by chance.
const LEAST_KNOTS: usize = 48;
const LEAST_IN_SPAN: usize = 12;
/// Shortest time from the first to the last knot, in seconds.
const LEAST_S: f64 = 0.05;
/// Smallest share of packets that a policer drops from its first drop on. A sender that detects drops sends 1.5 times
/// the rate that arrives.
const LEAST_LOSS: f64 = 0.05;
/// Factor by which the knots must be closer to their line than by chance.
const REGULAR: f64 = 4.0;
/// A detrended random walk of n steps with variance v each deviates from its line by the root of n v / 15 in the mean
/// square.
const DETRENDED: f64 = 15.0;
/// Candidate silences that may refill the bucket, whose depth is unknown, in nanoseconds. The longest one with a
/// fitting line is used.
const SILENCES_NS: [i64; 4] = [40_000_000, 12_000_000, 5_000_000, 2_500_000];
/// Packets that the rate lets pass in the shortest silence that counts.
const SPAN_PACKETS: f64 = 8.0;
/// Number of knots after which the bucket counts as empty.
const EARLY_KNOTS: usize = 8;
/// Knots further from the line than this many median deviations are ignored: those packets were lost for other reasons.
const KEPT: f64 = 6.0;

/// The estimate from the drops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policed {
    /// Sustained rate r on the wire, in bit/s.
    pub rate_bps: f64,
    /// Confidence interval of the rate.
    pub interval: Interval,
    /// Index of an arrival by which the bucket was empty.
    pub early: usize,
    /// Index of the arrival before the first drop.
    pub first: usize,
    /// Number of knots.
    pub knots: usize,
    /// Time from the first to the last knot, in seconds.
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug)]
struct Knot {
    index: usize,
    seq: u32,
    /// Nanoseconds since the train began.
    ns: f64,
    bytes: f64,
    span: usize,
}

/// A line with one slope for all spans, and one height for each span.
struct Line {
    per_ns: f64,
    heights: Vec<f64>,
    spread: f64,
}

/// Finds a policer by the receiver's timestamps or by the sender's, whichever fit the drops better. Jitter after the
/// policer affects the former, jitter before it the latter.
pub(super) fn policed(train: &Train) -> Option<Policed> {
    let floor = floor_ns(train)?;
    let begin = floor + train.arrivals[0].sent_ns;
    for silence_ns in SILENCES_NS {
        let fits = [false, true].map(|by_sender| {
            let ns = |index: usize| {
                let arrival = &train.arrivals[index];
                let stamp = if by_sender {
                    arrival.sent_ns + floor
                } else {
                    arrival.received_ns
                };
                stamp - begin
            };
            let mut knots = knots(train, &ns);
            part(train, &mut knots, &ns, silence_ns);
            // In spans of few packets, the slope is not that of the rate.
            let long = |policer: &(Policed, f64)| {
                let packet_s = 8.0 * f64::from(train.wire_bytes) / policer.0.rate_bps;
                silence_ns as f64 * 1e-9 >= SPAN_PACKETS * packet_s
            };
            fit(train, knots).filter(long)
        });
        let best = fits.into_iter().flatten().min_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((policer, _)) = best {
            return Some(policer);
        }
    }
    None
}

/// The policer, and the distance of the knots from their line as a share of the distance by chance.
fn fit(train: &Train, mut knots: Vec<Knot>) -> Option<(Policed, f64)> {
    let packet = f64::from(train.wire_bytes);
    let mut line = line(&knots)?;
    for _ in 0..3 {
        let spread = median(&knots.iter().map(|knot| off(&line, knot).abs()).collect::<Vec<_>>());
        let before = knots.len();
        knots.retain(|knot| off(&line, knot).abs() <= KEPT * spread.max(packet / 2.0));
        line = self::line(&knots)?;
        if knots.len() == before {
            break;
        }
    }
    let (first, last) = (*knots.first()?, *knots.last()?);
    let seconds = (last.ns - first.ns) * 1e-9;
    let sent = f64::from(last.seq.saturating_sub(first.seq));
    // Packets that the receiver's own socket dropped count as arrived.
    let loss = 1.0 - (last.bytes - first.bytes) / packet / sent;
    let few = knots.len() < LEAST_KNOTS.max(LEAST_IN_SPAN * (last.span + 1));
    if few || seconds < LEAST_S || line.per_ns <= 0.0 || sent < 1.0 || loss < LEAST_LOSS {
        return None;
    }
    let by_chance = by_chance(&knots, loss) * packet;
    if REGULAR * line.spread > by_chance {
        return None;
    }
    let rate_bps = 8e9 * line.per_ns;
    // Each end of the line is low by less than a packet.
    let half = 8.0 * packet / seconds / (knots.len() as f64).sqrt() + 8.0 * line.spread / seconds;
    let policer = Policed {
        rate_bps,
        interval: Interval {
            low: rate_bps - half,
            high: rate_bps + half,
        },
        early: knots[EARLY_KNOTS].index,
        first: first.index,
        knots: knots.len(),
        seconds,
    };
    Some((policer, line.spread / by_chance))
}

/// Arrivals after which a packet is missing that the path lost.
fn knots(train: &Train, ns: &impl Fn(usize) -> i64) -> Vec<Knot> {
    let gap = |index: &usize| {
        let (here, next) = (&train.arrivals[*index], &train.arrivals[index + 1]);
        next.seq > here.seq + 1 && next.overflow == here.overflow
    };
    (0..train.arrivals.len().saturating_sub(1))
        .filter(gap)
        .map(|index| Knot {
            index,
            seq: train.arrivals[index].seq,
            ns: ns(index) as f64,
            bytes: arrived_bytes(train, index),
            span: 0,
        })
        .collect()
}

/// Assigns knots to spans: a silence of `most_ns` or more separates two spans, since the bucket may have been full.
fn part(train: &Train, knots: &mut [Knot], ns: &impl Fn(usize) -> i64, most_ns: i64) {
    let (mut span, mut from) = (0, 0);
    for (number, knot) in knots.iter_mut().enumerate() {
        let silent = (from..knot.index).any(|index| ns(index + 1) - ns(index) >= most_ns);
        if silent && number > 0 {
            span += 1;
        }
        (knot.span, from) = (span, knot.index);
    }
    debug_assert!(train.arrivals.len() > from || knots.is_empty());
}

/// Fits lines with a common slope by least squares.
fn line(knots: &[Knot]) -> Option<Line> {
    let spans = knots.last()?.span + 1;
    let (mut count, mut ns, mut bytes) = (vec![0.0; spans], vec![0.0; spans], vec![0.0; spans]);
    for knot in knots {
        count[knot.span] += 1.0;
        ns[knot.span] += knot.ns;
        bytes[knot.span] += knot.bytes;
    }
    let middle = |sums: &[f64], span: usize| sums[span] / count[span];
    let (mut across, mut along) = (0.0, 0.0);
    for knot in knots {
        let from = knot.ns - middle(&ns, knot.span);
        across += from * (knot.bytes - middle(&bytes, knot.span));
        along += from * from;
    }
    let per_ns = (along > 0.0).then(|| across / along)?;
    let heights: Vec<f64> = (0..spans)
        .map(|span| middle(&bytes, span) - per_ns * middle(&ns, span))
        .collect();
    let line = Line {
        per_ns,
        heights,
        spread: 0.0,
    };
    let squares: f64 = knots.iter().map(|knot| off(&line, knot).powi(2)).sum();
    Some(Line {
        spread: (squares / knots.len() as f64).sqrt(),
        ..line
    })
}

fn off(line: &Line, knot: &Knot) -> f64 {
    // A span whose knots were all ignored has no height.
    knot.bytes - line.per_ns * knot.ns - line.heights.get(knot.span).copied().unwrap_or(f64::NAN)
}

/// The distance of the knots from their lines if as many packets were lost at random, in packets.
fn by_chance(knots: &[Knot], loss: f64) -> f64 {
    let mut squares = 0.0;
    for span in knots.chunk_by(|a, b| a.span == b.span) {
        let sent = f64::from(span[span.len() - 1].seq.saturating_sub(span[0].seq));
        squares += span.len() as f64 * sent * loss * (1.0 - loss) / DETRENDED;
    }
    (squares / knots.len() as f64).sqrt()
}
