//! The layout of an object: how it is cut into blocks.

/// Largest block size.
pub const MAX_BLOCK_BYTES: u32 = 4 << 20;
/// Smallest block size, except for an object that is smaller.
pub const MIN_BLOCK_BYTES: u32 = 16 << 10;
/// Block size between hosts that are far from each other, in bytes. A new connection sends ten packets before the first
/// acknowledgement: one block with its header, at an MTU of 1500.
pub const FAR_BLOCK_BYTES: u32 = 14 << 10;
/// Largest number of blocks of an object; their hashes go to each agent in one message.
pub const MAX_BLOCKS: u64 = 100_000;
/// Number of blocks that an object is cut into, if the limits of their size allow. Each host of a mesh passes on whole
/// blocks. With only 8 blocks per host, one extra block would make a host an eighth slower than its share.
const WANTED_BLOCKS: u64 = 1024;

/// The blocks of an object. All have the same size except the last, which may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    bytes: u64,
    block_bytes: u32,
}

impl Layout {
    /// Cuts an object of `bytes` bytes; `None` if a block would be empty or there would be too many.
    pub fn new(bytes: u64, block_bytes: u32) -> Option<Self> {
        let layout = Self { bytes, block_bytes };
        let fine = block_bytes > 0 && bytes.div_ceil(u64::from(block_bytes)) <= MAX_BLOCKS;
        fine.then_some(layout)
    }

    /// A block size that suits an object of this size, and is at most `most_bytes` if [`MAX_BLOCKS`] such blocks are
    /// enough.
    pub fn block_bytes_up_to(bytes: u64, most_bytes: u32) -> u32 {
        let least = u32::try_from(bytes.div_ceil(MAX_BLOCKS)).unwrap_or(u32::MAX);
        Self::block_bytes_for(bytes).min(most_bytes.max(least))
    }

    /// A block size that suits an object of this size.
    pub fn block_bytes_for(bytes: u64) -> u32 {
        let wanted = (bytes / WANTED_BLOCKS).next_power_of_two();
        let least = bytes.div_ceil(MAX_BLOCKS).next_power_of_two();
        let most = u64::from(MAX_BLOCK_BYTES).max(least);
        wanted.clamp(u64::from(MIN_BLOCK_BYTES), most).min(1 << 31) as u32
    }

    /// Size of the object in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Size of each block except the last, in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Number of blocks.
    pub fn count(&self) -> u32 {
        self.bytes.div_ceil(u64::from(self.block_bytes)) as u32
    }

    /// Position of a block in the object, in bytes.
    pub fn offset(&self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.block_bytes)
    }

    /// Size of a block in bytes; 0 beyond the object.
    pub fn length(&self, block: u32) -> u32 {
        let left = self.bytes.saturating_sub(self.offset(block));
        left.min(u64::from(self.block_bytes)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_cover_the_object(bytes in 0u64..1 << 45) {
            let layout = Layout::new(bytes, Layout::block_bytes_for(bytes)).unwrap();
            let count = layout.count();
            if count > 0 {
                prop_assert_eq!(layout.offset(count - 1) + u64::from(layout.length(count - 1)), bytes);
                prop_assert!(layout.length(count - 1) > 0);
            }
            prop_assert_eq!(layout.length(count), 0);
        }
    }

    #[test]
    fn a_limit_of_the_block_size_yields_to_that_of_their_number() {
        assert_eq!(Layout::block_bytes_up_to(6_000_000, FAR_BLOCK_BYTES), FAR_BLOCK_BYTES);
        assert_eq!(Layout::block_bytes_up_to(6_000_000, 1 << 20), MIN_BLOCK_BYTES);
        let large = Layout::block_bytes_up_to(1 << 40, FAR_BLOCK_BYTES);
        assert!(Layout::new(1 << 40, large).is_some() && large > FAR_BLOCK_BYTES);
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(Layout::new(1, 0), None);
        assert_eq!(Layout::new(u64::MAX, 1), None);
        assert_eq!(Layout::new(0, 1).unwrap().count(), 0);
    }
}
