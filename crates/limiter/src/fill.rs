//! Max-min fair shares of one hose among pairs that each need at most a bound.

/// Bounds in ascending order, and their sums.
pub(crate) struct Fill {
    hose_bps: f64,
    order: Vec<usize>,
    sorted: Vec<f64>,
    /// `sums[i]` is the sum of the `i` lowest bounds.
    sums: Vec<f64>,
    /// The share of a pair without a bound.
    level_bps: f64,
}

impl Fill {
    pub(crate) fn new(hose_bps: f64, bounds: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..bounds.len()).collect();
        order.sort_by(|&a, &b| bounds[a].total_cmp(&bounds[b]));
        let sorted: Vec<f64> = order.iter().map(|&at| bounds[at]).collect();
        let mut sums = vec![0.0];
        for bound in &sorted {
            sums.push(sums[sums.len() - 1] + bound);
        }
        let mut fill = Self {
            hose_bps,
            order,
            sorted,
            sums,
            level_bps: f64::INFINITY,
        };
        let count = fill.sorted.len();
        let at = (0..count).position(|at| fill.sums[at] + (count - at) as f64 * fill.sorted[at] > hose_bps);
        if let Some(at) = at {
            fill.level_bps = (hose_bps - fill.sums[at]) / (count - at) as f64;
        }
        fill
    }

    /// The part of the hose that is left when each pair has its bound; zero if some pairs get less.
    pub(crate) fn left_bps(&self) -> f64 {
        (self.hose_bps - self.sums[self.sums.len() - 1]).max(0.0)
    }

    /// The share of each pair.
    pub(crate) fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.order.len()];
        for (&at, &bound) in self.order.iter().zip(&self.sorted) {
            shares[at] = bound.min(self.level_bps);
        }
        shares
    }

    /// The share that each pair would have if only its own bound did not apply.
    pub(crate) fn offers(&self) -> Vec<f64> {
        let mut offers = vec![0.0; self.order.len()];
        for (place, &at) in self.order.iter().enumerate() {
            offers[at] = if self.sorted[place] >= self.level_bps {
                self.level_bps
            } else {
                self.without(place)
            };
        }
        offers
    }

    /// The level without the bound at this place, which is below the level.
    fn without(&self, place: usize) -> f64 {
        let (count, own) = (self.sorted.len(), self.sorted[place]);
        // The other bounds up to `index` apply: does the level reach the next one?
        let level = |index: usize| (self.hose_bps - self.sums[index] + own) / (count - index + 1) as f64;
        let (mut low, mut high) = (place + 1, count);
        while low < high {
            let middle = low.midpoint(high);
            if level(middle) >= self.sorted[middle] {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        level(low)
    }
}
