//! Algorithms of collectives that the user of an MPI library has set, in place of the library's own choice.

use crate::program::Kind;

/// One setting: from a number of bytes on, an operation goes by this algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The operation.
    pub kind: Kind,
    /// Number of members of the communicators that it is for; 0 = all communicators.
    pub members: u32,
    /// Least bytes: of the vector, or of all blocks of an allgather or all-to-all.
    pub from_bytes: u64,
    /// Number of the algorithm; 0 = the library's own choice. Open MPI's are those of `coll_tuned_*_algorithm`, MPICH's are
    /// listed at `by_mpich_algorithm`.
    pub algorithm: u8,
    /// Size of the pieces that trees pass on; 0 = whole messages.
    pub segment_bytes: u64,
}

/// An algorithm and the size of its pieces, as in a [`Setting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) algorithm: u8,
    pub(crate) segment_bytes: u64,
}

/// Returns what is set for a call; `None` = the library chooses.
pub(crate) fn chosen(settings: &[Setting], kind: Kind, members: usize, bytes: u64) -> Option<Chosen> {
    settings
        .iter()
        .filter(|each| each.kind == kind && (each.members == 0 || each.members as usize == members))
        .filter(|each| each.from_bytes <= bytes)
        .max_by_key(|each| each.from_bytes)
        .filter(|each| each.algorithm > 0)
        .map(|each| Chosen {
            algorithm: each.algorithm,
            segment_bytes: each.segment_bytes,
        })
}

#[cfg(test)]
mod tests {
    use super::{Kind, Setting, chosen};

    #[test]
    fn the_largest_size_that_is_reached_decides() {
        let setting = |members, from_bytes, algorithm| Setting {
            kind: Kind::Bcast,
            members,
            from_bytes,
            algorithm,
            segment_bytes: 0,
        };
        let settings = [setting(8, 0, 0), setting(8, 1000, 3), setting(8, 5000, 0)];
        let number = |members, bytes| chosen(&settings, Kind::Bcast, members, bytes).map(|each| each.algorithm);
        assert_eq!(number(8, 999), None);
        assert_eq!(number(8, 1000), Some(3));
        assert_eq!(number(8, 5000), None);
        assert_eq!(number(4, 1000), None);
        assert_eq!(chosen(&settings, Kind::Reduce, 8, 1000), None);
    }
}
