//! Principal component pursuit by the inexact augmented Lagrangian method.

use rayon::prelude::*;

use crate::eigen::eigen;
use crate::times::{Times, quantile};

/// Columns side by side in a tile: whole vector registers, and a tile of ten snapshots fits into the first-level cache.
const LANES: usize = 64;
/// Columns that one turn of the innermost loop covers: two rows of them fit into the registers of any x86-64.
const BLOCK: usize = 16;
/// Tiles of one piece of work. Fixed, so that sums are taken in the same order on any number of threads.
const PIECE: usize = 32;
/// If the residual is this share of the matrix, the split is found. 28 steps are usual, and D is then known to 1e-5.
const TOLERANCE: f64 = 1e-6;
const MAX_STEPS: u32 = 300;

/// The rank-one part of the low-rank matrix D.
#[derive(Clone, Debug)]
pub struct Principal {
    /// (n) factor of each snapshot, of mean 1.
    pub load: Vec<f64>,
    /// (m) the lasting time of each pair; NaN = never measured.
    pub constant: Vec<f64>,
    /// Number of steps.
    pub steps: u32,
}

/// One tile of the state; each array has n rows of `LANES`.
///
/// * `a`: the input over its column's median; NaN = not measured.
/// * `y`: the multipliers.
/// * `x`: A - E + Y/mu, from which the next D is computed.
///
/// Single precision suffices: values are near 1, results are exact to 1e-5, and half the memory takes half the time.
struct Tile {
    a: Vec<f32>,
    x: Vec<f32>,
    y: Vec<f32>,
}

/// Numbers of one step.
#[derive(Clone, Copy)]
struct Weights {
    mu: f32,
    /// The value for the next step.
    next_mu: f32,
    lambda: f32,
}

/// Splits times into a low-rank part and sparse errors: min |D|* + lambda |E|1 with A = D + E.
///
/// lambda is 1/sqrt(max(n, m)) over the root of the share of measured cells (Candès, Li, Ma, Wright 2011, Theorem 1.2).
///
/// The method is inexact ALM (Lin, Chen, Ma 2010, Algorithm 5). m is much larger than n, so singular values are
/// thresholded through the n x n Gram matrix, and each step passes once over the m x n state. Columns are first divided
/// by their medians; otherwise links slower than rms x sqrt(n) are clipped. A cell that was not measured is not a
/// constraint: its E is A - D.
pub fn principal(times: &Times) -> Principal {
    let scale = quantile(times, 0.5);
    let n = times.snapshots();
    let mut state = cut(times, &scale);
    let largest = state
        .iter()
        .flat_map(|tile| &tile.a)
        .filter(|a| !a.is_nan())
        .fold(0.0, |most: f32, a| most.max(*a));
    let start = gram(&mut state, n, |_, _| 0.0);
    let norm = eigen(start.0.clone()).values[0].max(0.0).sqrt();
    let whole: f64 = (0..n).map(|row| start.0[row][row]).sum();
    let known = state.iter().flat_map(|tile| &tile.a).filter(|a| !a.is_nan()).count();
    let seen = known as f64 / (state.len() * n * LANES) as f64;
    let lambda = 1.0 / (seen * n.max(times.pairs()) as f64).sqrt();
    let dual = norm.max(f64::from(largest) / lambda);
    let first = 1.25 / norm;
    let mut mu = first;
    let mut x_gram = gram(&mut state, n, |tile, _| {
        for ((y, x), &a) in tile.y.iter_mut().zip(&mut tile.x).zip(&tile.a) {
            *y = if a.is_nan() { 0.0 } else { a / dual as f32 };
            *x += *y / mu as f32;
        }
        0.0
    })
    .0;
    let mut steps = 0;
    while steps < MAX_STEPS {
        steps += 1;
        let shrink = thresholded(x_gram, 1.0 / mu);
        let next = (1.5 * mu).min(1e7 * first);
        let weights = Weights {
            mu: mu as f32,
            next_mu: next as f32,
            lambda: lambda as f32,
        };
        let (gram, rest) = gram(&mut state, n, |tile, d| step(tile, &shrink, weights, d));
        (x_gram, mu) = (gram, next);
        if rest <= (TOLERANCE * TOLERANCE) * whole {
            break;
        }
    }
    let (load, constant) = rank_one(&mut state, n, mu as f32, &scale);
    Principal { load, constant, steps }
}

fn cut(times: &Times, scale: &[f64]) -> Vec<Tile> {
    let n = times.snapshots();
    (0..times.pairs().div_ceil(LANES))
        .into_par_iter()
        .map(|number| {
            let mut a = vec![0.0; n * LANES];
            let pairs = number * LANES..times.pairs().min((number + 1) * LANES);
            for row in 0..n {
                for (lane, pair) in pairs.clone().enumerate() {
                    let value = times.get(row, pair).map_or(f64::NAN, |value| value / scale[pair]);
                    a[row * LANES + lane] = value as f32;
                }
            }
            Tile {
                // A cell that was not measured starts at its column's median.
                x: a.iter().map(|a| if a.is_nan() { 1.0 } else { *a }).collect(),
                y: vec![0.0; a.len()],
                a,
            }
        })
        .collect()
}

/// Changes every tile by `work`, which gets room for n rows and returns a number. Returns X X^T and the sum of the
/// numbers.
fn gram(tiles: &mut [Tile], n: usize, work: impl Fn(&mut Tile, &mut [f32]) -> f64 + Sync) -> (Vec<Vec<f64>>, f64) {
    let pairs = || (0..n).flat_map(|row| (0..=row).map(move |column| (row, column)));
    let parts: Vec<(Vec<f64>, f64)> = tiles
        .par_chunks_mut(PIECE)
        .map(|piece| {
            let (mut sums, mut total) = (vec![0.0; n * (n + 1) / 2], 0.0);
            let mut room = vec![0.0; n.next_multiple_of(2) * LANES];
            for tile in piece {
                total += work(tile, &mut room);
                for (sum, (row, column)) in sums.iter_mut().zip(pairs()) {
                    *sum += dot(&tile.x[row * LANES..], &tile.x[column * LANES..]);
                }
            }
            (sums, total)
        })
        .collect();
    let (mut whole, mut total) = (vec![vec![0.0; n]; n], 0.0);
    for (sums, part) in parts {
        total += part;
        for (sum, (row, column)) in sums.into_iter().zip(pairs()) {
            whole[row][column] += sum;
            whole[column][row] = whole[row][column];
        }
    }
    (whole, total)
}

/// Dot product of the first `LANES`, as parallel sums. The compiler may not split a single sum.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0; BLOCK];
    let blocks = a[..LANES].as_chunks::<BLOCK>().0.iter();
    for (a, b) in blocks.zip(b[..LANES].as_chunks::<BLOCK>().0) {
        for lane in 0..BLOCK {
            sums[lane] += a[lane] * b[lane];
        }
    }
    f64::from(sums.iter().sum::<f32>())
}

/// The matrix whose product with X has the singular values of X less `by`. It is stored by row, with a row of zeros
/// added if the number of rows is odd.
fn thresholded(gram: Vec<Vec<f64>>, by: f64) -> Vec<f32> {
    let n = gram.len();
    let decomposed = eigen(gram);
    let mut shrink = vec![0.0; n * n];
    for (value, vector) in decomposed.values.iter().zip(&decomposed.vectors) {
        let singular = value.max(0.0).sqrt();
        if singular <= by {
            break;
        }
        for row in 0..n {
            for column in 0..n {
                shrink[row * n + column] += (singular - by) / singular * vector[row] * vector[column];
            }
        }
    }
    shrink.resize(n.next_multiple_of(2) * n, 0.0);
    shrink.into_iter().map(|weight| weight as f32).collect()
}

/// D = shrink X for one tile.
fn product(shrink: &[f32], x: &[f32], d: &mut [f32]) {
    let n = x.len() / LANES;
    for at in (0..LANES).step_by(BLOCK) {
        for (rows, weights) in shrink.chunks_exact(2 * n).enumerate() {
            let (above, below) = weights.split_at(n);
            let (mut one, mut other) = ([0.0; BLOCK], [0.0; BLOCK]);
            for ((x, &above), &below) in x.chunks_exact(LANES).zip(above).zip(below) {
                let x = &x[at..at + BLOCK];
                for lane in 0..BLOCK {
                    one[lane] += above * x[lane];
                    other[lane] += below * x[lane];
                }
            }
            d[2 * rows * LANES + at..][..BLOCK].copy_from_slice(&one);
            d[(2 * rows + 1) * LANES + at..][..BLOCK].copy_from_slice(&other);
        }
    }
}

/// One step on one tile; returns its residual squared.
///
/// With gap = A - D, the errors E are gap + Y/mu, softened by lambda/mu. The multipliers become Y + mu gap, cut off at lambda. The
/// residual A - D - E is their change over mu.
fn step(tile: &mut Tile, shrink: &[f32], weights: Weights, d: &mut [f32]) -> f64 {
    let Weights { mu, next_mu, lambda } = weights;
    let (inverse, next_inverse) = (1.0 / mu, 1.0 / next_mu);
    product(shrink, &tile.x, d);
    let mut residual = [0.0; BLOCK];
    let cells = tile.a.as_chunks::<BLOCK>().0.iter().zip(d.as_chunks::<BLOCK>().0);
    let state = tile
        .x
        .as_chunks_mut::<BLOCK>()
        .0
        .iter_mut()
        .zip(tile.y.as_chunks_mut::<BLOCK>().0);
    for ((a, d), (x, y)) in cells.zip(state) {
        for lane in 0..BLOCK {
            let raised = y[lane] + mu * (a[lane] - d[lane]);
            // Comparisons become a minimum and a maximum of registers. `clamp` and `max` handle NaN and do not.
            let below = if raised < lambda { raised } else { lambda };
            let within = if below > -lambda { below } else { -lambda };
            // In a cell that was not measured, E is A - D.
            let cut = if a[lane].is_nan() { 0.0 } else { within };
            let rest = (cut - y[lane]) * inverse;
            residual[lane] += rest * rest;
            y[lane] = cut;
            x[lane] = d[lane] + rest + cut * next_inverse;
        }
    }
    f64::from(residual.iter().sum::<f32>())
}

/// The first component of D, because D is not of rank one if there is noise.
fn rank_one(tiles: &mut [Tile], n: usize, mu: f32, scale: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (d_gram, _) = gram(tiles, n, |tile, _| {
        for (x, &y) in tile.x.iter_mut().zip(&tile.y) {
            *x -= y / mu;
        }
        0.0
    });
    let mut load = eigen(d_gram).vectors.swap_remove(0);
    let mut mean = load.iter().sum::<f64>() / n as f64;
    if mean < 0.0 {
        for u in &mut load {
            *u = -*u;
        }
        mean = -mean;
    }
    let level = tiles.par_iter().flat_map_iter(|tile| {
        // Projects onto the measured cells only, because the values of D in the others are shrunk.
        let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
        for (row, &u) in load.iter().enumerate() {
            for lane in 0..LANES {
                let (a, x) = (tile.a[row * LANES + lane], tile.x[row * LANES + lane]);
                if !a.is_nan() {
                    sums[lane] += u * f64::from(x);
                    squares[lane] += u * u;
                }
            }
        }
        for (sum, square) in sums.iter_mut().zip(squares) {
            *sum /= square;
        }
        sums
    });
    let mut constant: Vec<f64> = level.collect();
    constant.truncate(scale.len());
    for (constant, &scale) in constant.iter_mut().zip(scale) {
        *constant *= mean * scale;
    }
    for u in &mut load {
        *u /= mean;
    }
    (load, constant)
}
