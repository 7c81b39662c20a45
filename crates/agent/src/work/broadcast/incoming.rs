//! The pieces of blocks that arrive over one connection.

use std::io;

use gavotte_swarm::broadcast::replica::Taken;
use tokio::net::TcpStream;

use crate::error::WorkError;

/// Size of the block number, offset and length before each piece.
pub(super) const HEADER_BYTES: usize = 12;
/// The block of a header without a piece: its offset is the number of connections that the parent asks for.
const ASKS: u32 = u32::MAX;
/// Bytes read from a connection in one call.
const GULP_BYTES: usize = 128 << 10;

/// A parent's request for this many connections, in the place of a piece.
pub(super) fn asking(connections: u32) -> [u8; HEADER_BYTES] {
    let mut words = [0; HEADER_BYTES];
    words[..4].copy_from_slice(&ASKS.to_be_bytes());
    words[4..8].copy_from_slice(&connections.to_be_bytes());
    words
}

/// Splits the bytes of a connection into pieces. The available part of a piece is passed on before the rest arrives.
#[derive(Default)]
pub(super) struct Incoming {
    header: Vec<u8>,
    block: u32,
    offset: u32,
    left: u32,
    buffer: Vec<u8>,
    asked: Option<u32>,
}

impl Incoming {
    /// The number of connections that the parent has asked for since the last call, if any.
    pub(super) fn asked(&mut self) -> Option<u32> {
        self.asked.take()
    }

    /// Reads the bytes that have arrived. Returns the blocks that must be requested again, with the reason.
    pub(super) fn read(
        &mut self,
        stream: &TcpStream,
        mut take: impl FnMut(u32, u32, &[u8]) -> Result<Taken, WorkError>,
    ) -> Result<Vec<(u32, Taken)>, WorkError> {
        self.buffer.resize(GULP_BYTES, 0);
        let count = match stream.try_read(&mut self.buffer) {
            Ok(0) => {
                return Err(WorkError::io("receive")(io::ErrorKind::UnexpectedEof.into()));
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Vec::new()),
            Err(error) => return Err(WorkError::io("receive")(error)),
        };
        let buffer = std::mem::take(&mut self.buffer);
        let again = self.cut(&buffer[..count], &mut take);
        self.buffer = buffer;
        again
    }

    fn cut(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(u32, u32, &[u8]) -> Result<Taken, WorkError>,
    ) -> Result<Vec<(u32, Taken)>, WorkError> {
        let mut again = Vec::new();
        while !bytes.is_empty() {
            if self.left == 0 {
                let some = bytes.len().min(HEADER_BYTES - self.header.len());
                self.header.extend_from_slice(&bytes[..some]);
                bytes = &bytes[some..];
                if self.header.len() == HEADER_BYTES {
                    let number = |at: usize| {
                        let word = [0, 1, 2, 3].map(|byte| self.header[4 * at + byte]);
                        u32::from_be_bytes(word)
                    };
                    (self.block, self.offset, self.left) = (number(0), number(1), number(2));
                    self.header.clear();
                    if (self.block, self.left) == (ASKS, 0) {
                        self.asked = Some(self.offset);
                    }
                }
                continue;
            }
            let some = bytes.len().min(self.left as usize);
            let taken = take(self.block, self.offset, &bytes[..some])?;
            self.offset = self.offset.saturating_add(some as u32);
            self.left -= some as u32;
            bytes = &bytes[some..];
            if taken == Taken::Bad {
                again.push((self.block, taken));
            }
        }
        Ok(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_parent_asks_for_connections_between_pieces() {
        let mut incoming = Incoming::default();
        let piece: Vec<u8> = [1u32, 0, 2]
            .into_iter()
            .flat_map(u32::to_be_bytes)
            .chain([5, 6])
            .collect();
        let wire = [piece.as_slice(), &asking(17), &piece].concat();
        let mut came = Vec::new();
        for byte in wire {
            let mut take = |block, offset, bytes: &[u8]| {
                came.push((block, offset, bytes.to_vec()));
                Ok(Taken::Grew)
            };
            incoming.cut(&[byte], &mut take).unwrap();
        }
        assert_eq!(
            came,
            [(1, 0, vec![5]), (1, 1, vec![6]), (1, 0, vec![5]), (1, 1, vec![6])]
        );
        assert_eq!((incoming.asked(), incoming.asked()), (Some(17), None));
    }

    proptest! {
        #[test]
        fn pieces_are_the_same_however_they_come(
            pieces in prop::collection::vec((0u32..9, 0u32..1000, prop::collection::vec(any::<u8>(), 1..50)), 0..8),
            cuts in prop::collection::vec(1usize..40, 1..30),
        ) {
            let mut wire = Vec::new();
            let mut sent = Vec::new();
            for (block, offset, bytes) in &pieces {
                for number in [*block, *offset, bytes.len() as u32] {
                    wire.extend(number.to_be_bytes());
                }
                wire.extend(bytes);
                sent.extend(bytes.iter().zip(*offset..).map(|(byte, at)| (*block, at, *byte)));
            }
            let (mut incoming, mut came, mut rest) = (Incoming::default(), Vec::new(), wire.as_slice());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at(cut.min(rest.len()));
                rest = later;
                incoming.cut(now, |block, offset, bytes| {
                    came.extend(bytes.iter().zip(offset..).map(|(byte, at)| (block, at, *byte)));
                    Ok(Taken::Grew)
                }).unwrap();
            }
            prop_assert_eq!(came, sent);
        }
    }
}
