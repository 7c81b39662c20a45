//! Rank one with a load factor for each snapshot, and each pair's most frequent value.

use crate::times::{Times, median, sorted};

/// Number of pairs used for the load factors. Their median is exact to 1 % of the band.
const SAMPLE: usize = 16_384;
/// Alternations between rows and columns; three are usual.
const ROUNDS: usize = 10;
/// The band's width if columns are too short to estimate it.
const USUAL_BAND: f64 = 0.05;

/// The result of [`mode`].
#[derive(Clone, Debug)]
pub struct Mode {
    /// (n) factor of each snapshot, of median 1.
    pub load: Vec<f64>,
    /// (m) the lasting time of each pair; NaN = never measured.
    pub constant: Vec<f64>,
    /// (m) the number of snapshots that agree with the lasting time.
    pub agreeing: Vec<u32>,
    /// Standard deviation of the logarithm of undisturbed times, of a typical pair.
    pub band: f64,
}

/// Implements |E|0 literally: each pair's constant is the centre of the largest set of load-free times that agree.
///
/// 1. A time is modelled as load of the snapshot x constant of the pair x band x rare slow-down.
/// 2. The band's width is pooled over pairs from their low order statistics, which slow-downs do not reach.
/// 3. Times agree if they lie within four widths (ratio between 1.02 and 2.2).
/// 4. Of equally large sets, the faster wins, because disturbances slow down.
///
/// `gaps[k]` is the mean spacing of the order statistics 1 and ceil(0.4 k) (at least 2) of k standard normals, for k up
/// to n.
pub fn mode(times: &Times, gaps: &[f64]) -> Mode {
    let n = times.snapshots();
    let mut sample = sample(times);
    let mut load = vec![0.0; n];
    alternate(&sample, &mut load);
    let band = width(&mut sample.clone(), &load, gaps);
    let window = 2.0 * (2.0 * band).clamp(0.01, 0.4);
    for _ in 0..2 {
        refit(&mut sample, &mut load, window, 3.0 * band.max(0.005));
    }
    let modes = times.map(|column| {
        for (time, load) in column.iter_mut().zip(&load) {
            *time = time.ln() - load;
        }
        largest(sorted(column), window)
    });
    Mode {
        load: load.iter().map(|u| u.exp()).collect(),
        constant: modes.iter().map(|(centre, _)| centre.exp()).collect(),
        agreeing: modes.iter().map(|&(_, count)| count).collect(),
        band,
    }
}

/// Logarithms of some columns, spread over all by the golden ratio.
fn sample(times: &Times) -> Vec<Vec<f64>> {
    let pairs = times.pairs();
    let mut stride = ((pairs as f64 * 0.618) as usize).max(1);
    while common_divisor(stride, pairs) > 1 {
        stride += 1;
    }
    (0..pairs.min(SAMPLE))
        .map(|number| {
            let pair = (number * stride) % pairs;
            (0..times.snapshots())
                .map(|row| times.get(row, pair).map_or(f64::NAN, f64::ln))
                .collect()
        })
        .collect()
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The rank-one matrix with the smallest L1 error in logarithms: medians of columns and of rows in turn.
fn alternate(sample: &[Vec<f64>], load: &mut [f64]) {
    let mut room = Vec::new();
    for _ in 0..ROUNDS {
        let centres: Vec<f64> = sample
            .iter()
            .map(|column| {
                room.clear();
                room.extend(column.iter().zip(&*load).map(|(time, u)| time - u));
                median(&mut room).unwrap_or(f64::NAN)
            })
            .collect();
        let mut moved: f64 = 0.0;
        for (row, u) in load.iter_mut().enumerate() {
            room.clear();
            room.extend(sample.iter().zip(&centres).map(|(column, c)| column[row] - c));
            let next = median(&mut room).unwrap_or(0.0);
            moved = moved.max((next - *u).abs());
            *u = next;
        }
        centre(load);
        if moved < 1e-6 {
            break;
        }
    }
}

fn centre(load: &mut [f64]) {
    let middle = median(&mut load.to_vec()).unwrap_or(0.0);
    for u in load {
        *u -= middle;
    }
}

/// Pooled band width.
fn width(sample: &mut [Vec<f64>], load: &[f64], gaps: &[f64]) -> f64 {
    let mut widths = sample
        .iter_mut()
        .filter_map(|column| {
            for (time, u) in column.iter_mut().zip(load) {
                *time -= u;
            }
            let known = sorted(column);
            let gap = gaps.get(known.len()).copied().filter(|gap| *gap > 0.0)?;
            let upper = ((0.4 * known.len() as f64).ceil() as usize).max(2);
            Some((known[upper - 1] - known[0]) / gap)
        })
        .collect();
    median(&mut widths).unwrap_or(USUAL_BAND)
}

/// Computes the loads again, from the times that agree with the constants.
fn refit(sample: &mut [Vec<f64>], load: &mut [f64], window: f64, within: f64) {
    let mut sums = vec![(0.0, 0_u32); load.len()];
    for column in sample {
        let mut free: Vec<f64> = column.iter().zip(&*load).map(|(time, u)| time - u).collect();
        let (constant, _) = largest(sorted(&mut free), window);
        for ((time, &u), sum) in column.iter().zip(&*load).zip(&mut sums) {
            if (time - constant - u).abs() < within {
                sum.0 += time - constant;
                sum.1 += 1;
            }
        }
    }
    for (u, (sum, count)) in load.iter_mut().zip(sums) {
        if count > 0 {
            *u = sum / f64::from(count);
        }
    }
    centre(load);
}

/// Mean and size of the largest set of rising values that lie within a window, the lowest of equally large ones.
fn largest(rising: &[f64], window: f64) -> (f64, u32) {
    let (mut from, mut best) = (0, 0..0);
    for to in 1..=rising.len() {
        while rising[to - 1] - rising[from] > window {
            from += 1;
        }
        if to - from > best.len() {
            best = from..to;
        }
    }
    let count = best.len();
    (rising[best].iter().sum::<f64>() / count as f64, count as u32)
}
