//! A parent's side of one subscription: which piece it sends next.

use std::collections::BTreeMap;

/// A range of bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The block.
    pub block: u32,
    /// Position of the first byte in the block.
    pub offset: u32,
    /// Number of bytes.
    pub length: u32,
}

/// The blocks that a subscriber wants, and how many bytes of each the parent has sent.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    wants: BTreeMap<u32, u32>,
    /// Of these blocks, a subscription's only connection has sent some bytes. It sends the others, too, since a block's
    /// pieces must arrive in order.
    begun: BTreeMap<u32, u32>,
}

impl Serving {
    /// Records that the subscriber wants a block from `offset` on, whatever the parent has sent before.
    pub fn want(&mut self, block: u32, offset: u32) {
        self.begun.remove(&block);
        self.wants.insert(block, offset);
    }

    /// Records that the subscriber no longer wants a block.
    pub fn forgo(&mut self, block: u32) {
        self.begun.remove(&block);
        self.wants.remove(&block);
    }

    /// Number of blocks that the subscriber still wants.
    pub fn wanted(&self) -> usize {
        self.wants.len() + self.begun.len()
    }

    /// Number of bytes that the subscriber still wants; `length` returns the size of a block.
    pub fn wanted_bytes(&self, length: impl Fn(u32) -> u32) -> u64 {
        let blocks = self.wants.iter().chain(&self.begun);
        blocks
            .map(|(&block, &sent)| u64::from(length(block).saturating_sub(sent)))
            .sum()
    }

    /// The next piece of the lowest block that can be sent: the parent has some of its bytes that the subscriber lacks.
    ///
    /// `filled` returns how many bytes of a block the parent has, `length` the size of a block. A piece of less than
    /// `least` bytes is sent only at a block's end; no piece has more than `most` bytes.
    pub fn next(
        &self,
        filled: impl Fn(u32) -> u32,
        length: impl Fn(u32) -> u32,
        least: u32,
        most: u32,
    ) -> Option<Piece> {
        let first = |blocks: &BTreeMap<u32, u32>| {
            let mut pieces = blocks.iter();
            pieces.find_map(|(&block, &sent)| piece(block, sent, filled(block), length(block), least, most))
        };
        let pieces = first(&self.wants).into_iter().chain(first(&self.begun));
        pieces.min_by_key(|piece| piece.block)
    }

    /// The same, but only of blocks of which some bytes were sent before.
    pub fn next_begun(
        &self,
        filled: impl Fn(u32) -> u32,
        length: impl Fn(u32) -> u32,
        least: u32,
        most: u32,
    ) -> Option<Piece> {
        let mut begun = self.begun.iter();
        begun.find_map(|(&block, &sent)| piece(block, sent, filled(block), length(block), least, most))
    }

    /// Whether some bytes of a block were sent, and others were not.
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Removes the lowest block that can be sent, for one of several connections: pieces of one block must arrive in
    /// order, so one connection sends all of it. Returns the block and how many of its bytes were sent before.
    pub fn claim(
        &mut self,
        filled: impl Fn(u32) -> u32,
        length: impl Fn(u32) -> u32,
        least: u32,
    ) -> Option<(u32, u32)> {
        let mut wants = self.wants.iter();
        let claimed =
            wants.find_map(|(&block, &sent)| piece(block, sent, filled(block), length(block), least, u32::MAX))?;
        self.wants.remove(&claimed.block);
        Some((claimed.block, claimed.offset))
    }

    /// Records that a piece was sent. A block is no longer wanted once all its `length` bytes were sent.
    pub fn sent(&mut self, piece: Piece, length: u32) {
        let until = piece.offset + piece.length;
        let known = self
            .wants
            .remove(&piece.block)
            .or_else(|| self.begun.remove(&piece.block));
        if known.is_some() && until < length {
            self.begun.insert(piece.block, until);
        }
    }
}

/// The next piece of one block: it has at least `least` bytes unless the block ends with it, and at most `most`. `filled`
/// of the block's `length` bytes are present and `sent` were sent.
pub fn piece(block: u32, sent: u32, filled: u32, length: u32, least: u32, most: u32) -> Option<Piece> {
    let ready = filled.saturating_sub(sent);
    let enough = ready > 0 && (ready >= least || filled == length);
    enough.then(|| Piece {
        block,
        offset: sent,
        length: ready.min(most),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_block_that_has_anything_goes_first() {
        let mut serving = Serving::default();
        (2..5).for_each(|block| serving.want(block, 0));
        let filled = |block| [0, 0, 0, 50, 100][block as usize];
        let next = |serving: &Serving| serving.next(filled, |_| 100, 20, 30);
        assert_eq!(
            next(&serving),
            Some(Piece {
                block: 3,
                offset: 0,
                length: 30
            })
        );
        serving.sent(next(&serving).unwrap(), 100);
        assert_eq!(
            next(&serving),
            Some(Piece {
                block: 3,
                offset: 30,
                length: 20
            })
        );
        serving.sent(next(&serving).unwrap(), 100);
        let mut offsets = Vec::new();
        while let Some(piece) = next(&serving) {
            assert_eq!(piece.block, 4);
            offsets.push(piece.offset);
            serving.sent(piece, 100);
        }
        assert_eq!(offsets, [0, 30, 60, 90]);
        assert_eq!(serving.wanted(), 2);
        serving.want(4, 90);
        assert_eq!(
            next(&serving),
            Some(Piece {
                block: 4,
                offset: 90,
                length: 10
            })
        );
        serving.forgo(4);
        assert_eq!(next(&serving), None);
    }

    #[test]
    fn a_begun_block_is_not_claimed() {
        let mut serving = Serving::default();
        (0..2).for_each(|block| serving.want(block, 0));
        let piece = serving.next(|_| 100, |_| 100, 20, 30).unwrap();
        serving.sent(piece, 100);
        assert_eq!((serving.wanted(), serving.wanted_bytes(|_| 100)), (2, 170));
        assert_eq!(serving.claim(|_| 100, |_| 100, 20), Some((1, 0)));
        assert_eq!(serving.claim(|_| 100, |_| 100, 20), None);
        let next = serving.next_begun(|_| 100, |_| 100, 20, 90).unwrap();
        assert_eq!((next.block, next.offset, next.length), (0, 30, 70));
        assert!(serving.has_begun());
        serving.sent(next, 100);
        assert!(!serving.has_begun() && serving.wanted() == 0);
    }

    #[test]
    fn a_claimed_block_is_no_other_connections() {
        let mut serving = Serving::default();
        (0..4).for_each(|block| serving.want(block, 0));
        serving.want(2, 70);
        let filled = |block| [0, 10, 100, 100][block as usize];
        let mut claim = || serving.claim(filled, |_| 100, 20);
        assert_eq!((claim(), claim(), claim()), (Some((2, 70)), Some((3, 0)), None));
        assert_eq!(serving.wanted(), 2);
    }
}
