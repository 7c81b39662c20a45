//! The largest of many numbers that change one at a time.

/// A tournament tree over non-negative numbers.
#[derive(Clone, Debug)]
pub(crate) struct MaxTree {
    /// `values[1]` is the root, and the leaves start at `leaves`.
    values: Vec<f64>,
    leaves: usize,
}

impl MaxTree {
    /// `count` zeros.
    pub(crate) fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self {
            values: vec![0.0; 2 * leaves],
            leaves,
        }
    }

    pub(crate) fn max(&self) -> f64 {
        self.values[1]
    }

    pub(crate) fn get(&self, leaf: usize) -> f64 {
        self.values[self.leaves + leaf]
    }

    pub(crate) fn set(&mut self, leaf: usize, value: f64) {
        let mut node = self.leaves + leaf;
        self.values[node] = value;
        while node > 1 {
            let largest = self.values[node].max(self.values[node ^ 1]);
            node /= 2;
            if self.values[node].to_bits() == largest.to_bits() {
                return;
            }
            self.values[node] = largest;
        }
    }

    /// Changes only a leaf; until `mend`, the largest number stays the old one.
    pub(crate) fn set_leaf(&mut self, leaf: usize, value: f64) {
        self.values[self.leaves + leaf] = value;
    }

    /// Updates the tree after `set_leaf`.
    pub(crate) fn mend(&mut self) {
        for node in (1..self.leaves).rev() {
            self.values[node] = self.values[2 * node].max(self.values[2 * node + 1]);
        }
    }

    /// The first `count` leaves.
    pub(crate) fn first(&self, count: usize) -> &[f64] {
        &self.values[self.leaves..self.leaves + count]
    }

    /// The largest of the first `count` leaves, correct right after `set_leaf`, too. For few leaves this beats keeping
    /// the tree up to date.
    pub(crate) fn scan(&self, count: usize) -> f64 {
        const LANES: usize = 8;
        let leaves = self.first(count);
        let mut most = [0.0_f64; LANES];
        let parts = leaves.chunks_exact(LANES);
        let rest = parts.remainder();
        for part in parts {
            for (most, &value) in most.iter_mut().zip(part) {
                *most = if value > *most { value } else { *most };
            }
        }
        most.iter().chain(rest).copied().fold(0.0, f64::max)
    }

    /// The first leaf that holds the largest number.
    pub(crate) fn argmax(&self) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            if self.values[node] < self.values[node + 1] {
                node += 1;
            }
        }
        node - self.leaves
    }
}
