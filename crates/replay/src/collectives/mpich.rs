//! MPICH: the rules of its generic tuning file (`src/mpi/coll/coll_tuning.json` and the thresholds of its CVARs).

use super::Script;
use super::trees::Tree;
use crate::program::{Collective, Kind};

/// From these many bytes or members on, a broadcast is a scatter and an allgather.
const BCAST_BYTES: u64 = 12_288;
const BCAST_MEMBERS: usize = 8;
/// From these many bytes on, its allgather is a ring.
const BCAST_RING_BYTES: u64 = 524_288;
/// Above these many bytes, reductions halve.
const REDUCE_BYTES: u64 = 2_048;
/// From these many bytes of all blocks on, an allgather is a ring; below, it doubles if it can.
const ALLGATHER_RING_BYTES: u64 = 524_288;
const ALLGATHER_BRUCK_BYTES: u64 = 81_920;
/// Up to these many bytes of a block, an all-to-all of 8 members or more goes by Bruck; up to the second all at once.
const ALLTOALL_BRUCK_BYTES: u64 = 256;
const ALLTOALL_LINEAR_BYTES: u64 = 32_768;
/// From these many bytes of the whole vector on, a reduce-scatter is pairwise.
const REDUCE_SCATTER_BYTES: u64 = 524_288;

impl Script<'_> {
    /// Carries out a call as MPICH does.
    pub(super) fn by_mpich(&mut self, call: &Collective) {
        let (root, bytes) = (call.root as usize, call.bytes);
        match call.kind {
            Kind::Barrier => self.barrier_bruck(),
            Kind::Bcast if bytes < BCAST_BYTES || self.size < BCAST_MEMBERS => self.bcast(Tree::InOrder, root, bytes),
            Kind::Bcast => {
                let ring = bytes >= BCAST_RING_BYTES || !self.size.is_power_of_two();
                self.bcast_scatter(root, bytes, ring);
            }
            Kind::Reduce if bytes <= REDUCE_BYTES => self.reduce(Tree::InOrder, root, bytes),
            Kind::Reduce => self.reduce_halving(root, bytes),
            Kind::Allreduce if bytes <= REDUCE_BYTES => self.allreduce_doubling(bytes),
            Kind::Allreduce => self.allreduce_halving(bytes),
            Kind::ReduceScatter | Kind::ReduceScatterBlock if bytes < REDUCE_SCATTER_BYTES => {
                self.reduce_scatter_halving(bytes);
            }
            Kind::ReduceScatter | Kind::ReduceScatterBlock => self.reduce_scatter_pairwise(bytes),
            Kind::Gather => self.gather_tree(root, bytes),
            Kind::Scatter => self.scatter_tree(root, bytes),
            Kind::Allgather => self.mpich_allgather(bytes, &[]),
            Kind::Allgatherv => self.mpich_allgather(call.counts.iter().sum::<u64>() / self.size as u64, &call.counts),
            Kind::Alltoall if bytes <= ALLTOALL_BRUCK_BYTES && self.size >= BCAST_MEMBERS => self.alltoall_bruck(bytes),
            Kind::Alltoall if bytes <= ALLTOALL_LINEAR_BYTES => self.alltoall_linear(bytes, &[]),
            Kind::Alltoall => self.alltoall_pairwise(bytes, &[]),
            Kind::Alltoallv => self.alltoall_linear(0, &call.counts),
            Kind::Scan | Kind::Exscan | Kind::Scatterv | Kind::Gatherv | Kind::Neighbor => {}
        }
    }

    fn mpich_allgather(&mut self, block: u64, counts: &[u64]) {
        let sum = block * self.size as u64;
        if sum < ALLGATHER_RING_BYTES && self.size.is_power_of_two() {
            self.allgather_doubling(block);
        } else if sum < ALLGATHER_BRUCK_BYTES {
            self.allgather_bruck(block);
        } else if counts.is_empty() {
            self.allgather_ring(block);
        } else {
            self.allgatherv_ring(counts);
        }
    }
}
