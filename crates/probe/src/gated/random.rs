//! Counts the packets that the path lost although no queue was full.
//!
//! A queue that overflows drops packets when its delay is the longest. What is lost between two packets that waited
//! much less was lost for another reason, and TCP suffers from it at any rate.

use super::record::Train;
use super::saturation::floor_ns;

/// Share of the longest delay above which a queue counts as full.
const FULL: f64 = 0.7;

/// Packets that met no full queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unqueued {
    /// Number of packets, those that were lost included.
    pub packets: u64,
    /// Number of losses. Packets that are lost in a row count once: they may have crossed the path as one super-packet,
    /// and TCP takes them for one loss, too.
    pub lost: u64,
}

/// Counts the packets between neighbours of which neither waited in a full queue. Gaps in which the receiving socket
/// dropped packets do not count.
pub(super) fn unqueued(train: &Train) -> Unqueued {
    let Some(floor) = floor_ns(train) else {
        return Unqueued::default();
    };
    let mut by_number: Vec<_> = train.arrivals.iter().collect();
    by_number.sort_unstable_by_key(|arrival| arrival.seq);
    let waited_ns = |arrival: &super::Arrival| (arrival.received_ns - arrival.sent_ns - floor) as f64;
    let longest_ns = by_number.iter().map(|arrival| waited_ns(arrival)).fold(0.0, f64::max);
    let mut sum = Unqueued::default();
    for pair in by_number.windows(2) {
        let full = pair.iter().any(|arrival| waited_ns(arrival) >= FULL * longest_ns);
        if full || pair[1].overflow != pair[0].overflow {
            continue;
        }
        let step = u64::from(pair[1].seq - pair[0].seq).max(1);
        sum.packets += step;
        sum.lost += u64::from(step > 1);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gated::Arrival;

    /// A train whose packets wait as `waits_us` says; `None` = lost.
    fn train(waits_us: &[Option<i64>]) -> Train {
        let arrivals = waits_us.iter().enumerate().filter_map(|(seq, wait_us)| {
            let sent_ns = 100_000 * seq as i64;
            wait_us.map(|us| Arrival {
                seq: seq as u32,
                batch: 0,
                sent_ns,
                received_ns: 7_000_000_000 + sent_ns + 1000 * us,
                overflow: 0,
            })
        });
        Train {
            wire_bytes: 1514,
            sent: waits_us.len() as u64,
            arrivals: arrivals.collect(),
            ..Train::default()
        }
    }

    #[test]
    fn losses_between_packets_that_hardly_waited_are_random() {
        let waits: Vec<_> = (0..1000).map(|k| (k % 50 != 7).then_some(k % 30)).collect();
        let Unqueued { packets, lost } = unqueued(&train(&waits));
        let share = lost as f64 / packets as f64;
        assert!((share - 0.02).abs() < 0.006, "{lost} of {packets}");
    }

    #[test]
    fn packets_that_are_lost_in_a_row_are_one_loss() {
        let waits: Vec<_> = (0..100).map(|k| (!(40..47).contains(&k)).then_some(k % 30)).collect();
        assert_eq!(unqueued(&train(&waits)).lost, 1);
    }

    #[test]
    fn an_overflowing_queue_loses_nothing_at_random() {
        // The queue grows to 40 packets, then every second packet is dropped.
        let waits: Vec<_> = (0i64..1000)
            .map(|k| (k < 400 || k % 2 == 0).then_some((k * 10).min(4000)))
            .collect();
        assert_eq!(unqueued(&train(&waits)).lost, 0);
    }

    #[test]
    fn what_the_socket_dropped_does_not_count() {
        let mut short = train(&[Some(0), None, Some(0), Some(9)]);
        assert_eq!(unqueued(&short), Unqueued { packets: 2, lost: 1 });
        for arrival in &mut short.arrivals[1..] {
            arrival.overflow = 1;
        }
        assert_eq!(unqueued(&short).lost, 0);
        assert_eq!(unqueued(&Train::default()), Unqueued::default());
    }
}
