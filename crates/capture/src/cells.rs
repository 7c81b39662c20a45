//! Bytes by pair of ends and interval, as seen by several views. Each pair is then taken from one view.
//!
//! A view is anything that sees traffic on its own: a capture file, or one side of a flow meter's interfaces. A packet
//! passes many views on its path, and must count once.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::ends::{Directory, End};
use crate::tally::Fresh;

/// Largest number of sums kept between named ends, or in a series: about 100 MB. Further bytes only count as unplaced.
pub const MOST_CELLS: usize = 1 << 20;

/// Largest number of sums kept without a series between ends that were not named: 360 hosts that all send to each other.
/// Above it, the smaller half of the pairs is folded into the unplaced bytes.
pub const MOST_UNNAMED: usize = 1 << 17;

/// Largest number of views. Bytes that further ones saw count as unplaced.
const MOST_VIEWS: usize = 1 << 14;

/// The name of a counter, and its value.
pub type Counter = (&'static str, f64);

/// The sum kept in a cell.
pub(crate) trait Sum: Default {
    /// Adds another sum.
    fn add(&mut self, other: &Self);
    /// The best estimate.
    fn bytes(&self) -> f64;
    /// Its 95 % interval; `unit` is the number of bytes that one sample of any pair stands for.
    fn range(&self, unit: f64) -> (f64, f64);
}

impl Sum for Fresh {
    fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unseen_bytes = self.unseen_bytes.saturating_add(other.unseen_bytes);
    }
    fn bytes(&self) -> f64 {
        self.bytes as f64
    }
    /// Bytes that the capture missed are in the upper end only.
    fn range(&self, _: f64) -> (f64, f64) {
        let seen_bytes = self.bytes.saturating_sub(self.unseen_bytes.max(0).unsigned_abs());
        (seen_bytes as f64, self.bytes())
    }
}

/// Bytes from one end to another in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of the interval since the epoch; 0 if one interval covers everything.
    pub interval: i64,
    /// The sender, whose name is in the directory.
    pub source: End,
    /// The receiver.
    pub target: End,
    /// Best estimate.
    pub bytes: u64,
    /// Lower end of its 95 % interval.
    pub low_bytes: u64,
    /// Upper end.
    pub high_bytes: u64,
}

type Pair = (End, End);

/// Sums by view, pair and interval.
#[derive(Debug)]
pub(crate) struct Cells<S> {
    sums: HashMap<(u32, Pair, i64), S>,
    every_s: Option<f64>,
    most: usize,
    /// The number of ends that were given names: of these, all pairs are kept.
    named: End,
    /// Bytes for which no cell was free, or whose pair was among the smallest when the table was full.
    pub(crate) unplaced_bytes: f64,
    /// Pairs folded because the table was full.
    pub(crate) folded_pairs: u64,
}

impl<S: Sum> Cells<S> {
    /// Empty sums between the ends of a directory.
    pub(crate) fn new(ends: &Directory, every_s: Option<f64>) -> Self {
        let unnamed = ends.given() == 0 && every_s.is_none();
        Self::keeping(if unnamed { MOST_UNNAMED } else { MOST_CELLS }, ends, every_s)
    }

    /// Empty sums, of which at most `most` are kept.
    fn keeping(most: usize, ends: &Directory, every_s: Option<f64>) -> Self {
        Self {
            sums: HashMap::new(),
            every_s,
            most,
            named: ends.given(),
            unplaced_bytes: 0.0,
            folded_pairs: 0,
        }
    }

    /// The number of the interval that contains a time.
    pub(crate) fn interval(&self, time_s: Option<f64>) -> i64 {
        match (self.every_s, time_s) {
            (Some(every_s), Some(time_s)) => (time_s / every_s).floor() as i64,
            _ => 0,
        }
    }

    /// The length of an interval.
    pub(crate) fn every_s(&self) -> Option<f64> {
        self.every_s
    }

    /// Adds bytes to what a view has seen; `None` is one of too many views.
    pub(crate) fn add(&mut self, view: Option<u32>, pair: Pair, interval: i64, sum: &S) {
        let Some(view) = view else {
            self.unplaced_bytes += sum.bytes();
            return;
        };
        let key = (view, pair, interval);
        if let Some(kept) = self.sums.get_mut(&key) {
            kept.add(sum);
            return;
        }
        if self.sums.len() >= self.most {
            self.fold();
        }
        if self.sums.len() >= self.most {
            self.unplaced_bytes += sum.bytes();
            return;
        }
        let mut fresh = S::default();
        fresh.add(sum);
        self.sums.insert(key, fresh);
    }

    /// Makes room: the smaller half of the pairs become unplaced bytes. Pairs of named ends stay.
    fn fold(&mut self) {
        let mut whole: HashMap<Pair, f64> = HashMap::new();
        for ((_, pair, _), sum) in &self.sums {
            if pair.0 >= self.named || pair.1 >= self.named {
                *whole.entry(*pair).or_default() += sum.bytes();
            }
        }
        let mut pairs: Vec<_> = whole.into_iter().collect();
        pairs.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        pairs.truncate(pairs.len().div_ceil(2));
        let small: HashSet<Pair> = pairs.into_iter().map(|(pair, _)| pair).collect();
        self.folded_pairs += small.len() as u64;
        self.sums.retain(|(_, pair, _), sum| {
            let folded = small.contains(pair);
            if folded {
                self.unplaced_bytes += sum.bytes();
            }
            !folded
        });
    }

    /// The rows. Each pair comes from the view with the highest `rank`; of several such views, from the one that saw
    /// most.
    pub(crate) fn rows<K: Ord + Copy>(
        &self,
        rank: impl Fn(u32, Pair) -> K,
        scale: impl Fn(u32) -> f64,
        unit: f64,
    ) -> Vec<Row> {
        let mut whole: HashMap<(u32, Pair), S> = HashMap::new();
        for ((view, pair, _), sum) in &self.sums {
            whole.entry((*view, *pair)).or_default().add(sum);
        }
        let mut best: HashMap<Pair, (K, f64, u32)> = HashMap::new();
        for ((view, pair), sum) in &whole {
            let standing = (rank(*view, *pair), sum.bytes() * scale(*view), *view);
            let held = best.entry(*pair).or_insert(standing);
            // Of equals the lowest number wins, so that the answer does not depend on a map's order.
            let way = standing
                .0
                .cmp(&held.0)
                .then(standing.1.total_cmp(&held.1))
                .then(held.2.cmp(&standing.2));
            if way.is_gt() {
                *held = standing;
            }
        }
        let mut rows: Vec<_> = self
            .sums
            .iter()
            .filter(|((view, pair, _), _)| best[pair].2 == *view)
            .collect();
        rows.sort_by_key(|((_, pair, interval), _)| (*interval, *pair));
        let row = |((view, pair, interval), sum): (&(u32, Pair, i64), &S)| {
            let (low, high) = sum.range(unit);
            let scale = scale(*view);
            Row {
                interval: *interval,
                source: pair.0,
                target: pair.1,
                bytes: (sum.bytes() * scale).round() as u64,
                low_bytes: (low * scale).floor() as u64,
                high_bytes: (high * scale).ceil() as u64,
            }
        };
        rows.into_iter().map(row).collect()
    }
}

/// Numbers for keys, in the order in which they first appear.
#[derive(Debug)]
pub(crate) struct Numbers<K> {
    known: HashMap<K, u32>,
    pub(crate) keys: Vec<K>,
}

impl<K: Hash + Eq + Copy> Numbers<K> {
    pub(crate) fn new() -> Self {
        Self {
            known: HashMap::new(),
            keys: Vec::new(),
        }
    }

    /// The number of a key; `None` if there are too many.
    pub(crate) fn of(&mut self, key: K) -> Option<u32> {
        if let Some(number) = self.known.get(&key) {
            return Some(*number);
        }
        if self.keys.len() >= MOST_VIEWS {
            return None;
        }
        let number = self.keys.len() as u32;
        self.keys.push(key);
        self.known.insert(key, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bytes: u64) -> Fresh {
        Fresh { bytes, unseen_bytes: 0 }
    }

    #[test]
    fn a_full_table_keeps_the_largest_pairs_and_all_bytes() {
        let mut cells = Cells::keeping(64, &Directory::default(), None);
        let mut sent = 0;
        for pair in 0..10_000_u32 {
            let bytes = if pair % 1000 == 0 {
                1_000_000
            } else {
                u64::from(pair % 7) + 1
            };
            cells.add(Some(0), (pair, pair + 1), 0, &seen(bytes));
            sent += bytes;
        }
        let rows = cells.rows(|_, _| 0_u8, |_| 1.0, 0.0);
        assert!(rows.len() <= 64);
        assert_eq!(rows.iter().filter(|row| row.bytes == 1_000_000).count(), 10);
        assert_eq!(
            rows.iter().map(|row| row.bytes).sum::<u64>() + cells.unplaced_bytes as u64,
            sent
        );
        assert!(cells.folded_pairs > 9_000);
    }

    #[test]
    fn pairs_of_named_ends_are_kept() {
        let names = ["10.0.0.1".to_owned(), "10.0.0.2".to_owned()];
        let ends = Directory::new(&names).unwrap_or_default();
        let mut cells = Cells::keeping(64, &ends, None);
        cells.add(Some(0), (0, 1), 0, &seen(1));
        for stranger in 2..10_000 {
            cells.add(Some(0), (0, stranger), 0, &seen(1000));
        }
        let rows = cells.rows(|_, _| 0_u8, |_| 1.0, 0.0);
        assert!(rows.iter().any(|row| (row.source, row.target, row.bytes) == (0, 1, 1)));
    }

    #[test]
    fn too_many_views_have_no_number() {
        let mut numbers = Numbers::new();
        assert!((0..MOST_VIEWS).all(|key| numbers.of(key) == Some(key as u32)));
        assert_eq!(numbers.of(MOST_VIEWS), None);
        assert_eq!(numbers.of(3), Some(3));
    }
}
