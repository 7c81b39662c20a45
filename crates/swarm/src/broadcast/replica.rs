//! What one node has of an object.

use std::collections::BTreeMap;

use super::blocks::Blocks;
use super::layout::Layout;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is not what comes next of its block: had already, or out of place.
    Ignored,
    /// The block has grown by it.
    Grew,
    /// With it the block is whole and right.
    Whole,
    /// With it the block is whole and wrong: all of it is thrown away.
    Bad,
}

/// The blocks that a node has, and those that it is just receiving, each from its beginning on.
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
    /// What a node has that has nothing yet; `None` unless there is one hash a block.
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

    /// How the object is cut.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The blocks that are whole and right.
    pub fn have(&self) -> &Blocks {
        &self.have
    }

    /// Bytes of blocks that are whole.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Bytes that are there, those of blocks that grow included.
    pub fn bytes(&self) -> u64 {
        self.whole_bytes + self.growing.values().map(|block| u64::from(block.filled)).sum::<u64>()
    }

    /// Whether the node has it all.
    pub fn is_whole(&self) -> bool {
        self.have.is_full()
    }

    /// How many bytes of a block are there, from its beginning on.
    pub fn filled(&self, block: u32) -> u32 {
        if self.have.contains(block) {
            return self.layout.length(block);
        }
        self.growing.get(&block).map_or(0, |growing| growing.filled)
    }

    /// Takes a block that is there already, if it is right.
    pub fn offer(&mut self, block: u32, bytes: &[u8]) -> bool {
        let right = block < self.layout.count()
            && bytes.len() == self.layout.length(block) as usize
            && *blake3::hash(bytes).as_bytes() == self.hashes[block as usize];
        if right {
            self.keep(block);
        }
        right
    }

    /// Takes all blocks as whole and right: the object is the node's own.
    pub fn own(&mut self) {
        self.have = Blocks::all(self.layout.count());
        self.whole_bytes = self.layout.bytes();
        self.growing.clear();
    }

    /// Whether a piece is what comes next of its block.
    pub fn is_next(&self, block: u32, offset: u32, length: u32) -> bool {
        let whole = self.layout.length(block);
        length > 0 && !self.have.contains(block) && offset == self.filled(block) && length <= whole - offset.min(whole)
    }

    /// Takes a piece of a block, which must already be where it is kept.
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

/// The hash of a whole object: that of its blocks' hashes.
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
