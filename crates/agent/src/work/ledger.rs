//! Records how many bytes of each transfer of a replay have left the host, for periodic reports.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gavotte_probe::sockets::tcp;

use crate::contract::agents::Moved;

/// The progress of each transfer.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    lines: Vec<(u32, Arc<Entry>, u64)>,
}

impl Ledger {
    /// Adds a transfer.
    pub(super) fn open(&mut self, id: u32) -> Arc<Entry> {
        let entry = Arc::new(Entry::default());
        self.lines.push((id, Arc::clone(&entry), 0));
        entry
    }

    /// The transfers that have moved since the last report.
    pub(super) fn report(&mut self, since: Duration) -> Moved {
        let mut report = Moved {
            time_s: since.as_secs_f64(),
            ..Moved::default()
        };
        for (id, entry, reported) in &mut self.lines {
            let bytes = entry.moved();
            if bytes > *reported {
                *reported = bytes;
                report.ids.push(*id);
                report.bytes.push(bytes);
            }
        }
        report
    }
}

/// The bytes that a transfer has handed to the kernel. For a paced transfer it also has the connection, since the
/// kernel may still hold many of them.
#[derive(Debug, Default)]
pub(super) struct Entry {
    handed: AtomicU64,
    socket: Mutex<Option<OwnedFd>>,
}

impl Entry {
    /// Counts bytes that the kernel accepted.
    pub(super) fn add(&self, bytes: u64) {
        self.handed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes back bytes that were lost with their connection.
    pub(super) fn take_back(&self, bytes: u64) {
        let less = |handed: u64| Some(handed.saturating_sub(bytes));
        let _ = self.handed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Watches a connection, or stops when the transfer is over: an open copy would keep the connection from closing.
    pub(super) fn watch(&self, socket: Option<OwnedFd>) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }

    /// Bytes that have left this host.
    pub(super) fn moved(&self) -> u64 {
        let handed = self.handed.load(Ordering::Relaxed);
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let unsent = (socket.as_ref()).and_then(|socket| Some(tcp::info(socket).ok()?.unsent_bytes));
        handed.saturating_sub(unsent.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_what_has_moved_since_the_last() {
        let mut ledger = Ledger::default();
        let (one, two) = (ledger.open(7), ledger.open(9));
        one.add(5);
        let second = Duration::from_secs(1);
        assert_eq!(ledger.report(second).ids, [7]);
        two.add(3);
        one.add(1);
        let report = ledger.report(2 * second);
        assert_eq!((report.time_s, report.ids, report.bytes), (2.0, vec![7, 9], vec![6, 3]));
        assert!(ledger.report(3 * second).ids.is_empty());
    }
}
