//! A parent's side of one subscription: what it is to send next.

use std::collections::BTreeMap;

/// Some bytes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The block.
    pub block: u32,
    /// Where they begin in it.
    pub offset: u32,
    /// How many.
    pub length: u32,
}

/// The blocks that a subscriber wants, and how much of each it was sent.
#[derive(Clone, Debug, Default)]
pub struct Serving {
    wants: BTreeMap<u32, u32>,
}

impl Serving {
    /// Takes that the subscriber wants a block from `offset` on, whatever it was sent before.
    pub fn want(&mut self, block: u32, offset: u32) {
        self.wants.insert(block, offset);
    }

    /// Takes that it does not want a block any more.
    pub fn forgo(&mut self, block: u32) {
        self.wants.remove(&block);
    }

    /// How many blocks it still wants.
    pub fn wanted(&self) -> usize {
        self.wants.len()
    }

    /// The lowest block of which something can be sent: bytes that are there and that the subscriber lacks.
    ///
    /// `filled` says how much of a block is there, `length` how long it is. Less than `least` bytes are sent only if
    /// they are a block's last.
    pub fn next(
        &self,
        filled: impl Fn(u32) -> u32,
        length: impl Fn(u32) -> u32,
        least: u32,
        most: u32,
    ) -> Option<Piece> {
        self.wants.iter().find_map(|(&block, &sent)| {
            let there = filled(block);
            let ready = there.saturating_sub(sent);
            let enough = ready > 0 && (ready >= least || there == length(block));
            enough.then(|| Piece {
                block,
                offset: sent,
                length: ready.min(most),
            })
        })
    }

    /// Takes that a piece was sent; a block of which all `length` bytes were is not wanted any more.
    pub fn sent(&mut self, piece: Piece, length: u32) {
        let until = piece.offset + piece.length;
        if until >= length {
            self.wants.remove(&piece.block);
        } else if let Some(sent) = self.wants.get_mut(&piece.block) {
            *sent = until;
        }
    }
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
}
