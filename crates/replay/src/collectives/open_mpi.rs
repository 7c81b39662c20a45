//! Open MPI: `coll/tuned` takes an algorithm for each call.

use super::Script;
use super::rules::{self, algorithm};
use super::trees::Tree;
use crate::program::{Collective, Kind};
use crate::settings::Chosen;

impl Script<'_> {
    /// Carries out a call as Open MPI does.
    pub(super) fn by_open_mpi(&mut self, call: &Collective) {
        let (root, bytes) = (call.root as usize, call.bytes);
        match call.kind {
            Kind::Barrier => self.open_mpi_barrier(),
            Kind::Bcast => self.open_mpi_bcast(root, bytes),
            Kind::Reduce => self.open_mpi_reduce(root, bytes),
            Kind::Allreduce => self.open_mpi_allreduce(bytes),
            Kind::ReduceScatter | Kind::ReduceScatterBlock => self.open_mpi_reduce_scatter(call),
            Kind::Gather => match self.number(rules::GATHER, bytes) {
                2 => self.gather_tree(root, bytes),
                3 => self.gather_permitted(root, bytes),
                _ => self.gather_linear(root, bytes),
            },
            Kind::Scatter => match self.number(rules::SCATTER, bytes) {
                2 => self.scatter_tree(root, bytes),
                3 => self.scatter_at_once(root, bytes),
                _ => self.scatter_linear(root, &[], bytes),
            },
            Kind::Allgather => match self
                .choice(call.kind, bytes * self.size as u64, rules::ALLGATHER, bytes)
                .algorithm
            {
                2 => self.allgather_bruck(bytes),
                3 => self.allgather_doubling(bytes),
                4 => self.allgather_ring(bytes),
                5 => self.allgather_neighbour(bytes),
                _ => self.exchange(self.after(1), bytes, self.before(1)),
            },
            Kind::Allgatherv => self.open_mpi_allgatherv(call),
            Kind::Alltoall => match self
                .choice(call.kind, bytes * self.size as u64, rules::ALLTOALL, bytes)
                .algorithm
            {
                2 | 5 => self.alltoall_pairwise(bytes, &[]),
                3 => self.alltoall_bruck(bytes),
                _ => self.alltoall_linear(bytes, &[]),
            },
            Kind::Alltoallv => match self.number(rules::ALLTOALLV, 0) {
                2 => self.alltoall_pairwise(0, &call.counts),
                _ => self.alltoall_linear(0, &call.counts),
            },
            Kind::Scan | Kind::Exscan | Kind::Scatterv | Kind::Gatherv | Kind::Neighbor => {}
        }
    }

    fn number(&self, rules: rules::Rules, bytes: u64) -> u8 {
        algorithm(rules, self.size as u32, bytes)
    }

    /// The algorithm that is set, else the one of the rules.
    fn choice(&self, kind: Kind, set_bytes: u64, rules: rules::Rules, bytes: u64) -> Chosen {
        self.chosen(kind, set_bytes).unwrap_or_else(|| Chosen {
            algorithm: self.number(rules, bytes),
            segment_bytes: 0,
        })
    }

    fn open_mpi_barrier(&mut self) {
        match self.choice(Kind::Barrier, 0, rules::BARRIER, 0).algorithm {
            1 => {
                self.gather_linear(0, 0);
                self.bcast_linear(0, 0);
            }
            4 => self.barrier_bruck(),
            6 => {
                self.gather_tree(0, 0);
                self.bcast(Tree::InOrder, 0, 0, 0);
            }
            _ => self.barrier_doubling(),
        }
    }

    fn open_mpi_bcast(&mut self, root: usize, bytes: u64) {
        let chosen = self.choice(Kind::Bcast, bytes, rules::BCAST, bytes);
        let segment_bytes = chosen.segment_bytes;
        match chosen.algorithm {
            2 | 3 => self.bcast(Tree::Chain, root, bytes, segment_bytes),
            4 => self.bcast_split(root, bytes, segment_bytes),
            5 => self.bcast(Tree::Binary, root, bytes, segment_bytes),
            6 => self.bcast(Tree::Binomial, root, bytes, segment_bytes),
            7 => self.bcast(Tree::FourNomial, root, bytes, segment_bytes),
            8 => self.bcast_scatter(root, bytes, false),
            9 => self.bcast_scatter(root, bytes, true),
            _ => self.bcast_linear(root, bytes),
        }
    }

    fn open_mpi_reduce(&mut self, root: usize, bytes: u64) {
        let chosen = self.choice(Kind::Reduce, bytes, rules::REDUCE, bytes);
        let segment_bytes = chosen.segment_bytes;
        match chosen.algorithm {
            2 | 3 => self.reduce(Tree::Chain, root, bytes, segment_bytes),
            4 | 6 => self.reduce(Tree::Binary, root, bytes, segment_bytes),
            5 => self.reduce(Tree::InOrder, root, bytes, segment_bytes),
            7 => self.reduce_halving(root, bytes),
            _ => self.reduce_linear(root, bytes),
        }
    }

    fn open_mpi_allreduce(&mut self, bytes: u64) {
        match self.choice(Kind::Allreduce, bytes, rules::ALLREDUCE, bytes).algorithm {
            2 => {
                self.open_mpi_reduce(0, bytes);
                self.open_mpi_bcast(0, bytes);
            }
            // A ring needs an element for each member; elements of 8 bytes are assumed.
            4 | 5 if bytes >= 8 * self.size as u64 => self.allreduce_ring(bytes),
            6 => self.allreduce_halving(bytes),
            _ => self.allreduce_doubling(bytes),
        }
    }

    fn open_mpi_reduce_scatter(&mut self, call: &Collective) {
        let bytes = call.bytes;
        let number = if call.kind == Kind::ReduceScatter {
            self.number(rules::REDUCE_SCATTER, bytes)
        } else {
            self.number(rules::REDUCE_SCATTER_BLOCK, bytes / self.size as u64)
        };
        match (call.kind, number) {
            (_, 1) => {
                self.open_mpi_reduce(0, bytes);
                self.scatter_linear(0, &call.counts, bytes / self.size as u64);
            }
            (Kind::ReduceScatter, 3) => self.reduce_scatter_ring(bytes),
            _ => self.reduce_scatter_halving(bytes),
        }
    }

    fn open_mpi_allgatherv(&mut self, call: &Collective) {
        let sum: u64 = call.counts.iter().sum();
        let mean = sum / self.size as u64;
        match self.number(rules::ALLGATHERV, mean) {
            1 => {
                self.gather_linear(0, call.bytes);
                self.open_mpi_bcast(0, sum);
            }
            2 => self.allgather_bruck(mean),
            4 => self.allgather_neighbour(mean),
            _ => self.allgatherv_ring(&call.counts),
        }
    }
}
