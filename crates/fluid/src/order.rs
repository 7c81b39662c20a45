//! Dependencies between flows: a directed graph without cycles.

use gavotte_net::check_index;

use crate::error::FluidError;

/// Dependencies between the flows of a workload.
///
/// A *barrier* lies between two sets of flows. Each flow of one set waits for all flows of the other, without an edge for each pair.
#[derive(Clone, Debug, Default)]
pub struct Order {
    flows: usize,
    /// By node: the index in `after` where its successors begin. Flows come first, then barriers.
    first: Vec<u32>,
    after: Vec<u32>,
    /// By node: the number of nodes that it waits for.
    waits: Vec<u32>,
}

impl Order {
    /// No flow waits for another.
    pub fn none(flows: usize) -> Self {
        Self {
            flows,
            ..Self::default()
        }
    }

    /// For each pair `(a, b)`, flow `b` starts when flow `a` is done, or later. A repeated pair counts once.
    ///
    /// # Errors
    /// [`FluidError::Input`] for a flow that does not exist, [`FluidError::OrderCircle`] if flows wait for each other.
    pub fn edges(flows: usize, pairs: &[(u32, u32)]) -> Result<Self, FluidError> {
        for (number, &(before, after)) in pairs.iter().enumerate() {
            for flow in [before, after] {
                check_index(|| format!("a flow of dependency {number}"), flow as usize, flows)?;
            }
        }
        let order = Self::graph(flows, flows, pairs.to_vec());
        match order.on_circle() {
            Some(flow) => Err(FluidError::OrderCircle(flow)),
            None => Ok(order),
        }
    }

    /// Flows of one phase run together. A phase starts when the previous one is done. Phases run in ascending order.
    pub fn phases(phase: &[u32]) -> Self {
        let flows = phase.len();
        let mut distinct = phase.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let last = distinct.len().saturating_sub(1);
        // Barrier k follows phase k.
        let barrier = |k: usize| (flows + k) as u32;
        let mut pairs = Vec::with_capacity(2 * flows);
        for (flow, phase) in phase.iter().enumerate() {
            let at = distinct.partition_point(|other| other < phase);
            if at > 0 {
                pairs.push((barrier(at - 1), flow as u32));
            }
            if at < last {
                pairs.push((flow as u32, barrier(at)));
            }
        }
        Self::graph(flows, flows + last, pairs)
    }

    fn graph(flows: usize, nodes: usize, mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut waits = vec![0; nodes];
        let mut first = vec![0; nodes + 1];
        for &(before, after) in &pairs {
            waits[after as usize] += 1;
            first[before as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let after = pairs.into_iter().map(|(_, after)| after).collect();
        Self {
            flows,
            first,
            after,
            waits,
        }
    }

    /// The number of flows that it was created for.
    pub(crate) fn flow_count(&self) -> usize {
        self.flows
    }

    /// The number of flows and barriers.
    pub(crate) fn node_count(&self) -> usize {
        self.flows.max(self.waits.len())
    }

    /// For each node, the number of nodes that it waits for; empty if no node waits.
    pub(crate) fn waits(&self) -> &[u32] {
        &self.waits
    }

    /// The nodes that wait for `node`.
    pub(crate) fn after(&self, node: u32) -> &[u32] {
        let Some(range) = self.first.get(node as usize..node as usize + 2) else {
            return &[];
        };
        &self.after[range[0] as usize..range[1] as usize]
    }

    /// A flow that waits for itself.
    fn on_circle(&self) -> Option<usize> {
        let mut waits = self.waits.clone();
        let mut ready: Vec<u32> = (0..waits.len() as u32)
            .filter(|&node| waits[node as usize] == 0)
            .collect();
        while let Some(node) = ready.pop() {
            for &next in self.after(node) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    ready.push(next);
                }
            }
        }
        // The remaining nodes are on a cycle or wait for one; a walk back along the waits ends on one.
        let mut waited_for = vec![0; waits.len()];
        for node in (0..waits.len()).filter(|&node| waits[node] > 0) {
            self.after(node as u32)
                .iter()
                .for_each(|&next| waited_for[next as usize] = node);
        }
        let mut at = waits.iter().position(|&left| left > 0)?;
        for _ in 0..waits.len() {
            at = waited_for[at];
        }
        Some(at)
    }
}
