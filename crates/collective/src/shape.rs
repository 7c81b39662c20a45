//! A tree while it is being changed: places, and which host sits on each.

use gavotte_net::Volume;

use crate::costs::Costs;
use crate::operation::TreeOperation;
use crate::tree::Tree;

/// Place 0 is the root's.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) parent: Vec<usize>,
    pub(crate) children: Vec<Vec<usize>>,
    pub(crate) host: Vec<usize>,
    order: Vec<usize>,
    size: Vec<f64>,
    first_s: Vec<f64>,
    pace_s: Vec<f64>,
    load_s: Vec<f64>,
}

/// The results of an evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    /// The time at which the last place finishes.
    pub(crate) end_s: f64,
    /// A lower bound on the time that the busiest link shared by messages is full.
    pub(crate) full_s: f64,
    /// The mean of all such links.
    pub(crate) mean_full_s: f64,
    /// Mean over places of the time at which they finish.
    pub(crate) mean_s: f64,
    /// The last place.
    pub(crate) last: usize,
}

impl Timed {
    /// A lower bound on the duration if messages share links; without shared links, the duration itself.
    pub(crate) fn bound_s(self) -> f64 {
        self.end_s.max(self.full_s)
    }
}

impl Shape {
    pub(crate) fn of(tree: &Tree) -> Self {
        let host = tree.order();
        let mut place = vec![0; host.len()];
        for (at, &host) in host.iter().enumerate() {
            place[host] = at;
        }
        let children: Vec<Vec<usize>> = host
            .iter()
            .map(|&host| tree.children(host).iter().map(|&child| place[child]).collect())
            .collect();
        let parents = tree.parents();
        let count = host.len();
        Self {
            parent: host.iter().map(|&host| place[parents[host]]).collect(),
            children,
            host,
            order: Vec::with_capacity(count),
            size: vec![1.0; count],
            first_s: vec![0.0; count],
            pace_s: vec![0.0; count],
            load_s: Vec::new(),
        }
    }

    /// The tree over hosts.
    pub(crate) fn tree(&self) -> Tree {
        let mut children = vec![Vec::new(); self.host.len()];
        for (place, below) in self.children.iter().enumerate() {
            children[self.host[place]] = below.iter().map(|&child| self.host[child]).collect();
        }
        Tree::new(self.host[0], children).expect("moves keep it a tree")
    }

    /// Whether `place` is `above` or below it.
    pub(crate) fn is_below(&self, mut place: usize, above: usize) -> bool {
        while place != above && place != 0 {
            place = self.parent[place];
        }
        place == above
    }

    /// The evaluation of [`crate::time`].
    pub(crate) fn timed(&mut self, costs: &Costs, operation: TreeOperation) -> Timed {
        let pieces = f64::from(operation.segments);
        let piece_bytes = operation.bytes / pieces;
        self.order.clear();
        self.order.push(0);
        let mut at = 0;
        while at < self.order.len() {
            self.order.extend(&self.children[self.order[at]]);
            at += 1;
        }
        if operation.scatter {
            for &place in self.order.iter().rev() {
                self.size[place] = 1.0 + self.children[place].iter().map(|&child| self.size[child]).sum::<f64>();
            }
        }
        (self.first_s[0], self.pace_s[0]) = (0.0, 0.0);
        let mut timed = Timed {
            end_s: 0.0,
            full_s: 0.0,
            mean_full_s: 0.0,
            mean_s: 0.0,
            last: 0,
        };
        let shared = costs.shared();
        shared.clear(&mut self.load_s);
        for &place in &self.order {
            let source = self.host[place];
            let mut clock_s = self.first_s[place];
            for &child in &self.children[place] {
                let bytes = if operation.scatter {
                    piece_bytes * self.size[child]
                } else {
                    piece_bytes
                };
                clock_s += costs.busy_s(source, self.host[child], Volume(bytes));
                shared.count(&mut self.load_s, source, self.host[child], Volume(bytes));
                self.first_s[child] = clock_s + costs.latency_s(source, self.host[child]);
            }
            let pace_s = self.pace_s[place].max(clock_s - self.first_s[place]);
            for &child in &self.children[place] {
                self.pace_s[child] = pace_s;
            }
            let mut done_s = self.first_s[place];
            if operation.segments > 1 {
                // If a pair cannot be used, zero later pieces must not take 0 x infinity.
                done_s += (pieces - 1.0) * self.pace_s[place];
            }
            timed.mean_s += done_s;
            if done_s > timed.end_s {
                (timed.end_s, timed.last) = (done_s, place);
            }
        }
        timed.mean_s /= self.order.len() as f64;
        timed.full_s = pieces * self.load_s.iter().copied().fold(0.0, f64::max);
        timed.mean_full_s = pieces * self.load_s.iter().sum::<f64>() / self.load_s.len().max(1) as f64;
        timed
    }
}
