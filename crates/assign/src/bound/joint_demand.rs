//! The time within which all hosts together offer less than all units need, cores and bytes together.
//!
//! Each unit makes its host exchange a known share of bytes. A byte that leaves a host is given a price in cores. Then
//! the units on a host cannot need more than the host's cores, nor more than the bytes that its links carry.

/// Shares of a sum by which floating-point numbers may be wrong.
pub(crate) const SAME: f64 = 1e-9;

/// Weights to try: first for all sizes together, then for each size.
const WEIGHTS: [f64; 12] = [0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0];
const OWN_WEIGHTS: [f64; 4] = [0.8, 0.9, 1.1, 1.25];

/// A host's cores, and the bytes that its links carry in a second.
pub(crate) type Offered = (f64, f64);

/// The units to place, and the hosts that can take them.
pub(crate) struct Needs<'a> {
    /// Cores of each unit.
    pub(crate) cores: &'a [f64],
    pub(crate) hosts: &'a [Offered],
}

impl Needs<'_> {
    /// The largest time within which all hosts together offer less than the units need.
    pub(crate) fn least_s(&self, sizes: &[f64], shares: &[Vec<f64>]) -> f64 {
        let all: f64 = self.cores.iter().sum();
        let means: Vec<f64> = shares.iter().map(|shares| shares.iter().sum::<f64>() / all).collect();
        // If the largest sets have no share, a host may hold any of them at no cost.
        let Some(count) = means
            .iter()
            .position(|&mean| mean <= 0.0)
            .or(Some(means.len()))
            .filter(|&count| count > 0)
        else {
            return 0.0;
        };
        let sizes = &sizes[..count];
        let tried = |weights: &[f64]| self.time_s(sizes, &shares[..count], weights);
        let mut best = (0.0, means[..count].to_vec());
        for factor in WEIGHTS {
            let weights: Vec<f64> = means[..count].iter().map(|mean| mean * factor).collect();
            let time_s = tried(&weights);
            if time_s > best.0 {
                best = (time_s, weights);
            }
        }
        for at in 0..count {
            for factor in OWN_WEIGHTS {
                let mut weights = best.1.clone();
                weights[at] *= factor;
                let time_s = tried(&weights);
                if time_s > best.0 {
                    best = (time_s, weights);
                }
            }
        }
        best.0 * (1.0 - SAME)
    }

    /// The same time if a byte that leaves a host costs `1 / weights` cores, with one weight for each size of sets.
    ///
    /// A unit counts as its cores, or as the price of its shares if that is lower for any size. So a host never holds
    /// more than its cores, nor more than the price of its bytes for the size that it chooses.
    fn time_s(&self, sizes: &[f64], shares: &[Vec<f64>], weights: &[f64]) -> f64 {
        let worth = |unit: usize| {
            let cores = self.cores[unit];
            let of = |(at, weight): (usize, &f64)| {
                // The last size in the list stands for all smaller ones, too.
                let holds = cores <= sizes[at];
                if holds {
                    shares[at][unit] / weight
                } else {
                    f64::INFINITY
                }
            };
            weights.iter().enumerate().map(of).fold(cores, f64::min)
        };
        let needed: f64 = (0..self.cores.len()).map(worth).sum::<f64>() * (1.0 - SAME);
        let offered = |time_s: f64| -> f64 {
            let host = |&(cores, bytes_per_s): &(f64, f64)| {
                let most = |(at, weight): (usize, &f64)| {
                    // A set this small counts for the next size.
                    let other = sizes.get(at + 1).is_some_and(|&next| next >= cores);
                    let bytes = if bytes_per_s.is_finite() {
                        bytes_per_s * time_s
                    } else {
                        f64::INFINITY
                    };
                    if other {
                        0.0
                    } else {
                        (bytes / weight).min(sizes[at]).min(cores)
                    }
                };
                weights.iter().enumerate().map(most).fold(0.0, f64::max)
            };
            self.hosts.iter().map(host).sum()
        };
        if offered(0.0) >= needed {
            return 0.0;
        }
        let (mut low_s, mut high_s) = (0.0, 1e-9);
        while offered(high_s) < needed {
            (low_s, high_s) = (high_s, high_s * 2.0);
            if high_s > 1e12 {
                return low_s;
            }
        }
        for _ in 0..60 {
            let middle_s = f64::midpoint(low_s, high_s);
            if offered(middle_s) < needed {
                low_s = middle_s;
            } else {
                high_s = middle_s;
            }
        }
        low_s
    }
}
