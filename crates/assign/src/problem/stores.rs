//! Memory and storage, which tasks need in addition to cores (Choreo, section 2.2).

/// Memory or storage of a host for which no limit is known.
pub const UNLIMITED_BYTES: u64 = u64::MAX;

/// Bytes of memory and of storage that a task needs, or that a host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stores {
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of storage.
    pub storage_bytes: u64,
}

impl Stores {
    /// The stores of a host without known limits.
    pub const UNLIMITED: Self = Self {
        memory_bytes: UNLIMITED_BYTES,
        storage_bytes: UNLIMITED_BYTES,
    };

    /// Whether these bytes fit into the free ones.
    pub(crate) fn within(self, free: Self) -> bool {
        self.memory_bytes <= free.memory_bytes && self.storage_bytes <= free.storage_bytes
    }

    /// The sum of both needs, but always less than unlimited.
    pub(crate) fn plus(self, other: Self) -> Self {
        let both = |one: u64, other: u64| one.saturating_add(other).min(UNLIMITED_BYTES - 1);
        Self {
            memory_bytes: both(self.memory_bytes, other.memory_bytes),
            storage_bytes: both(self.storage_bytes, other.storage_bytes),
        }
    }

    /// The bytes left after a need that fits is subtracted.
    pub(crate) fn less(self, need: Self) -> Self {
        let left = |free: u64, need: u64| if free == UNLIMITED_BYTES { free } else { free - need };
        Self {
            memory_bytes: left(self.memory_bytes, need.memory_bytes),
            storage_bytes: left(self.storage_bytes, need.storage_bytes),
        }
    }

    /// The bytes left after a need is returned.
    pub(crate) fn more(self, need: Self) -> Self {
        let left = |free: u64, need: u64| if free == UNLIMITED_BYTES { free } else { free + need };
        Self {
            memory_bytes: left(self.memory_bytes, need.memory_bytes),
            storage_bytes: left(self.storage_bytes, need.storage_bytes),
        }
    }
}
