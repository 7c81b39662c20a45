//! Improves trees by simulated annealing over trees, orders of children and numbers of segments.
//!
//! It starts from the best of the trees built in one pass, each with its best number of segments. Half of the moves
//! start on the path to the host that finishes last, because only they can shorten that time.

use gavotte_net::Volume;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::costs::Costs;
use crate::error::TreeError;
use crate::greedy::{Eager, binomial, ecef, fnf};
use crate::operation::TreeOperation;
use crate::shape::{Shape, Timed};
use crate::tree::Tree;

/// Weight of the mean time of hosts, and of shared links, relative to the maximum. Most moves do not change the
/// maximum.
const MEAN_COUNTS: f64 = 0.02;

/// Temperature at the start and end of a chain, as a share of its initial time.
const HOT: f64 = 0.01;
const COLD: f64 = 0.000_05;

/// Number of starts that are improved.
pub(crate) const STARTS: usize = 3;

/// With more hosts, look-ahead would take longer than the search.
const LOOK_AHEAD_HOSTS: usize = 512;

/// Number of places drawn to find a near one.
const DRAWN: usize = 8;

/// A tree, the best number of segments for it, and its time.
#[derive(Clone, Debug)]
pub struct Found {
    /// The tree.
    pub tree: Tree,
    /// Number of pieces of the bytes.
    pub segments: u32,
    /// Its duration according to [`crate::time`]; or the full time of the busiest link that messages share, if that is
    /// longer.
    pub seconds: f64,
}

/// Searches for the tree and the number of segments with the shortest time.
///
/// `operation.segments` is the largest number of segments allowed; `steps` is the total number of moves tried.
///
/// # Errors
///
/// If the root does not exist, the bytes are invalid, or no usable pair leads to a host.
pub fn search(costs: &Costs, root: usize, operation: TreeOperation, steps: u64, seed: u64) -> Result<Found, TreeError> {
    Ok(candidates(costs, root, operation, steps, seed)?.swap_remove(0))
}

/// The improved trees and their starts, the best first.
pub(crate) fn candidates(
    costs: &Costs,
    root: usize,
    operation: TreeOperation,
    steps: u64,
    seed: u64,
) -> Result<Vec<Found>, TreeError> {
    let operation = operation.check()?;
    let mut starts = starts(costs, root, operation)?;
    starts.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    starts.dedup_by(|a, b| a.tree == b.tree);
    starts.retain(|start| start.seconds.is_finite());
    starts.truncate(STARTS);
    if costs.hosts() < 3 {
        return Ok(starts);
    }
    let each = steps / starts.len() as u64;
    let improve = |(number, start): (usize, &Found)| {
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(number as u64));
        Chain::new(costs, start, operation, rng).run(each)
    };
    let mut trees: Vec<Found> = starts.iter().enumerate().map(improve).collect();
    trees.extend(starts);
    trees.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    trees.dedup_by(|a, b| a.segments == b.segments && a.tree == b.tree);
    Ok(trees)
}

/// Trees built in one pass, each with its best number of segments.
fn starts(costs: &Costs, root: usize, operation: TreeOperation) -> Result<Vec<Found>, TreeError> {
    let mut trees = vec![binomial(costs.hosts(), root)?];
    for pieces in [1, 16, operation.segments] {
        if pieces > operation.segments {
            continue;
        }
        let bytes = Volume(operation.bytes / f64::from(pieces));
        trees.push(fnf(costs, root, bytes)?);
        trees.push(ecef(costs, root, bytes, Eager::default())?);
        for most_children in [1, 2, 3] {
            let eager = Eager {
                look_ahead: false,
                most_children,
            };
            match ecef(costs, root, bytes, eager) {
                // If some pairs cannot be used, such a narrow tree may not reach every host.
                Err(TreeError::Unreachable(_)) => {}
                other => trees.push(other?),
            }
        }
        if costs.hosts() <= LOOK_AHEAD_HOSTS {
            trees.push(ecef(
                costs,
                root,
                bytes,
                Eager {
                    look_ahead: true,
                    ..Eager::default()
                },
            )?);
        }
    }
    trees.push(Tree::flat(costs.hosts(), root)?);
    Ok(trees.into_iter().map(|tree| cut(costs, tree, operation)).collect())
}

/// A tree with its best number of segments.
pub(crate) fn cut(costs: &Costs, tree: Tree, operation: TreeOperation) -> Found {
    let mut shape = Shape::of(&tree);
    let mut timed = |segments: u32| shape.timed(costs, TreeOperation { segments, ..operation }).bound_s();
    let counts = std::iter::successors(Some(1_u32), |&count| Some(count + count.div_ceil(4)));
    let tried = counts
        .take_while(|&count| count <= operation.segments)
        .map(|count| (timed(count), count));
    let (seconds, segments) = tried.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 1));
    Found {
        tree,
        segments,
        seconds,
    }
}

/// One run of simulated annealing.
struct Chain<'a> {
    costs: &'a Costs,
    most_segments: u32,
    operation: TreeOperation,
    shape: Shape,
    timed: Timed,
    rng: Xoshiro256PlusPlus,
    /// The lists of children before the move.
    undo: Vec<(usize, Vec<usize>)>,
    /// Places whose hosts the move swapped.
    swapped: Option<(usize, usize)>,
    best: Found,
}

impl<'a> Chain<'a> {
    fn new(costs: &'a Costs, start: &Found, operation: TreeOperation, rng: Xoshiro256PlusPlus) -> Self {
        let most_segments = operation.segments;
        let operation = TreeOperation {
            segments: start.segments,
            ..operation
        };
        let mut shape = Shape::of(&start.tree);
        let timed = shape.timed(costs, operation);
        Self {
            costs,
            most_segments,
            operation,
            shape,
            timed,
            rng,
            undo: Vec::new(),
            swapped: None,
            best: start.clone(),
        }
    }

    fn run(mut self, steps: u64) -> Found {
        let mut cost = value(self.timed);
        let mut temperature = HOT * cost;
        let cooling = (COLD / HOT).powf(1.0 / steps.max(1) as f64);
        for _ in 0..steps {
            temperature *= cooling;
            let (segments, before) = (self.operation.segments, self.timed);
            self.undo.clear();
            self.swapped = None;
            if !self.propose() {
                continue;
            }
            self.timed = self.shape.timed(self.costs, self.operation);
            let worse = value(self.timed) - cost;
            if worse <= 0.0 || worse < -temperature * self.rng.random::<f64>().ln() {
                cost = value(self.timed);
                if self.timed.bound_s() < self.best.seconds {
                    self.best = Found {
                        tree: self.shape.tree(),
                        segments: self.operation.segments,
                        seconds: self.timed.bound_s(),
                    };
                }
            } else {
                self.operation.segments = segments;
                self.timed = before;
                if let Some((one, other)) = self.swapped {
                    self.shape.host.swap(one, other);
                }
                self.put_back();
            }
        }
        self.best
    }

    /// Makes a move; returns whether one was possible.
    fn propose(&mut self) -> bool {
        let place = self.pick();
        let kind = self.rng.random::<f64>();
        if kind < 0.08 {
            return self.resegment();
        }
        if kind < 0.25 {
            let other = self.rng.random_range(1..self.shape.host.len());
            self.shape.host.swap(place, other);
            self.swapped = Some((place, other));
            return place != other;
        }
        if kind < 0.40 {
            return self.reorder(place);
        }
        if kind < 0.65 {
            return self.splice(place);
        }
        self.reattach(place)
    }

    /// A place other than the root: on the path to the last one, or any.
    fn pick(&mut self) -> usize {
        let mut place = self.timed.last;
        if place == 0 || self.rng.random_bool(0.5) {
            return self.rng.random_range(1..self.shape.host.len());
        }
        let depth = std::iter::successors(Some(place), |&at| (at != 0).then(|| self.shape.parent[at])).count() - 1;
        for _ in 0..self.rng.random_range(0..depth) {
            place = self.shape.parent[place];
        }
        place
    }

    /// A place that `from` is reached from fast, among a few drawn; never `from` itself.
    fn near(&mut self, from: usize) -> usize {
        let draws = if self.rng.random_bool(0.5) { 1 } else { DRAWN };
        let target = self.shape.host[from];
        let mut best = (f64::INFINITY, self.shape.parent[from]);
        for _ in 0..draws {
            let place = self.rng.random_range(0..self.shape.host.len());
            let seconds = self
                .costs
                .seconds(self.shape.host[place], target, Volume(self.operation.bytes));
            if place != from && seconds < best.0 {
                best = (seconds, place);
            }
        }
        best.1
    }

    fn resegment(&mut self) -> bool {
        let now = self.operation.segments;
        let factor = self.rng.random_range(0.7..1.4);
        let next = (f64::from(now) * factor).round() as u32;
        self.operation.segments = next.clamp(1, self.most_segments);
        self.operation.segments != now
    }

    /// Moves a place to another position among its siblings.
    fn reorder(&mut self, place: usize) -> bool {
        let above = self.shape.parent[place];
        let mut siblings = self.shape.children[above].clone();
        if siblings.len() < 2 {
            return false;
        }
        siblings.retain(|&sibling| sibling != place);
        let at = self.rng.random_range(0..=siblings.len());
        siblings.insert(at, place);
        self.set_children(above, siblings);
        true
    }

    /// Moves a place, with all places below it, below another one.
    fn reattach(&mut self, place: usize) -> bool {
        let to = self.near(place);
        if self.shape.is_below(to, place) {
            return false;
        }
        self.detach(place, &[]);
        self.insert(to, place);
        true
    }

    /// Removes a single place, with its children taking its position. Inserts it on the path to another place, or below
    /// it.
    fn splice(&mut self, place: usize) -> bool {
        let to = self.near(place);
        let inside = self.shape.children[place].clone();
        self.detach(place, &inside);
        self.set_children(place, Vec::new());
        if to == 0 || self.rng.random_bool(0.5) {
            self.insert(to, place);
        } else {
            let above = self.shape.parent[to];
            let list = self.shape.children[above].iter();
            let list = list.map(|&child| if child == to { place } else { child }).collect();
            self.set_children(above, list);
            self.set_children(place, vec![to]);
        }
        true
    }

    fn detach(&mut self, place: usize, instead: &[usize]) {
        let above = self.shape.parent[place];
        let mut list = self.shape.children[above].clone();
        let at = list
            .iter()
            .position(|&child| child == place)
            .expect("its parent knows it");
        list.splice(at..=at, instead.iter().copied());
        self.set_children(above, list);
    }

    fn insert(&mut self, to: usize, place: usize) {
        let mut list = self.shape.children[to].clone();
        let at = self.rng.random_range(0..=list.len());
        list.insert(at, place);
        self.set_children(to, list);
    }

    fn set_children(&mut self, place: usize, list: Vec<usize>) {
        for &child in &list {
            self.shape.parent[child] = place;
        }
        let before = std::mem::replace(&mut self.shape.children[place], list);
        self.undo.push((place, before));
    }

    fn put_back(&mut self) {
        let places: Vec<usize> = self.undo.iter().map(|&(place, _)| place).collect();
        for (place, before) in self.undo.drain(..).rev() {
            self.shape.children[place] = before;
        }
        for place in places {
            for &child in &self.shape.children[place] {
                self.shape.parent[child] = place;
            }
        }
    }
}

fn value(timed: Timed) -> f64 {
    timed.bound_s() + MEAN_COUNTS * (timed.mean_s + timed.mean_full_s)
}
