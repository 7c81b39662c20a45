//! Sets of blocks.

use std::ops::Range;

/// A subset of the first `count` blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blocks {
    words: Vec<u64>,
    count: u32,
}

impl Blocks {
    /// The empty set of `count` blocks.
    pub fn none(count: u32) -> Self {
        let words = vec![0; (count as usize).div_ceil(64)];
        Self { words, count }
    }

    /// The full set of `count` blocks.
    pub fn all(count: u32) -> Self {
        let mut blocks = Self::none(count);
        blocks.words.fill(u64::MAX);
        blocks.trim();
        blocks
    }

    /// The set that [`Blocks::to_bytes`] encoded. Bits that are missing count as 0; bits beyond `count` are ignored.
    pub fn from_bytes(count: u32, bytes: &[u8]) -> Self {
        let mut blocks = Self::none(count);
        for (word, bytes) in blocks.words.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        blocks.trim();
        blocks
    }

    /// The set as one bit per block, lowest first.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate((self.count as usize).div_ceil(8));
        bytes
    }

    fn trim(&mut self) {
        let rest = self.count % 64;
        if let (Some(last), true) = (self.words.last_mut(), rest > 0) {
            *last &= (1 << rest) - 1;
        }
    }

    /// Number of blocks of the object.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of blocks in the set.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether the set has no block.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether the set has all blocks of the object.
    pub fn is_full(&self) -> bool {
        self.len() == self.count
    }

    /// Whether the set has this block.
    pub fn contains(&self, block: u32) -> bool {
        let word = self.words.get(block as usize / 64);
        block < self.count && word.is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Adds a block; ignores blocks beyond the object.
    pub fn insert(&mut self, block: u32) {
        if block < self.count {
            self.words[block as usize / 64] |= 1 << (block % 64);
        }
    }

    /// Removes a block.
    pub fn remove(&mut self, block: u32) {
        if block < self.count {
            self.words[block as usize / 64] &= !(1 << (block % 64));
        }
    }

    /// Adds all blocks of another set.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.words.iter_mut().zip(&other.words) {
            *own |= other;
        }
    }

    /// The blocks of this set that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for (own, other) in left.words.iter_mut().zip(&other.words) {
            *own &= !other;
        }
        left
    }

    /// The blocks that are both in this set and in `other`.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (own, other) in both.words.iter_mut().zip(&other.words) {
            *own &= other;
        }
        both
    }

    /// The blocks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let bits = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            bits.take_while(|word| *word != 0)
                .map(move |word| at as u32 * 64 + word.trailing_zeros())
        })
    }

    /// Runs of consecutive blocks, ascending.
    pub fn ranges(&self) -> Vec<Range<u32>> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for block in self.iter() {
            match ranges.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => ranges.push(block..block + 1),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_is_a_set(
            count in 0u32..300,
            one in prop::collection::btree_set(0u32..320, 0..40),
            two in prop::collection::btree_set(0u32..320, 0..40),
        ) {
            let make = |from: &BTreeSet<u32>| {
                let mut blocks = Blocks::none(count);
                for &block in from {
                    blocks.insert(block);
                }
                blocks
            };
            let (a, b) = (make(&one), make(&two));
            let kept = |set: &BTreeSet<u32>| set.iter().copied().filter(|&block| block < count).collect::<BTreeSet<_>>();
            let (one, two) = (kept(&one), kept(&two));
            prop_assert_eq!(a.iter().collect::<BTreeSet<_>>(), one.clone());
            prop_assert_eq!(a.len() as usize, one.len());
            prop_assert_eq!(&Blocks::from_bytes(count, &a.to_bytes()), &a);
            prop_assert_eq!(a.without(&b).iter().collect::<BTreeSet<_>>(), &one - &two);
            prop_assert_eq!(a.within(&b).iter().collect::<BTreeSet<_>>(), &one & &two);
            prop_assert_eq!(a.ranges().into_iter().flatten().collect::<BTreeSet<_>>(), one.clone());
            prop_assert_eq!(Blocks::all(count).without(&a).len(), count - a.len());
            prop_assert!((0..320).all(|block| a.contains(block) == one.contains(&block)));
        }

        #[test]
        fn any_bytes_are_a_set(count in 0u32..300, bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(Blocks::from_bytes(count, &bytes).iter().all(|block| block < count));
        }
    }
}
