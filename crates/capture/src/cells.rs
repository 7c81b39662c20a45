//! Bytes by pair of ends and interval, as seen by several views. Each pair is then taken from one view.
//!
//! A view is anything that sees traffic on its own: a capture file, or one side of a flow meter's interfaces. A packet
//! passes many views on its path, and must count once.

use std::collections::HashMap;
use std::hash::Hash;

use crate::ends::{Directory, End};

/// Largest number of sums kept, about 400 MB. Further bytes only count as unplaced.
pub const MOST_CELLS: usize = 1 << 22;

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

impl Sum for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
    fn bytes(&self) -> f64 {
        *self as f64
    }
    fn range(&self, _: f64) -> (f64, f64) {
        (self.bytes(), self.bytes())
    }
}

/// Bytes from one end to another in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Number of the interval since the epoch; 0 if one interval covers everything.
    pub interval: i64,
    /// Name of the sender.
    pub source: String,
    /// Name of the receiver.
    pub target: String,
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
    /// Bytes for which no cell was free.
    pub(crate) unplaced_bytes: f64,
}

impl<S: Sum> Cells<S> {
    /// Empty sums.
    pub(crate) fn new(every_s: Option<f64>) -> Self {
        Self {
            sums: HashMap::new(),
            every_s,
            unplaced_bytes: 0.0,
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

    /// Adds bytes to what a view has seen.
    pub(crate) fn add(&mut self, view: u32, pair: Pair, interval: i64, sum: &S) {
        let full = self.sums.len() >= MOST_CELLS;
        match self.sums.get_mut(&(view, pair, interval)) {
            Some(found) => found.add(sum),
            None if full => self.unplaced_bytes += sum.bytes(),
            None => {
                let mut fresh = S::default();
                fresh.add(sum);
                self.sums.insert((view, pair, interval), fresh);
            }
        }
    }

    /// The rows. Each pair comes from the view with the highest `rank`; of several such views, from the one that saw
    /// most.
    pub(crate) fn rows<K: Ord + Copy>(
        &self,
        ends: &Directory,
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
                source: ends.name(pair.0).to_owned(),
                target: ends.name(pair.1).to_owned(),
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

    pub(crate) fn of(&mut self, key: K) -> u32 {
        *self.known.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() as u32 - 1
        })
    }
}
