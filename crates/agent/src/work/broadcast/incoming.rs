//! The pieces of blocks that arrive over one connection.

use std::io;

use gavotte_swarm::broadcast::replica::Taken;
use tokio::net::TcpStream;

use crate::error::{RecordError, WorkError};
use crate::plane::records::Opener;

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
    opener: Option<Opener>,
}

impl Incoming {
    /// Reads pieces from the records of `opener`, or as they are without one.
    pub(super) fn new(opener: Option<Opener>) -> Self {
        Self {
            opener,
            ..Self::default()
        }
    }

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
        if let Some(mut opener) = self.opener.take() {
            let again = self.open(stream, &mut opener, &mut take);
            self.opener = Some(opener);
            return again;
        }
        self.buffer.resize(GULP_BYTES, 0);
        let Some(count) = arrived(stream.try_read(&mut self.buffer))? else {
            return Ok(Vec::new());
        };
        let buffer = std::mem::take(&mut self.buffer);
        let again = self.cut(&buffer[..count], &mut take);
        self.buffer = buffer;
        again
    }

    /// The same for records.
    fn open(
        &mut self,
        stream: &TcpStream,
        opener: &mut Opener,
        take: &mut impl FnMut(u32, u32, &[u8]) -> Result<Taken, WorkError>,
    ) -> Result<Vec<(u32, Taken)>, WorkError> {
        let mut again = Vec::new();
        match arrived(stream.try_read(opener.space())) {
            Ok(count) => opener.filled(count.unwrap_or(0)),
            Err(_) if opener.has_part() => return Err(RecordError::Cut.into()),
            Err(error) => return Err(error),
        }
        while let Some(bytes) = opener.open()? {
            again.extend(self.cut(bytes, &mut *take)?);
        }
        Ok(again)
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

/// The number of bytes that a read has brought, if any have arrived.
fn arrived(read: io::Result<usize>) -> Result<Option<usize>, WorkError> {
    match read {
        Ok(0) => Err(WorkError::io("receive")(io::ErrorKind::UnexpectedEof.into())),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(WorkError::io("receive")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::MAX_RECORD_BYTES;
    use crate::contract::data::Hello;
    use crate::hold::secret::Secret;
    use crate::plane::handshake::{Channel, accept, connect};
    use crate::plane::records::Ends;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    const ENDS: Ends<'_> = Ends {
        connector: "child",
        acceptor: "parent",
    };

    /// A connection of a child to its parent, after the handshake.
    async fn connected() -> ((TcpStream, Channel), (TcpStream, Channel)) {
        let secret = || Secret::new(&[1; 32]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut far = listener.accept().await.unwrap().0;
        let (child, parent) = tokio::join!(
            async { connect(&mut near, &secret(), Hello::default(), [2; 16]).await.unwrap() },
            async { accept(&mut far, |_| Some(secret()), [3; 16], 0).await.unwrap().0 },
        );
        ((near, child), (far, parent))
    }

    /// Reads pieces until the connection ends, and returns its error.
    async fn read_all(stream: &TcpStream, incoming: &mut Incoming, came: &mut Vec<u8>) -> WorkError {
        loop {
            stream.readable().await.unwrap();
            let read = incoming.read(stream, |_, _, bytes| {
                came.extend_from_slice(bytes);
                Ok(Taken::Grew)
            });
            if let Err(error) = read {
                return error;
            }
        }
    }

    #[tokio::test]
    async fn encrypted_pieces_end_with_the_first_wrong_record() {
        let bytes: Vec<u8> = (0..40_000u32).map(|at| (at / 7) as u8).collect();
        let header = [5, 0, bytes.len() as u32].map(u32::to_be_bytes).concat();
        for wrong in [None, Some(20_000), Some(0)] {
            let ((near, child), (mut far, parent)) = connected().await;
            let (mut sealer, mut wire) = (parent.sealer(ENDS), Vec::new());
            sealer.seal(&[header.as_slice(), &bytes].concat(), &mut wire).unwrap();
            if let Some(at) = wrong {
                wire[at + 2] ^= 1;
            } else {
                // The last byte is missing.
                wire.pop();
            }
            far.write_all(&wire).await.unwrap();
            drop(far);
            let (mut incoming, mut came) = (Incoming::new(Some(child.opener(ENDS))), Vec::new());
            let error = read_all(&near, &mut incoming, &mut came).await;
            let (record, expected) = match wrong {
                None => (RecordError::Cut, 2),
                Some(0) => (RecordError::Forged, 0),
                Some(_) => (RecordError::Forged, 1),
            };
            assert!(matches!(error, WorkError::Record(each) if each == record), "{error}");
            let whole = (expected * MAX_RECORD_BYTES).saturating_sub(HEADER_BYTES);
            assert_eq!(came, bytes[..whole]);
        }
    }

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
