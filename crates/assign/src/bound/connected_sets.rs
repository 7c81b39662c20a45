//! The connected sets of tasks that a host can hold, each listed once (Wernicke's ESU, 2006).

use std::ops::ControlFlow;

use crate::problem::Problem;
use crate::problem::units::Edge;

/// The search for sets visits at most this many of them; above that, lighter edges are left out. The other two
/// constants are the smallest such limit, and the work that counts as one set.
const MOST_SEEN: u64 = 100_000;
const FEWEST_SEEN: u64 = 10_000;
const WORK_PER_SEEN: u64 = 400;

/// Number of connected sets between two checks of the stop condition.
const PATIENCE: u64 = 256;

/// A connected set of units.
pub(crate) struct Set {
    pub(crate) units: Vec<u32>,
    pub(crate) nano_cores: u64,
    /// Bytes that its units send to other units.
    pub(crate) out_bytes: f64,
    /// Bytes that other units send to its units.
    pub(crate) in_bytes: f64,
}

/// The units, and the bytes that each two of them exchange, counting both directions.
pub(crate) struct Graph<'a> {
    problem: &'a Problem,
    /// For each unit its partners, ascending, with the bytes of both directions.
    partners: Vec<Vec<(usize, u64)>>,
    out_bytes: Vec<u64>,
    in_bytes: Vec<u64>,
    most_nanos: u64,
    /// Whether units that are kept apart may be in one set, as on a machine of several hosts.
    mixed: bool,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(problem: &'a Problem, edges: &[Edge], most_nanos: u64, mixed: bool) -> Self {
        let count = problem.units.members.len();
        let mut graph = Self {
            problem,
            partners: vec![Vec::new(); count],
            out_bytes: vec![0; count],
            in_bytes: vec![0; count],
            most_nanos,
            mixed,
        };
        for edge in edges.iter().filter(|edge| edge.bytes > 0) {
            graph.out_bytes[edge.source] += edge.bytes;
            graph.in_bytes[edge.target] += edge.bytes;
            graph.partners[edge.source].push((edge.target, edge.bytes));
            graph.partners[edge.target].push((edge.source, edge.bytes));
        }
        for list in &mut graph.partners {
            list.sort_unstable();
            list.dedup_by(|next, first| {
                let same = next.0 == first.0;
                first.1 += if same { next.1 } else { 0 };
                same
            });
        }
        graph
    }

    /// The connected sets for which `holds` is true. `None` if there are too many for the `work`, or if `over` becomes
    /// true before all are known.
    pub(crate) fn sets(&self, holds: &dyn Fn(&Set) -> bool, work: u64, over: &dyn Fn() -> bool) -> Option<Vec<Set>> {
        let most = (work / WORK_PER_SEEN).clamp(FEWEST_SEEN, MOST_SEEN);
        let mut seen = 0;
        let mut sets = Vec::new();
        let whole = self.each_set(&mut |set| {
            seen += 1;
            if holds(&set) {
                sets.push(set);
            }
            let late = seen % PATIENCE == 0 && over();
            if seen > most || late {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        whole.is_continue().then_some(sets)
    }

    /// Calls `tell` once for each connected set that the largest place holds and whose units may be together.
    fn each_set(&self, tell: &mut dyn FnMut(Set) -> ControlFlow<()>) -> ControlFlow<()> {
        // For each unit, how many units of the set are its partners or the unit itself; 0 if it is neither in the set
        // nor adjacent to it.
        let mut near = vec![0_u32; self.partners.len()];
        for root in 0..self.partners.len() {
            self.grow(root, root, &mut Vec::new(), (0, 0), &mut near, Vec::new(), tell)?;
        }
        ControlFlow::Continue(())
    }

    /// Adds a unit to a set, and then each of those that may follow. `taken` are its nano-cores and inner bytes.
    #[allow(clippy::too_many_arguments, reason = "the state of a recursion")]
    fn grow(
        &self,
        root: usize,
        unit: usize,
        set: &mut Vec<u32>,
        taken: (u64, u64),
        near: &mut [u32],
        mut next: Vec<usize>,
        tell: &mut dyn FnMut(Set) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let units = &self.problem.units;
        let nano_cores = taken.0 + units.cores[unit];
        let apart = |&other: &u32| units.apart[unit].binary_search(&(other as usize)).is_ok();
        let clash = !self.mixed && set.iter().chain([&(unit as u32)]).any(apart);
        if nano_cores > self.most_nanos || clash {
            return ControlFlow::Continue(());
        }
        let inner = self.partners[unit]
            .iter()
            .filter(|(other, _)| set.contains(&(*other as u32)));
        let inner_bytes = taken.1 + inner.map(|&(_, bytes)| bytes).sum::<u64>();
        set.push(unit as u32);
        let sum = |of: &[u64]| set.iter().map(|&unit| of[unit as usize]).sum::<u64>();
        let cut = Set {
            units: set.clone(),
            nano_cores,
            out_bytes: (sum(&self.out_bytes) - inner_bytes) as f64,
            in_bytes: (sum(&self.in_bytes) - inner_bytes) as f64,
        };
        tell(cut)?;
        for &(other, _) in &self.partners[unit] {
            if other > root && near[other] == 0 {
                next.push(other);
            }
        }
        near[unit] += 1;
        self.partners[unit].iter().for_each(|&(other, _)| near[other] += 1);
        while let Some(other) = next.pop() {
            self.grow(root, other, set, (nano_cores, inner_bytes), near, next.clone(), tell)?;
        }
        self.partners[unit].iter().for_each(|&(other, _)| near[other] -= 1);
        near[unit] -= 1;
        set.pop();
        ControlFlow::Continue(())
    }
}
