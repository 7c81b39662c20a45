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
}

impl Serving {
    /// Records that the subscriber wants a block from `offset` on, whatever the parent has sent before.
    pub fn want(&mut self, block: u32, offset: u32) {
        self.wants.insert(block, offset);
    }

    /// Records that the subscriber no longer wants a block.
    pub fn forgo(&mut self, block: u32) {
        self.wants.remove(&block);
    }

    /// Number of blocks that the subscriber still wants.
    pub fn wanted(&self) -> usize {
        self.wants.len()
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
        self.wants
            .iter()
            .find_map(|(&block, &sent)| piece(block, sent, filled(block), length(block), least, most))
    }

    /// Removes the lowest block that can be sent, for one of several connections: pieces of one block must arrive in
    /// order, so one connection sends all of it. Returns the block and how many of its bytes were sent before.
    pub fn claim(
        &mut self,
        filled: impl Fn(u32) -> u32,
        length: impl Fn(u32) -> u32,
        least: u32,
    ) -> Option<(u32, u32)> {
        let claimed = self.next(filled, length, least, u32::MAX)?;
        self.wants.remove(&claimed.block);
        Some((claimed.block, claimed.offset))
    }

    /// Records that a piece was sent. A block is no longer wanted once all its `length` bytes were sent.
    pub fn sent(&mut self, piece: Piece, length: u32) {
        let until = piece.offset + piece.length;
        if until >= length {
            self.wants.remove(&piece.block);
        } else if let Some(sent) = self.wants.get_mut(&piece.block) {
            *sent = until;
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
