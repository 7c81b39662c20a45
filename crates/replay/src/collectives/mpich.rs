//! MPICH: the rules of its generic tuning file (`src/mpi/coll/coll_tuning.json` and the thresholds of its CVARs).

use super::Script;
use super::rules::mpich_algorithm;
use super::trees::Tree;
use crate::program::{Collective, Kind};

/// From these many bytes of the whole vector on, a reduce-scatter is pairwise.
const REDUCE_SCATTER_BYTES: u64 = 524_288;

impl Script<'_> {
    /// Carries out a call as MPICH does.
    pub(super) fn by_mpich(&mut self, call: &Collective) {
        let (root, bytes) = (call.root as usize, call.bytes);
        // A setting of MPICH counts for all sizes.
        if let Some(chosen) = self.chosen(call.kind, bytes)
            && self.by_mpich_algorithm(call, chosen.algorithm)
        {
            return;
        }
        if self.by_mpich_algorithm(call, mpich_algorithm(call.kind, self.size, bytes)) {
            return;
        }
        match call.kind {
            Kind::Barrier => self.barrier_bruck(),
            Kind::ReduceScatter | Kind::ReduceScatterBlock if bytes < REDUCE_SCATTER_BYTES => {
                self.reduce_scatter_halving(bytes);
            }
            Kind::ReduceScatter | Kind::ReduceScatterBlock => self.reduce_scatter_pairwise(bytes),
            Kind::Gather => self.gather_tree(root, bytes),
            Kind::Scatter => self.scatter_tree(root, bytes),
            Kind::Allgatherv => self.mpich_allgatherv(call.counts.iter().sum::<u64>() / self.size as u64, &call.counts),
            Kind::Alltoallv => self.alltoall_linear(0, &call.counts),
            _ => {}
        }
    }

    /// Carries out a call by an algorithm that a variable of MPICH may set; false = there is no such algorithm.
    ///
    /// - bcast: 1 binomial, 2 scatter and recursive doubling, 3 scatter and ring.
    /// - reduce: 1 binomial, 2 halving.
    /// - allreduce: 1 recursive doubling, 2 halving, 3 ring.
    /// - allgather: 1 Bruck, 2 recursive doubling, 3 ring.
    /// - alltoall: 1 Bruck, 2 pairwise, 3 all at once.
    fn by_mpich_algorithm(&mut self, call: &Collective, algorithm: u8) -> bool {
        let (root, bytes) = (call.root as usize, call.bytes);
        match (call.kind, algorithm) {
            (Kind::Bcast, 1) => self.bcast(Tree::InOrder, root, bytes, 0),
            (Kind::Bcast, 2) if self.size.is_power_of_two() => self.bcast_scatter(root, bytes, false),
            (Kind::Bcast, 3) => self.bcast_scatter(root, bytes, true),
            (Kind::Reduce, 1) => self.reduce(Tree::InOrder, root, bytes, 0),
            (Kind::Reduce, 2) => self.reduce_halving(root, bytes),
            (Kind::Allreduce, 1) => self.allreduce_doubling(bytes),
            (Kind::Allreduce, 2) => self.allreduce_halving(bytes),
            (Kind::Allreduce, 3) => self.allreduce_ring(bytes),
            (Kind::Allgather, 1) => self.allgather_bruck(bytes),
            (Kind::Allgather, 2) if self.size.is_power_of_two() => self.allgather_doubling(bytes),
            (Kind::Allgather, 3) => self.allgather_ring(bytes),
            (Kind::Alltoall, 1) => self.alltoall_bruck(bytes),
            (Kind::Alltoall, 2) => self.alltoall_pairwise(bytes, &[]),
            (Kind::Alltoall, 3) => self.alltoall_linear(bytes, &[]),
            _ => return false,
        }
        true
    }

    fn mpich_allgatherv(&mut self, block: u64, counts: &[u64]) {
        match mpich_algorithm(Kind::Allgather, self.size, block) {
            1 => self.allgather_bruck(block),
            2 => self.allgather_doubling(block),
            _ => self.allgatherv_ring(counts),
        }
    }
}
