//! Snapshots of pairs, and functions that process them column by column.

use rayon::prelude::*;
use thiserror::Error;

/// Columns that one piece of work covers; their snapshots fit into the first-level cache.
const CHUNK: usize = 256;

/// Up to this many snapshots, insertion sort is faster than the library's sort.
const FEW: usize = 32;

/// Input that is not a matrix.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TimesError {
    /// No snapshot, or no pair.
    #[error("there are no times to learn from")]
    Empty,
    /// Entries that do not fill whole rows.
    #[error("{found} times do not make {snapshots} snapshots of the same pairs")]
    Ragged {
        /// The number of entries.
        found: usize,
        /// The number of rows that they should fill.
        snapshots: usize,
    },
}

/// n snapshots of m pairs, row by row. A value that is NaN, infinite or not above zero was not measured.
#[derive(Clone, Copy, Debug)]
pub struct Times<'a> {
    values: &'a [f64],
    snapshots: usize,
    pairs: usize,
}

impl<'a> Times<'a> {
    /// Interprets `values` as rows.
    ///
    /// # Errors
    ///
    /// If there are no values, or the last row is incomplete.
    pub fn new(values: &'a [f64], snapshots: usize) -> Result<Self, TimesError> {
        if values.is_empty() || snapshots == 0 {
            return Err(TimesError::Empty);
        }
        if !values.len().is_multiple_of(snapshots) {
            return Err(TimesError::Ragged {
                found: values.len(),
                snapshots,
            });
        }
        let pairs = values.len() / snapshots;
        Ok(Self {
            values,
            snapshots,
            pairs,
        })
    }

    /// The number of snapshots, n.
    pub fn snapshots(&self) -> usize {
        self.snapshots
    }

    /// The number of pairs, m.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// One value; `None` if it was not measured.
    pub fn get(&self, snapshot: usize, pair: usize) -> Option<f64> {
        let value = self.values[snapshot * self.pairs + pair];
        (value > 0.0 && value.is_finite()).then_some(value)
    }

    /// Calls `work` for every pair with its snapshots (NaN = not measured) and gathers the answers in order.
    pub(crate) fn map<T: Send>(&self, work: impl Fn(&mut [f64]) -> T + Sync) -> Vec<T> {
        let (rows, columns) = (self.snapshots, self.pairs());
        let chunks: Vec<Vec<T>> = (0..columns.div_ceil(CHUNK))
            .into_par_iter()
            .map(|chunk| {
                let pairs = chunk * CHUNK..columns.min((chunk + 1) * CHUNK);
                let mut turned = vec![f64::NAN; rows * pairs.len()];
                for row in 0..rows {
                    for (at, pair) in pairs.clone().enumerate() {
                        turned[at * rows + row] = self.get(row, pair).unwrap_or(f64::NAN);
                    }
                }
                turned.chunks_exact_mut(rows).map(&work).collect()
            })
            .collect();
        chunks.into_iter().flatten().collect()
    }
}

/// A quantile of each pair's times, with `share` from 0 (smallest) to 1, interpolated between two values; NaN = never
/// measured.
pub fn quantile(times: &Times, share: f64) -> Vec<f64> {
    times.map(|column| {
        let known = sorted(column);
        between(known, share)
    })
}

/// The measured values in rising order, moved to the front.
pub(crate) fn sorted(column: &mut [f64]) -> &mut [f64] {
    let mut known = 0;
    if column.len() > FEW {
        for at in 0..column.len() {
            column[known] = column[at];
            known += usize::from(!column[at].is_nan());
        }
        column[..known].sort_unstable_by(f64::total_cmp);
        return &mut column[..known];
    }
    for at in 0..column.len() {
        let value = column[at];
        if value.is_nan() {
            continue;
        }
        // Insertion sort: nothing is faster for about a dozen values.
        let mut hole = known;
        while hole > 0 && column[hole - 1] > value {
            column[hole] = column[hole - 1];
            hole -= 1;
        }
        column[hole] = value;
        known += 1;
    }
    &mut column[..known]
}

fn between(rising: &[f64], share: f64) -> f64 {
    let Some(last) = rising.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (rising[at as usize], rising[last.min(at as usize + 1)]);
    low + (high - low) * at.fract()
}

/// The median of the values that are not NaN; `None` if there are none. The order of the values changes.
pub(crate) fn median(values: &mut Vec<f64>) -> Option<f64> {
    values.retain(|value| !value.is_nan());
    let last = values.len().checked_sub(1)?;
    let (_, &mut high, _) = values.select_nth_unstable_by(last.div_ceil(2), f64::total_cmp);
    let (_, &mut low, _) = values.select_nth_unstable_by(last / 2, f64::total_cmp);
    Some(low.midpoint(high))
}
