//! Finds the packets that provably waited in a queue.
//!
//! A packet left its sender between `sent_ns` (before its batch) and the batch's end. Its one-way delay is thus at
//! least `received - end`, whatever interrupted the sender in between. If that exceeds the smallest delay of any
//! packet, the packet waited somewhere on the path. Between two packets that both waited, the path was never idle.

use super::record::{Arrival, Train};

/// Wait that counts as proof, in nanoseconds. Receive timestamps of an idle veth path jitter by 20 to 60 us, and by 100
/// us if the receiver's core is busy. In one direction, jitter adds up to 1.5 times the differences between round
/// trips.
const PROOF_NS: i64 = 150_000;

/// Consecutive arrivals, all with proof: a range of indices into the train's arrivals.
pub(super) type Span = std::ops::Range<usize>;

/// The smallest delay of any packet, in nanoseconds between two clocks with different origins.
pub(super) fn floor_ns(train: &Train) -> Option<i64> {
    train.arrivals.iter().map(|a| a.received_ns - a.sent_ns).min()
}

/// Finds the longest spans of proven packets, in order. A packet whose batch's end is unknown has no proof, unless
/// packets of later batches prove that it was sent even earlier.
pub(super) fn saturated_spans(train: &Train) -> Vec<Span> {
    let Some(floor) = floor_ns(train) else {
        return Vec::new();
    };
    let mut spans: Vec<Span> = Vec::new();
    for (index, arrival) in train.arrivals.iter().enumerate() {
        if !proven(train, arrival, floor) {
            continue;
        }
        match spans.last_mut() {
            Some(span) if span.end == index => span.end = index + 1,
            _ => spans.push(index..index + 1),
        }
    }
    spans
}

fn proven(train: &Train, arrival: &Arrival, floor: i64) -> bool {
    let near = arrival.batch..=arrival.batch.saturating_add(3);
    // The next known end of this or a later batch is an upper bound for the sending time.
    let Some((_, end)) = train.batch_ends_ns.range(near).next() else {
        return false;
    };
    arrival.received_ns - end - floor > PROOF_NS + train.jitter_ns * 3 / 2
}

/// Bytes on the wire that had arrived by arrival number `index`, including those that the socket dropped.
pub(super) fn arrived_bytes(train: &Train, index: usize) -> f64 {
    let overflow = train.arrivals.get(index).map_or(0, |a| a.overflow);
    (index as f64 + 1.0 + f64::from(overflow)) * f64::from(train.wire_bytes)
}
