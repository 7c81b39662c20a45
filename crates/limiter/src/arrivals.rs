//! What arrived at a host, for those who sent it.

use std::collections::BTreeMap;

/// Counts of one pair at its receiving end since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// What arrived.
    pub bytes: f64,
    /// What did not, by gaps in the numbers of packets.
    pub lost_bytes: f64,
    /// What arrived marked (CE), or would have been marked by the phantom queue of the receiving edge.
    pub marked_bytes: f64,
}

/// Counts by sending host.
#[derive(Clone, Debug, Default)]
pub struct Arrivals<K> {
    pairs: BTreeMap<K, Counts>,
}

impl<K: Copy + Ord> Arrivals<K> {
    /// Without pairs.
    pub fn new() -> Self {
        Self { pairs: BTreeMap::new() }
    }

    /// Adds what a source's packets came to since the last call.
    pub fn note(&mut self, source: K, counts: Counts) {
        let own = self.pairs.entry(source).or_default();
        own.bytes += counts.bytes;
        own.lost_bytes += counts.lost_bytes;
        own.marked_bytes += counts.marked_bytes;
    }

    /// What to tell each source, and starts anew.
    ///
    /// Of the losses, the share `pooled` ([`crate::Allocation::pooled_loss`]) is charged to all pairs by `weight`, the
    /// guarantee of a pair, since a drop on a full link reaches only few of those that fill it.
    pub fn report(&mut self, pooled: f64, weight: impl Fn(&K) -> f64) -> Vec<(K, Counts)> {
        let mut report: Vec<(K, Counts)> = std::mem::take(&mut self.pairs).into_iter().collect();
        let lost: f64 = report.iter().map(|(_, counts)| counts.lost_bytes).sum();
        if lost > 0.0 && pooled > 0.0 {
            let total: f64 = report.iter().map(|(source, _)| weight(source)).sum();
            for (source, counts) in &mut report {
                let part = if total > 0.0 { weight(source) / total } else { 0.0 };
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
    fn losses_are_charged_by_guarantee() {
        let mut arrivals = Arrivals::new();
        let counts = |lost_bytes| Counts {
            bytes: 1000.0,
            lost_bytes,
            marked_bytes: 0.0,
        };
        arrivals.note("a", counts(300.0));
        arrivals.note("b", counts(0.0));
        let report = arrivals
            .clone()
            .report(1.0, |&source| if source == "a" { 1.0 } else { 2.0 });
        assert_eq!(
            report.iter().map(|(_, own)| own.lost_bytes).collect::<Vec<_>>(),
            [100.0, 200.0]
        );
        let report = arrivals.report(0.0, |_| 1.0);
        assert_eq!(
            report.iter().map(|(_, own)| own.lost_bytes).collect::<Vec<_>>(),
            [300.0, 0.0]
        );
        assert_eq!(arrivals.report(1.0, |_| 1.0), []);
    }
}
