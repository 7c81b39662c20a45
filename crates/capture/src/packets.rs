//! Captures of packets: payload bytes between pairs of ends.

use std::io::Read;

use crate::cells::Counter;
use crate::cells::{Cells, Row};
use crate::ends::Directory;
use crate::error::CaptureError;
use crate::records::read_records;
use crate::segment::{UnknownLink, decode};
use crate::tally::{Tally, sockets};

/// Payload by pair of ends, from one capture or from one capture per host.
#[derive(Debug)]
pub struct Packets {
    ends: Directory,
    cells: Cells<u64>,
    files: u32,
    records: u64,
    ignored: u64,
    again: u64,
    again_bytes: u64,
    unseen_bytes: u64,
    truncated: bool,
    span_s: f64,
    whole_s: Option<(f64, f64)>,
}

impl Packets {
    /// An empty collection.
    pub fn new(ends: Directory, every_s: Option<f64>) -> Self {
        Self {
            ends,
            cells: Cells::new(every_s),
            files: 0,
            records: 0,
            ignored: 0,
            again: 0,
            again_bytes: 0,
            unseen_bytes: 0,
            truncated: false,
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
        let mut record_number = 0;
        let ending = read_records(input, |record| {
            record_number += 1;
            if let Some(time_s) = record.time_s {
                let (first, last) = times.unwrap_or((time_s, time_s));
                times = Some((first.min(time_s), last.max(time_s)));
            }
            let segment = decode(record).map_err(|UnknownLink(link)| CaptureError::UnknownLink {
                record: record_number,
                link,
            })?;
            let Some(segment) = segment else {
                self.ignored += 1;
                return Ok(());
            };
            let fresh = tally.fresh(&segment);
            if fresh > 0 {
                let (source, target) = sockets(&segment);
                let pair = self.ends.pair(source, target);
                self.cells.add(view, pair, self.cells.interval(record.time_s), &fresh);
            }
            Ok(())
        })?;
        self.files += 1;
        self.records += ending.records;
        self.truncated |= ending.truncated;
        self.again += tally.duplicate_packets;
        self.again_bytes += tally.duplicate_bytes;
        self.unseen_bytes += tally.unseen_bytes;
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
        self.cells.rows(&self.ends, |_, _| 0_u8, |_| 1.0, 0.0)
    }

    /// The counters of duplicate, unseen and unplaced data.
    pub fn counters(&self) -> Vec<Counter> {
        vec![
            ("packets", self.records as f64),
            ("ignored_packets", self.ignored as f64),
            ("duplicate_packets", self.again as f64),
            ("duplicate_bytes", self.again_bytes as f64),
            ("unseen_bytes", self.unseen_bytes as f64),
            ("unplaced_bytes", self.cells.unplaced_bytes),
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
        assert!(packets.read(file).is_err(), "further on it is damaged");
        assert!(packets.rows().iter().all(|row| row.source.starts_with("10.0.0.1")));
    }
}
