//! Principal component pursuit by the inexact augmented Lagrangian method.

use rayon::prelude::*;

use crate::eigen::eigen;
use crate::times::{Times, quantile};

/// Columns side by side in a tile: whole vector registers, and a tile of ten snapshots fits into the first-level cache.
const LANES: usize = 64;
/// Tiles of one piece of work. Fixed, so that sums are taken in the same order on any number of threads.
const PIECE: usize = 32;
/// Where the residual is this share of the matrix, the split is found: 28 steps are usual, and D is then known to 1e-5.
const TOLERANCE: f64 = 1e-6;
const MAX_STEPS: u32 = 300;

/// The rank-one part of the low-rank matrix D.
#[derive(Clone, Debug)]
pub struct Principal {
    /// (n) factor of each snapshot, of mean 1.
    pub load: Vec<f64>,
    /// (m) the lasting time of each pair; NaN = never measured.
    pub constant: Vec<f64>,
    /// Steps it took.
    pub steps: u32,
}

/// One tile of the state: `a` is the input over its column's median (NaN = not measured), `e` the sparse errors, `y` the
/// multipliers; each n rows of `LANES`.
struct Tile {
    a: Vec<f64>,
    e: Vec<f64>,
    y: Vec<f64>,
}

/// Splits times into low rank and sparse errors: min |D|* + lambda |E|1 with A = D + E, lambda = 1/sqrt(max(n, m)), over the root
/// of the share of cells that were measured (Candès, Li, Ma, Wright 2011, Theorem 1.2).
///
/// Inexact ALM (Lin, Chen, Ma 2010, Algorithm 5). m is much larger than n, so that singular values are thresholded through the n x n Gram
/// matrix, and m x n state is passed once a step. Columns are first divided by their medians: without, links slower
/// than rms x sqrt(n) are clipped. A cell that was not measured binds nothing: there E is what A lacks.
pub fn principal(times: &Times) -> Principal {
    let scale = quantile(times, 0.5);
    let n = times.snapshots();
    let mut state = cut(times, &scale);
    let largest = state
        .iter()
        .flat_map(|tile| &tile.a)
        .filter(|a| !a.is_nan())
        .fold(0.0, |most: f64, a| most.max(*a));
    let start = gram(&mut state, n, |tile, x| {
        for (x, &a) in x.iter_mut().zip(&tile.a) {
            *x = filled(a);
        }
        0.0
    });
    let norm = eigen(start.0.clone()).values[0].max(0.0).sqrt();
    let whole: f64 = (0..n).map(|row| start.0[row][row]).sum();
    let known = state.iter().flat_map(|tile| &tile.a).filter(|a| !a.is_nan()).count();
    let seen = known as f64 / (state.len() * n * LANES) as f64;
    let lambda = 1.0 / (seen * n.max(times.pairs()) as f64).sqrt();
    let dual = norm.max(largest / lambda);
    let first = 1.25 / norm;
    for tile in &mut state {
        for (y, &a) in tile.y.iter_mut().zip(&tile.a) {
            *y = if a.is_nan() { 0.0 } else { a / dual };
        }
    }
    let mut mu = first;
    let mut x_gram = gram(&mut state, n, |tile, x| {
        target(tile, mu, x);
        0.0
    })
    .0;
    let mut steps = 0;
    while steps < MAX_STEPS {
        steps += 1;
        let shrink = thresholded(x_gram, 1.0 / mu);
        let next = (1.5 * mu).min(1e7 * first);
        let (gram, rest) = gram(&mut state, n, |tile, x| {
            let residual = step(tile, &shrink, mu, lambda, n);
            target(tile, next, x);
            residual
        });
        (x_gram, mu) = (gram, next);
        if rest <= (TOLERANCE * TOLERANCE) * whole {
            break;
        }
    }
    let (load, constant) = rank_one(&mut state, n, &scale);
    Principal { load, constant, steps }
}

fn cut(times: &Times, scale: &[f64]) -> Vec<Tile> {
    let n = times.snapshots();
    (0..times.pairs().div_ceil(LANES))
        .into_par_iter()
        .map(|number| {
            let mut a = vec![0.0; n * LANES];
            for (lane, pair) in (number * LANES..times.pairs().min((number + 1) * LANES)).enumerate() {
                for row in 0..n {
                    a[row * LANES + lane] = times.get(row, pair).map_or(f64::NAN, |value| value / scale[pair]);
                }
            }
            Tile {
                e: vec![0.0; a.len()],
                y: vec![0.0; a.len()],
                a,
            }
        })
        .collect()
}

/// A cell that was not measured starts at its column's median.
fn filled(a: f64) -> f64 {
    if a.is_nan() { 1.0 } else { a }
}

/// What the next D is taken from.
fn target(tile: &Tile, mu: f64, x: &mut [f64]) {
    let inverse = 1.0 / mu;
    for (((x, &a), &e), &y) in x.iter_mut().zip(&tile.a).zip(&tile.e).zip(&tile.y) {
        *x = filled(a) - e + y * inverse;
    }
}

/// Changes every tile by `work`, which also fills the tile's x and gives a number; returns X X^T and the numbers' sum.
fn gram(tiles: &mut [Tile], n: usize, work: impl Fn(&mut Tile, &mut [f64]) -> f64 + Sync) -> (Vec<Vec<f64>>, f64) {
    let parts: Vec<(Vec<Vec<f64>>, f64)> = tiles
        .par_chunks_mut(PIECE)
        .map(|piece| {
            let (mut sums, mut total) = (vec![vec![0.0; n]; n], 0.0);
            let mut x = vec![0.0; n * LANES];
            for tile in piece {
                total += work(tile, &mut x);
                for row in 0..n {
                    for column in 0..=row {
                        sums[row][column] += dot(&x[row * LANES..][..LANES], &x[column * LANES..][..LANES]);
                    }
                }
            }
            (sums, total)
        })
        .collect();
    let (mut whole, mut total) = (vec![vec![0.0; n]; n], 0.0);
    for (sums, part) in parts {
        total += part;
        for row in 0..n {
            for column in 0..=row {
                whole[row][column] += sums[row][column];
                whole[column][row] = whole[row][column];
            }
        }
    }
    (whole, total)
}

/// Eight sums side by side, which the compiler may not make of one by itself.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// The matrix that, put before X, takes `by` off its singular values.
fn thresholded(gram: Vec<Vec<f64>>, by: f64) -> Vec<Vec<f64>> {
    let n = gram.len();
    let found = eigen(gram);
    let mut shrink = vec![vec![0.0; n]; n];
    for (value, vector) in found.values.iter().zip(&found.vectors) {
        let singular = value.max(0.0).sqrt();
        if singular <= by {
            break;
        }
        for row in 0..n {
            for column in 0..n {
                shrink[row][column] += (singular - by) / singular * vector[row] * vector[column];
            }
        }
    }
    shrink
}

/// One step on one tile; returns its residual squared.
fn step(tile: &mut Tile, shrink: &[Vec<f64>], mu: f64, lambda: f64, n: usize) -> f64 {
    let mut x = vec![0.0; n * LANES];
    target(tile, mu, &mut x);
    let (inverse, soft) = (1.0 / mu, lambda / mu);
    let mut residual = 0.0;
    for (row, weights) in shrink.iter().enumerate() {
        let mut d = [0.0; LANES];
        for (x, &weight) in x.as_chunks::<LANES>().0.iter().zip(weights) {
            for lane in 0..LANES {
                d[lane] += weight * x[lane];
            }
        }
        let span = row * LANES..(row + 1) * LANES;
        let (a, e, y) = (&tile.a[span.clone()], &mut tile.e[span.clone()], &mut tile.y[span]);
        let mut rest = [0.0; LANES];
        for lane in 0..LANES {
            let missing = a[lane].is_nan();
            let gap = filled(a[lane]) - d[lane];
            let raised = gap + y[lane] * inverse;
            let kept = raised - raised.clamp(-soft, soft);
            e[lane] = if missing { gap } else { kept };
            rest[lane] = if missing { 0.0 } else { gap - kept };
            y[lane] += mu * rest[lane];
        }
        residual += dot(&rest, &rest);
    }
    residual
}

/// D is not of rank one where there is noise: what is asked for is its first component.
fn rank_one(tiles: &mut [Tile], n: usize, scale: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (d_gram, _) = gram(tiles, n, |tile, x| {
        for ((x, &a), &e) in x.iter_mut().zip(&tile.a).zip(&tile.e) {
            *x = filled(a) - e;
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
        // Onto the measured cells alone: what D puts into the others is shrunk.
        let (mut sums, mut squares) = ([0.0; LANES], [0.0; LANES]);
        for (row, &u) in load.iter().enumerate() {
            for lane in 0..LANES {
                let (a, e) = (tile.a[row * LANES + lane], tile.e[row * LANES + lane]);
                if !a.is_nan() {
                    sums[lane] += u * (a - e);
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
