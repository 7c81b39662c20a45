//! Captures of packets: payload bytes between pairs of ends.

use std::io::Read;

use crate::cells::Counter;
use crate::cells::{Cells, Row};
use crate::ends::Directory;
use crate::error::CaptureError;
use crate::records::read_records;
use crate::segment::decode;
use crate::skipped::Skipped;
use crate::tally::{Fresh, Tally, sockets};

/// Payload by pair of ends, from one capture or from one capture per host.
#[derive(Debug)]
pub struct Packets {
    ends: Directory,
    cells: Cells<Fresh>,
    files: u32,
    records: u64,
    skipped: Skipped,
    again: u64,
    again_bytes: u64,
    unseen_bytes: i64,
    truncated: bool,
    blank: u64,
    span_s: f64,
    whole_s: Option<(f64, f64)>,
}

impl Packets {
    /// An empty collection.
    pub fn new(ends: Directory, every_s: Option<f64>) -> Self {
        Self {
            cells: Cells::new(&ends, every_s),
            ends,
            files: 0,
            records: 0,
            skipped: Skipped::default(),
            again: 0,
            again_bytes: 0,
            unseen_bytes: 0,
            truncated: false,
            blank: 0,
            span_s: 0.0,
            whole_s: None,
        }
    }

    /// Reads one capture. Each capture is a view of its own, so that packets in two captures count once.
    ///
    /// # Errors
    /// The problem with the capture.
    pub fn read(&mut self, input: impl Read) -> Result<(), CaptureError> {
        let mut tally = Tally::default();
        let mut times: Option<(f64, f64)> = None;
        let view = self.files;
        let mut skipped = Skipped::default();
        let mut unseen_bytes = 0;
        let ending = read_records(input, |record| {
            if let Some(time_s) = record.time_s {
                let (first, last) = times.unwrap_or((time_s, time_s));
                times = Some((first.min(time_s), last.max(time_s)));
            }
            let segment = match decode(record) {
                Ok(segment) => segment,
                Err(why) => {
                    skipped.add(why);
                    return Ok(());
                }
            };
            let fresh = tally.fresh(&segment);
            if fresh != Fresh::default() {
                unseen_bytes += fresh.unseen_bytes;
                let (source, target) = sockets(&segment);
                let pair = self.ends.pair(source, target);
                self.cells
                    .add(Some(view), pair, self.cells.interval(record.time_s), &fresh);
            }
            Ok(())
        })?;
        if let Some(refusal) = skipped.refusal(ending.records) {
            return Err(refusal);
        }
        self.skipped.merge(&skipped);
        self.blank += u64::from(ending.blank);
        self.files += 1;
        self.records += ending.records;
        self.truncated |= ending.truncated;
        self.again += tally.duplicate_packets;
        self.again_bytes += tally.duplicate_bytes;
        self.unseen_bytes += unseen_bytes;
        if let Some((first, last)) = times {
            self.span_s = self.span_s.max(last - first);
            let (from, until) = self.whole_s.unwrap_or((first, last));
            self.whole_s = Some((from.min(first), until.max(last)));
        }
        Ok(())
    }

    /// The times of the first and the last packet, in seconds since the epoch.
    pub fn whole_s(&self) -> Option<(f64, f64)> {
        self.whole_s
    }

    /// Whether a file ended within a record.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Bytes by pair, each from the capture that saw most of it.
    pub fn rows(&self) -> Vec<Row> {
        self.cells.rows(|_, _| 0_u8, |_| 1.0, 0.0)
    }

    /// The ends that rows name.
    pub fn ends(&self) -> &Directory {
        &self.ends
    }

    /// The packets without payload that counts.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// The counters of duplicate, unseen and unplaced data.
    pub fn counters(&self) -> Vec<Counter> {
        vec![
            ("packets", self.records as f64),
            ("ignored_packets", self.skipped.total() as f64),
            ("duplicate_packets", self.again as f64),
            ("duplicate_bytes", self.again_bytes as f64),
            ("unseen_bytes", self.unseen_bytes.max(0) as f64),
            ("unplaced_bytes", self.cells.unplaced_bytes),
            ("folded_pairs", self.cells.folded_pairs as f64),
            ("blank_files", self.blank as f64),
            ("span_s", self.span_s),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A case from the fuzzer: an IPv6 extension header whose length exceeds the captured bytes.
    #[test]
    fn a_cut_extension_header_is_no_payload() {
        let file: &[u8] = include_bytes!("../../../fuzz/corpus/captures/cut-ipv6-extension");
        let mut packets = Packets::new(Directory::default(), None);
        assert!(packets.read(file).is_ok(), "zeros end it before its damage");
        let rows = packets.rows();
        assert!(
            rows.iter()
                .all(|row| packets.ends().name(row.source).starts_with("10.0.0.1"))
        );
    }
}
