//! Recorded trains as text, so that the estimator can be tested on real arrivals anywhere.
//!
//! ```text
//! gavotte-train 1 WIRE_BYTES PAYLOAD_BYTES SENT LIMIT [JITTER_NS]
//! b BATCH SENT_NS ENDED_NS        the arrivals below belong to this batch; `-` = its end is unknown
//! RECEIVED_NS [SEQ [OVERFLOW]]    differences from the arrival above; 1 in SEQ and 0 in OVERFLOW are omitted
//! e BATCH ENDED_NS                the end of a batch without arrivals
//! ```
//!
//! The sender's nanoseconds count from its first timestamp, and the receiver's from its own first one.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::str::SplitAsciiWhitespace;

use thiserror::Error;

use super::record::{Arrival, Limit, Train};

/// Why a text is not a recorded train.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("line {0} is not part of a recorded train")]
pub struct TraceError(pub usize);

const LIMITS: [(Limit, &str); 3] = [
    (Limit::Enough, "enough"),
    (Limit::Bytes, "bytes"),
    (Limit::Time, "time"),
];
/// Timestamps stay below this, so that their differences never overflow: 36 years.
const MAX_NS: i64 = 1 << 60;

/// Writes a train as text.
pub fn write_trace(train: &Train) -> String {
    let limit = LIMITS
        .iter()
        .find(|(limit, _)| *limit == train.limit)
        .map_or("enough", |(_, name)| name);
    let mut text = format!(
        "gavotte-train 1 {} {} {} {limit}{}\n",
        train.wire_bytes,
        train.payload_bytes,
        train.sent,
        if train.jitter_ns > 0 {
            format!(" {}", train.jitter_ns)
        } else {
            String::new()
        }
    );
    let origin = train.arrivals.iter().map(|a| a.sent_ns).min().unwrap_or(0);
    let ended = |batch: u32| train.batch_ends_ns.get(&batch);
    let mut before = train.arrivals.first().map(|first| Arrival {
        seq: u32::MAX,
        batch: u32::MAX,
        overflow: 0,
        ..*first
    });
    let mut written_batches = BTreeSet::new();
    for arrival in &train.arrivals {
        let last = before.unwrap_or(*arrival);
        if (last.batch, last.sent_ns) != (arrival.batch, arrival.sent_ns) || last.batch == u32::MAX {
            let end = ended(arrival.batch).map_or("-".to_owned(), |end| (end - origin).to_string());
            let _ = writeln!(text, "b {} {} {end}", arrival.batch, arrival.sent_ns - origin);
            written_batches.insert(arrival.batch);
        }
        let received = arrival.received_ns - last.received_ns;
        let seq = arrival.seq.wrapping_sub(last.seq) as i32;
        let overflow = arrival.overflow.wrapping_sub(last.overflow) as i32;
        let _ = match (seq, overflow) {
            (1, 0) => writeln!(text, "{received}"),
            (_, 0) => writeln!(text, "{received} {seq}"),
            _ => writeln!(text, "{received} {seq} {overflow}"),
        };
        before = Some(*arrival);
    }
    for (batch, end) in train
        .batch_ends_ns
        .iter()
        .filter(|(batch, _)| !written_batches.contains(batch))
    {
        let _ = writeln!(text, "e {batch} {}", end - origin);
    }
    text
}

/// Reads the text of [`write_trace`]. Accepts any text.
///
/// # Errors
/// A [`TraceError`] with the number, from 1, of the first invalid line.
pub fn parse_trace(text: &str) -> Result<Train, TraceError> {
    let mut lines = (1..).zip(text.lines());
    let mut reader = lines
        .next()
        .and_then(|(_, head)| header(head))
        .map(|train| Reader {
            train,
            last: Arrival {
                seq: u32::MAX,
                batch: 0,
                sent_ns: 0,
                received_ns: 0,
                overflow: 0,
            },
            batched: false,
        })
        .ok_or(TraceError(1))?;
    for (number, line) in lines {
        reader.line(line).ok_or(TraceError(number))?;
    }
    Ok(reader.train)
}

struct Reader {
    train: Train,
    last: Arrival,
    batched: bool,
}

impl Reader {
    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_ascii_whitespace();
        match words.next()? {
            "b" => {
                self.last.batch = batch(&mut words)?;
                self.last.sent_ns = nanoseconds(words.next()?)?;
                self.batched = true;
                match words.next()? {
                    "-" => {}
                    end => self.end(self.last.batch, nanoseconds(end)?),
                }
            }
            "e" => {
                let batch = batch(&mut words)?;
                self.end(batch, nanoseconds(words.next()?)?);
            }
            received if self.batched => {
                let step = nanoseconds(received)?;
                let seq: i32 = words.next().map_or(Some(1), |word| word.parse().ok())?;
                let overflow: i32 = words.next().map_or(Some(0), |word| word.parse().ok())?;
                self.last = Arrival {
                    seq: self.last.seq.wrapping_add(seq as u32),
                    received_ns: self.last.received_ns.checked_add(step).filter(|ns| *ns < MAX_NS)?,
                    overflow: self.last.overflow.wrapping_add(overflow as u32),
                    ..self.last
                };
                self.train.arrivals.push(self.last);
            }
            _ => return None,
        }
        words.next().is_none().then_some(())
    }

    fn end(&mut self, batch: u32, ended_ns: i64) {
        self.train.batch_ends_ns.insert(batch, ended_ns);
    }
}

fn batch(words: &mut SplitAsciiWhitespace<'_>) -> Option<u32> {
    words.next()?.parse().ok()
}

/// Never negative: a train is written in the order of its timestamps.
fn nanoseconds(word: &str) -> Option<i64> {
    word.parse().ok().filter(|ns| (0..MAX_NS).contains(ns))
}

fn header(line: &str) -> Option<Train> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let ["gavotte-train", "1", wire, payload, sent, limit, jitter @ ..] = words.as_slice() else {
        return None;
    };
    let jitter_ns = match jitter {
        [] => 0,
        [jitter] => nanoseconds(jitter)?,
        _ => return None,
    };
    Some(Train {
        wire_bytes: wire.parse().ok().filter(|bytes| (1..=1 << 17).contains(bytes))?,
        payload_bytes: payload.parse().ok()?,
        sent: sent.parse().ok()?,
        limit: LIMITS.iter().find(|(_, name)| *name == *limit)?.0,
        jitter_ns,
        ..Train::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gated::estimate;
    use proptest::prelude::*;

    const SMALL: &str = "gavotte-train 1 1514 1472 9 bytes\nb 0 0 900\n0\n5000\nb 2 4000 -\n7000 3\n0 1 2\ne 1 3000\n";

    #[test]
    fn a_small_trace_reads_as_written() {
        let train = parse_trace(SMALL).unwrap();
        let seqs: Vec<_> = train
            .arrivals
            .iter()
            .map(|a| (a.seq, a.batch, a.received_ns, a.overflow))
            .collect();
        assert_eq!(
            seqs,
            [(0, 0, 0, 0), (1, 0, 5000, 0), (4, 2, 12_000, 0), (5, 2, 12_000, 2)]
        );
        assert_eq!(train.batch_ends_ns, [(0, 900), (1, 3000)].into());
        assert_eq!(write_trace(&train), SMALL);
    }

    #[test]
    fn the_bad_line_is_named() {
        for (bad, number) in [
            ("", 1),
            ("gavotte-train 2 1514 1472 9 bytes", 1),
            ("gavotte-train 1 1514 1472 9 bytes\n5", 2),
            ("gavotte-train 1 1514 1472 9 bytes\nb 0 0 -\n-5", 3),
            ("gavotte-train 1 1514 1472 9 bytes\nb 5000000000 0 -", 2),
            ("gavotte-train 1 1514 1472 9 bytes\nb 0 0 -\n5 1 0 9", 3),
        ] {
            assert_eq!(parse_trace(bad), Err(TraceError(number)), "{bad}");
        }
    }

    prop_compose! {
        fn trains()(
            steps in prop::collection::vec((0i64..50_000, 0u32..4, 0u32..3, 0u32..2), 0..80),
            ends in prop::collection::btree_map(any::<u32>(), 0i64..1_000_000_000, 0..60),
            sent: u64,
        ) -> Train {
            let mut arrival = Arrival { seq: 0, batch: 0, sent_ns: 0, received_ns: 0, overflow: 0 };
            let mut train = Train { wire_bytes: 1514, payload_bytes: 1472, sent, ..Train::default() };
            for (index, (ns, seq, batch, overflow)) in steps.into_iter().enumerate() {
                if index > 0 {
                    arrival.received_ns += ns;
                    arrival.seq += seq;
                    arrival.batch += batch;
                    arrival.sent_ns += i64::from(batch) * 1000;
                    arrival.overflow += overflow;
                }
                train.arrivals.push(arrival);
            }
            train.batch_ends_ns = ends;
            train
        }
    }

    proptest! {
        #[test]
        fn traces_read_back(train in trains()) {
            prop_assert_eq!(parse_trace(&write_trace(&train)), Ok(train));
        }

        #[test]
        fn any_text_is_safe(text in "(gavotte-train 1 1514 1472 9 time\n)?([be0-9 -]{0,12}\n){0,20}.{0,20}") {
            if let Ok(train) = parse_trace(&text) {
                let _ = estimate(&train);
            }
        }

        #[test]
        fn cut_traces_are_safe(train in trains(), cut in 0usize..2000) {
            let text = write_trace(&train);
            if let Ok(train) = parse_trace(&text[..cut.min(text.len())]) {
                let _ = estimate(&train);
            }
        }
    }
}
