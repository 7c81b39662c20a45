//! Which algorithm Open MPI's `tuned` component or MPICH takes, by the size of the communicator and of the message.
//!
//! Open MPI's thresholds are those of 4.1.4 for commutative operations (`coll_tuned_decision_fixed.c`); 4.1.0 and 5.0.9 have the same.
//! MPICH's are those of its generic tuning file (`src/mpi/coll/coll_tuning.json` and the thresholds of its CVARs).
//! Open MPI's algorithms are numbered as in its `coll_tuned_*_algorithm` parameters. No rule cuts messages into segments.

use crate::model::Library;
use crate::program::Kind;

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

/// The number of the algorithm that a library takes for a blocking call, as in [`Setting`](crate::Setting); 0 = no setting changes it.
///
/// `bytes` are those of the vector, or of one block.
#[must_use]
pub fn default_algorithm(library: Library, kind: Kind, members: usize, bytes: u64) -> u8 {
    match library {
        Library::OpenMpi => open_mpi_algorithm(kind, members, bytes),
        Library::Mpich => mpich_algorithm(kind, members, bytes),
    }
}

/// The number of the algorithm that Open MPI takes; 0 = it is none that a setting changes.
///
/// `bytes` are those of the vector, or of one block.
fn open_mpi_algorithm(kind: Kind, size: usize, bytes: u64) -> u8 {
    let table = match kind {
        Kind::Barrier => BARRIER,
        Kind::Bcast => BCAST,
        Kind::Reduce => REDUCE,
        Kind::Allreduce => ALLREDUCE,
        Kind::Allgather => ALLGATHER,
        Kind::Alltoall => ALLTOALL,
        _ => return 0,
    };
    algorithm(table, size as u32, bytes)
}

/// The number of the algorithm that MPICH takes, as in `by_mpich_algorithm`; 0 = there is one only.
///
/// `bytes` are those of the vector, or of one block.
pub(super) fn mpich_algorithm(kind: Kind, size: usize, bytes: u64) -> u8 {
    match kind {
        Kind::Bcast if bytes < BCAST_BYTES || size < BCAST_MEMBERS => 1,
        Kind::Bcast if bytes >= BCAST_RING_BYTES || !size.is_power_of_two() => 3,
        Kind::Reduce | Kind::Allreduce => 1 + u8::from(bytes > REDUCE_BYTES),
        Kind::Allgather => {
            let sum = bytes * size as u64;
            if sum < ALLGATHER_RING_BYTES && size.is_power_of_two() {
                2
            } else if sum < ALLGATHER_BRUCK_BYTES {
                1
            } else {
                3
            }
        }
        Kind::Alltoall if bytes <= ALLTOALL_BRUCK_BYTES && size >= BCAST_MEMBERS => 1,
        Kind::Alltoall if bytes <= ALLTOALL_LINEAR_BYTES => 3,
        Kind::Bcast | Kind::Alltoall => 2,
        _ => 0,
    }
}

/// Rules for communicators below a size: for messages below some bytes, the number of an algorithm.
pub(super) type Rules = &'static [(u32, &'static [(u64, u8)])];

const ANY: u32 = u32::MAX;
const MORE: u64 = u64::MAX;

/// The number of the algorithm for a communicator and a message.
pub(super) fn algorithm(rules: Rules, size: u32, bytes: u64) -> u8 {
    let by_bytes = rules.iter().find(|(below, _)| size < *below || *below == ANY);
    by_bytes
        .and_then(|(_, rules)| rules.iter().find(|(below, _)| bytes < *below || *below == MORE))
        .map_or(1, |&(_, algorithm)| algorithm)
}

/// By bytes of the vector: 1 linear, 2 reduce and broadcast, 3 recursive doubling, 4 and 5 ring, 6 Rabenseifner.
pub(super) const ALLREDUCE: Rules = &[
    (
        4,
        &[
            (8, 4),
            (4096, 3),
            (8192, 4),
            (16_384, 3),
            (65_536, 4),
            (262_144, 5),
            (MORE, 6),
        ],
    ),
    (8, &[(16, 4), (8192, 3), (MORE, 6)]),
    (16, &[(8192, 3), (MORE, 6)]),
    (32, &[(64, 5), (4096, 3), (MORE, 6)]),
    (64, &[(128, 5), (MORE, 6)]),
    (128, &[(262_144, 3), (MORE, 6)]),
    (256, &[(131_072, 2), (262_144, 3), (MORE, 6)]),
    (512, &[(4096, 2), (MORE, 6)]),
    (2048, &[(2048, 2), (16_384, 3), (MORE, 6)]),
    (4096, &[(2048, 2), (4096, 5), (16_384, 3), (MORE, 6)]),
    (ANY, &[(2048, 2), (16_384, 5), (32_768, 3), (MORE, 6)]),
];

/// By bytes of a block: 1 and 4 linear, 2 pairwise, 3 Bruck, 5 two ranks.
pub(super) const ALLTOALL: Rules = &[
    (
        3,
        &[
            (2, 2),
            (4, 5),
            (16, 2),
            (64, 5),
            (256, 2),
            (4096, 5),
            (32_768, 2),
            (262_144, 4),
            (1_048_576, 5),
            (MORE, 2),
        ],
    ),
    (
        8,
        &[
            (8192, 4),
            (16_384, 1),
            (65_536, 4),
            (524_288, 1),
            (1_048_576, 2),
            (MORE, 1),
        ],
    ),
    (16, &[(262_144, 4), (MORE, 1)]),
    (
        32,
        &[
            (4, 4),
            (512, 3),
            (8192, 4),
            (32_768, 1),
            (262_144, 4),
            (524_288, 1),
            (MORE, 4),
        ],
    ),
    (64, &[(512, 3), (524_288, 1), (MORE, 4)]),
    (128, &[(1024, 3), (2048, 1), (4096, 4), (262_144, 1), (MORE, 2)]),
    (256, &[(1024, 3), (2048, 4), (262_144, 1), (MORE, 2)]),
    (512, &[(1024, 3), (8192, 4), (32_768, 1), (MORE, 2)]),
    (
        1024,
        &[(512, 3), (8192, 4), (16_384, 1), (131_072, 4), (262_144, 1), (MORE, 2)],
    ),
    (
        2048,
        &[(512, 3), (1024, 4), (2048, 1), (16_384, 4), (262_144, 1), (MORE, 4)],
    ),
    (4096, &[(1024, 3), (4096, 4), (8192, 1), (131_072, 4), (MORE, 1)]),
    (
        ANY,
        &[(2048, 3), (8192, 4), (16_384, 1), (32_768, 4), (65_536, 1), (MORE, 4)],
    ),
];

/// 1 linear, 2 pairwise.
pub(super) const ALLTOALLV: Rules = &[
    (4, &[(MORE, 2)]),
    (64, &[(MORE, 1)]),
    (128, &[(MORE, 2)]),
    (256, &[(MORE, 1)]),
    (1024, &[(MORE, 2)]),
    (ANY, &[(MORE, 1)]),
];

/// 1 linear, 3 recursive doubling, 4 Bruck, 6 tree.
pub(super) const BARRIER: Rules = &[
    (4, &[(MORE, 3)]),
    (8, &[(MORE, 1)]),
    (64, &[(MORE, 3)]),
    (256, &[(MORE, 4)]),
    (512, &[(MORE, 6)]),
    (1024, &[(MORE, 4)]),
    (4096, &[(MORE, 6)]),
    (ANY, &[(MORE, 4)]),
];

/// By bytes of the vector: 1 linear, 2 and 3 chain, 4 split binary tree, 5 binary tree, 6 binomial, 7 4-nomial, 8 scatter and allgather.
pub(super) const BCAST: Rules = &[
    (
        4,
        &[
            (32, 3),
            (256, 5),
            (512, 3),
            (1024, 7),
            (32_768, 1),
            (131_072, 5),
            (262_144, 2),
            (524_288, 1),
            (1_048_576, 6),
            (MORE, 5),
        ],
    ),
    (8, &[(64, 5), (128, 6), (2048, 5), (8192, 6), (1_048_576, 1), (MORE, 2)]),
    (16, &[(8, 7), (64, 5), (4096, 7), (16_384, 5), (32_768, 6), (MORE, 1)]),
    (32, &[(4096, 7), (1_048_576, 6), (MORE, 8)]),
    (64, &[(2048, 6), (MORE, 7)]),
    (128, &[(MORE, 7)]),
    (256, &[(2, 6), (16_384, 5), (32_768, 1), (65_536, 5), (MORE, 7)]),
    (1024, &[(16_384, 7), (32_768, 4), (MORE, 7)]),
    (2048, &[(524_288, 7), (MORE, 8)]),
    (4096, &[(262_144, 7), (MORE, 8)]),
    (ANY, &[(8192, 7), (16_384, 5), (262_144, 7), (MORE, 8)]),
];

/// By bytes of the vector: 1 linear, 2 and 3 chain, 4 binary tree, 5 binomial, 6 in-order binary tree, 7 Rabenseifner.
pub(super) const REDUCE: Rules = &[
    (
        4,
        &[
            (8, 7),
            (16, 4),
            (32, 3),
            (262_144, 1),
            (524_288, 3),
            (1_048_576, 2),
            (MORE, 3),
        ],
    ),
    (
        8,
        &[
            (4096, 4),
            (65_536, 2),
            (262_144, 5),
            (524_288, 1),
            (1_048_576, 5),
            (MORE, 1),
        ],
    ),
    (16, &[(8192, 4), (MORE, 5)]),
    (32, &[(4096, 4), (MORE, 5)]),
    (256, &[(MORE, 5)]),
    (512, &[(8192, 5), (16_384, 6), (MORE, 5)]),
    (2048, &[(MORE, 5)]),
    (4096, &[(512, 5), (1024, 6), (8192, 5), (16_384, 6), (MORE, 5)]),
    (
        ANY,
        &[
            (16, 5),
            (32, 6),
            (1024, 5),
            (2048, 6),
            (8192, 5),
            (16_384, 6),
            (MORE, 5),
        ],
    ),
];

/// By bytes of the whole vector: 1 reduce and scatter, 2 recursive halving, 3 ring, 4 butterfly.
pub(super) const REDUCE_SCATTER: Rules = &[
    (4, &[(65_536, 3), (131_072, 4), (MORE, 3)]),
    (8, &[(8, 1), (262_144, 2), (MORE, 3)]),
    (32, &[(262_144, 2), (MORE, 3)]),
    (64, &[(64, 1), (2048, 2), (524_288, 4), (MORE, 3)]),
    (128, &[(256, 1), (512, 2), (2048, 4), (4096, 2), (MORE, 4)]),
    (256, &[(256, 1), (512, 2), (MORE, 4)]),
    (512, &[(256, 1), (1024, 2), (MORE, 4)]),
    (1024, &[(512, 1), (2048, 2), (8192, 4), (16_384, 2), (MORE, 4)]),
    (2048, &[(512, 1), (4096, 2), (16_384, 4), (32_768, 2), (MORE, 4)]),
    (4096, &[(512, 1), (4096, 2), (MORE, 4)]),
    (ANY, &[(1024, 1), (8192, 2), (MORE, 4)]),
];

/// By bytes of a block: 1 reduce and scatter, 2 recursive doubling, 3 recursive halving, 4 butterfly.
pub(super) const REDUCE_SCATTER_BLOCK: Rules = &[
    (
        4,
        &[
            (4, 2),
            (8, 4),
            (16, 3),
            (128, 4),
            (256, 3),
            (4096, 4),
            (8192, 3),
            (131_072, 4),
            (MORE, 1),
        ],
    ),
    (
        8,
        &[
            (8, 3),
            (32, 2),
            (256, 4),
            (8192, 3),
            (16_384, 4),
            (1_048_576, 3),
            (MORE, 1),
        ],
    ),
    (
        16,
        &[(4, 1), (32, 3), (128, 4), (524_288, 3), (4_194_304, 1), (MORE, 4)],
    ),
    (32, &[(32, 1), (524_288, 3), (2_097_152, 1), (4_194_304, 3), (MORE, 4)]),
    (ANY, &[(4, 3), (16, 1), (65_536, 4), (262_144, 1), (MORE, 4)]),
];

/// By bytes of a block: 2 Bruck, 3 recursive doubling, 4 ring, 5 neighbour exchange, 6 two ranks.
pub(super) const ALLGATHER: Rules = &[
    (3, &[(MORE, 6)]),
    (32, &[(MORE, 3)]),
    (64, &[(1024, 3), (65_536, 5), (MORE, 4)]),
    (128, &[(512, 3), (65_536, 5), (MORE, 4)]),
    (256, &[(512, 3), (131_072, 5), (524_288, 4), (1_048_576, 5), (MORE, 4)]),
    (
        512,
        &[
            (32, 3),
            (128, 2),
            (1024, 3),
            (131_072, 5),
            (524_288, 4),
            (1_048_576, 5),
            (MORE, 4),
        ],
    ),
    (1024, &[(64, 3), (256, 2), (2048, 3), (MORE, 5)]),
    (
        2048,
        &[
            (4, 3),
            (8, 2),
            (16, 3),
            (32, 2),
            (256, 3),
            (512, 2),
            (4096, 3),
            (MORE, 5),
        ],
    ),
    (4096, &[(32, 2), (128, 3), (512, 2), (4096, 3), (MORE, 5)]),
    (ANY, &[(2, 3), (8, 2), (16, 3), (512, 2), (4096, 3), (MORE, 5)]),
];

/// By bytes of a mean block: 1 gather and broadcast, 2 Bruck, 3 ring, 4 neighbour exchange, 5 two ranks.
pub(super) const ALLGATHERV: Rules = &[
    (3, &[(2048, 3), (4096, 5), (8192, 3), (MORE, 5)]),
    (
        8,
        &[(256, 1), (4096, 4), (8192, 3), (16_384, 4), (262_144, 2), (MORE, 4)],
    ),
    (16, &[(1024, 1), (MORE, 2)]),
    (32, &[(128, 1), (262_144, 2), (MORE, 3)]),
    (64, &[(256, 1), (8192, 2), (MORE, 3)]),
    (128, &[(256, 1), (4096, 2), (MORE, 3)]),
    (256, &[(1024, 2), (65_536, 4), (MORE, 3)]),
    (512, &[(1024, 2), (MORE, 3)]),
    (1024, &[(512, 2), (1024, 1), (4096, 2), (1_048_576, 4), (MORE, 3)]),
    (ANY, &[(4096, 2), (MORE, 4)]),
];

/// By bytes of a block: 1 linear, 2 binomial, 3 linear with permits.
pub(super) const GATHER: Rules = &[
    (4, &[(2, 3), (4, 1), (32_768, 2), (65_536, 1), (131_072, 2), (MORE, 3)]),
    (8, &[(1024, 2), (8192, 1), (32_768, 2), (262_144, 1), (MORE, 3)]),
    (256, &[(MORE, 2)]),
    (512, &[(2048, 2), (8192, 1), (MORE, 2)]),
    (ANY, &[(MORE, 2)]),
];

/// By bytes of a block: 1 linear, blocking, 2 binomial, 3 linear.
pub(super) const SCATTER: Rules = &[
    (4, &[(2, 3), (131_072, 1), (262_144, 3), (MORE, 1)]),
    (
        8,
        &[(2048, 2), (4096, 1), (8192, 2), (32_768, 1), (1_048_576, 3), (MORE, 1)],
    ),
    (16, &[(16_384, 2), (1_048_576, 3), (MORE, 1)]),
    (32, &[(16_384, 2), (32_768, 1), (MORE, 3)]),
    (64, &[(512, 2), (8192, 3), (16_384, 2), (MORE, 3)]),
    (ANY, &[(512, 2), (MORE, 3)]),
];
