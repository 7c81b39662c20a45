//! Counts arrivals at a host for reports to the sending hosts.

use std::collections::BTreeMap;

/// Counts of one pair at its receiving end since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Bytes that arrived.
    pub bytes: f64,
    /// Bytes that were lost, found by gaps in the numbers of packets.
    pub lost_bytes: f64,
    /// Bytes that arrived marked (CE), or that the phantom queue of the receiving edge would have marked.
    pub marked_bytes: f64,
    /// Bytes that arrived after waiting too long in the network.
    pub waited_bytes: f64,
}

impl Counts {
    fn sent_bytes(&self) -> f64 {
        self.bytes + self.lost_bytes
    }
}

/// Counts by sending host.
#[derive(Clone, Debug, Default)]
pub struct Arrivals<K> {
    pairs: BTreeMap<K, Counts>,
}

impl<K: Copy + Ord> Arrivals<K> {
    /// Creates an empty counter.
    pub fn new() -> Self {
        Self { pairs: BTreeMap::new() }
    }

    /// Adds a source's counts since the last call.
    pub fn note(&mut self, source: K, counts: Counts) {
        let own = self.pairs.entry(source).or_default();
        own.bytes += counts.bytes;
        own.lost_bytes += counts.lost_bytes;
        own.marked_bytes += counts.marked_bytes;
        own.waited_bytes += counts.waited_bytes;
    }

    /// Returns the report for each source, and resets the counts.
    ///
    /// The share `pooled` of the losses ([`crate::Allocation::pooled_loss`]) is divided among all pairs in proportion
    /// to their bytes. The reason: a drop on a full link affects only few of the pairs that fill it.
    pub fn report(&mut self, pooled: f64) -> Vec<(K, Counts)> {
        let mut report: Vec<(K, Counts)> = std::mem::take(&mut self.pairs).into_iter().collect();
        let lost: f64 = report.iter().map(|(_, counts)| counts.lost_bytes).sum();
        let sent: f64 = report.iter().map(|(_, counts)| counts.sent_bytes()).sum();
        if lost > 0.0 && pooled > 0.0 {
            for (_, counts) in &mut report {
                let part = counts.sent_bytes() / sent;
                counts.lost_bytes = (1.0 - pooled) * counts.lost_bytes + pooled * lost * part;
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_charged_by_what_was_sent() {
        let mut arrivals = Arrivals::new();
        let counts = |bytes, lost_bytes| Counts {
            bytes,
            lost_bytes,
            ..Counts::default()
        };
        arrivals.note("a", counts(700.0, 300.0));
        arrivals.note("b", counts(2000.0, 0.0));
        let lost = |report: Vec<(&str, Counts)>| report.iter().map(|(_, own)| own.lost_bytes).collect::<Vec<_>>();
        assert_eq!(lost(arrivals.clone().report(1.0)), [100.0, 200.0]);
        assert_eq!(lost(arrivals.clone().report(0.5)), [200.0, 100.0]);
        assert_eq!(lost(arrivals.report(0.0)), [300.0, 0.0]);
        assert_eq!(arrivals.report(1.0), []);
    }
}
