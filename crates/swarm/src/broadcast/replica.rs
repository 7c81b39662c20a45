//! The part of an object that one node has.

use std::collections::BTreeMap;

use super::blocks::Blocks;
use super::layout::Layout;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// The result of adding a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The piece does not continue its block: the node has these bytes already, or bytes before them are missing.
    Ignored,
    /// The piece was added to its block.
    Grew,
    /// The piece completed the block, and the hash matches.
    Whole,
    /// The piece completed the block, but the hash does not match: the whole block is discarded.
    Bad,
}

/// The blocks that a node has, and the blocks that it is receiving, each from its beginning.
#[derive(Clone, Debug)]
pub struct Replica {
    layout: Layout,
    hashes: Vec<Hash>,
    have: Blocks,
    growing: BTreeMap<u32, Growing>,
    whole_bytes: u64,
}

#[derive(Clone, Debug)]
struct Growing {
    filled: u32,
    hasher: blake3::Hasher,
}

impl Replica {
    /// The replica of a node that has no block yet; `None` unless there is one hash per block.
    pub fn new(layout: Layout, hashes: Vec<Hash>) -> Option<Self> {
        let have = Blocks::none(layout.count());
        (hashes.len() == layout.count() as usize).then_some(Self {
            layout,
            hashes,
            have,
            growing: BTreeMap::new(),
            whole_bytes: 0,
        })
    }

    /// How the object is cut into blocks.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The blocks that are complete and match their hash.
    pub fn have(&self) -> &Blocks {
        &self.have
    }

    /// Bytes of complete blocks.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Bytes that the node has, including those of incomplete blocks.
    pub fn bytes(&self) -> u64 {
        self.whole_bytes + self.growing.values().map(|block| u64::from(block.filled)).sum::<u64>()
    }

    /// Whether the node has the whole object.
    pub fn is_whole(&self) -> bool {
        self.have.is_full()
    }

    /// Number of bytes of a block that the node has, from the block's beginning.
    pub fn filled(&self, block: u32) -> u32 {
        if self.have.contains(block) {
            return self.layout.length(block);
        }
        self.growing.get(&block).map_or(0, |growing| growing.filled)
    }

    /// Adds a whole block that the node already had, if it matches its hash. Returns whether it does.
    pub fn offer(&mut self, block: u32, bytes: &[u8]) -> bool {
        let right = block < self.layout.count()
            && bytes.len() == self.layout.length(block) as usize
            && *blake3::hash(bytes).as_bytes() == self.hashes[block as usize];
        if right {
            self.keep(block);
        }
        right
    }

    /// Counts all blocks as complete: the node owns the object.
    pub fn own(&mut self) {
        self.have = Blocks::all(self.layout.count());
        self.whole_bytes = self.layout.bytes();
        self.growing.clear();
    }

    /// Whether a piece continues its block.
    pub fn is_next(&self, block: u32, offset: u32, length: u32) -> bool {
        let whole = self.layout.length(block);
        length > 0 && !self.have.contains(block) && offset == self.filled(block) && length <= whole - offset.min(whole)
    }

    /// Adds a piece of a block. The caller must have stored its bytes already.
    pub fn take(&mut self, block: u32, offset: u32, bytes: &[u8]) -> Taken {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if !self.is_next(block, offset, length) {
            return Taken::Ignored;
        }
        let growing = self.growing.entry(block).or_insert_with(|| Growing {
            filled: 0,
            hasher: blake3::Hasher::new(),
        });
        growing.hasher.update(bytes);
        growing.filled += length;
        if growing.filled < self.layout.length(block) {
            return Taken::Grew;
        }
        let right = *growing.hasher.finalize().as_bytes() == self.hashes[block as usize];
        self.growing.remove(&block);
        if right {
            self.keep(block);
            Taken::Whole
        } else {
            Taken::Bad
        }
    }

    fn keep(&mut self, block: u32) {
        if !self.have.contains(block) {
            self.have.insert(block);
            self.whole_bytes += u64::from(self.layout.length(block));
        }
        self.growing.remove(&block);
    }
}

/// The hash of a whole object: the hash of its blocks' hashes.
pub fn checksum(hashes: &[Hash]) -> Hash {
    *blake3::hash(hashes.as_flattened()).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(object: &[u8], block_bytes: u32) -> Replica {
        let hashes = object
            .chunks(block_bytes as usize)
            .map(|block| *blake3::hash(block).as_bytes());
        Replica::new(Layout::new(object.len() as u64, block_bytes).unwrap(), hashes.collect()).unwrap()
    }

    #[test]
    fn a_block_grows_piece_by_piece_until_it_is_whole() {
        let object: Vec<u8> = (0..10).collect();
        let mut node = replica(&object, 4);
        assert_eq!(node.take(1, 0, &object[4..6]), Taken::Grew);
        assert_eq!(node.take(1, 1, &object[5..6]), Taken::Ignored);
        assert_eq!(node.take(1, 3, &object[7..8]), Taken::Ignored);
        assert_eq!((node.filled(1), node.bytes(), node.whole_bytes()), (2, 2, 0));
        assert_eq!(node.take(1, 2, &object[6..9]), Taken::Ignored);
        assert_eq!(node.take(1, 2, &object[6..8]), Taken::Whole);
        assert_eq!(node.take(1, 0, &object[4..8]), Taken::Ignored);
        assert_eq!(node.take(2, 0, &object[8..]), Taken::Whole);
        assert_eq!(node.take(7, 0, &[1]), Taken::Ignored);
        assert!(node.offer(0, &object[..4]) && node.is_whole());
        assert_eq!(node.bytes(), 10);
    }

    #[test]
    fn a_wrong_block_is_thrown_away() {
        let object = [7; 8];
        let mut node = replica(&object, 4);
        assert_eq!(node.take(0, 0, &[7, 7]), Taken::Grew);
        assert_eq!(node.take(0, 2, &[7, 8]), Taken::Bad);
        assert_eq!(node.filled(0), 0);
        assert!(!node.offer(0, &[7, 7, 8, 7]) && !node.offer(9, &[]));
        assert_eq!(node.take(0, 0, &object[..4]), Taken::Whole);
    }
}
