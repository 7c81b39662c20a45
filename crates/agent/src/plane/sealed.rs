//! The bytes of a transfer on one connection: zeros, or records of encrypted zeros.
//!
//! Without encryption, neither side has a buffer (see `stream`). With it, the sender has up to `CHUNK_BYTES` in records, and
//! the receiver counts a record when it is whole and authentic.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use gavotte_probe::sockets::tcp;
use tokio::net::TcpStream;

use crate::contract::MAX_RECORD_BYTES;
use crate::error::{RecordError, WorkError};
use crate::hold::budget::Reservation;
use crate::plane::records::{OVERHEAD_BYTES, Opener, Sealer};
use crate::plane::stream::{readable, send_now, writable};

/// Bytes that are encrypted at a time: four records.
const CHUNK_BYTES: usize = 4 * MAX_RECORD_BYTES;
/// Number of records after which the sender first looks which of them have been delivered.
const MARKS: usize = 256;

static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// Sends a transfer's bytes over one connection.
#[derive(Debug)]
pub struct Outflow(Option<Box<Sealed>>);

/// Records on their way into a connection.
#[derive(Debug)]
struct Sealed {
    sealer: Sealer,
    wire: Vec<u8>,
    /// Bytes of `wire` that the kernel has.
    handed: usize,
    /// Where records end that may not be delivered yet, the oldest first.
    marks: VecDeque<Mark>,
    most_marks: usize,
    /// The end of the newest record that was delivered.
    delivered: Mark,
    /// Bytes of the connection that the kernel has, and bytes of the transfer in its whole records.
    given: Mark,
    /// Bytes of the transfer that were encrypted.
    taken_bytes: u64,
}

/// A place in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    /// Bytes of the connection up to here.
    wire_bytes: u64,
    /// Bytes of the transfer up to here.
    bytes: u64,
}

impl Outflow {
    /// Sends records of `sealer`, or zeros without one.
    pub fn new(sealer: Option<Sealer>) -> Self {
        let records = |sealer| {
            Box::new(Sealed {
                sealer,
                wire: Vec::new(),
                handed: 0,
                marks: VecDeque::new(),
                most_marks: MARKS,
                delivered: Mark::default(),
                given: Mark::default(),
                taken_bytes: 0,
            })
        };
        Self(sealer.map(records))
    }

    /// Hands over at most `most` bytes of the transfer, and what earlier calls have encrypted. Returns the number of bytes
    /// that the kernel now has in whole records; 0 = it has no room for one.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send_now(&mut self, stream: &TcpStream, most: u64) -> Result<u64, WorkError> {
        match &mut self.0 {
            None => send_now(stream, most),
            Some(sealed) => {
                if sealed.is_empty() && most > 0 {
                    sealed.seal(most.min(CHUNK_BYTES as u64) as usize)?;
                }
                sealed.hand_over(stream)
            }
        }
    }

    /// Sends a part of `reservation`, at most `most` bytes. Returns the number of bytes sent.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn send_at_most(
        &mut self,
        stream: &TcpStream,
        reservation: &mut Reservation<'_>,
        most: u64,
    ) -> Result<u64, WorkError> {
        loop {
            writable(stream).await?;
            let sent = self.send_now(stream, reservation.unspent().min(most))?;
            if sent > 0 {
                reservation.spend(sent);
                return Ok(sent);
            }
        }
    }

    /// Returns how many bytes of the transfer fill this many bytes of the connection.
    pub fn bytes_in(&self, wire_bytes: u64) -> u64 {
        let records = wire_bytes.div_ceil((MAX_RECORD_BYTES + OVERHEAD_BYTES) as u64);
        match &self.0 {
            None => wire_bytes,
            Some(_) => wire_bytes.saturating_sub(records * OVERHEAD_BYTES as u64).max(1),
        }
    }

    /// Bytes of the transfer that wait in records until the kernel has room.
    pub fn waiting_bytes(&self) -> u64 {
        let sealed = self.0.as_ref();
        sealed.map_or(0, |sealed| sealed.taken_bytes - sealed.given.bytes)
    }

    /// Sends the last record, if the transfer is encrypted.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn finish(&mut self, stream: &TcpStream) -> Result<(), WorkError> {
        if let Some(sealed) = &mut self.0 {
            sealed.sealer.finish(&mut sealed.wire)?;
            while !sealed.is_empty() {
                writable(stream).await?;
                sealed.hand_over(stream)?;
            }
        }
        Ok(())
    }

    /// Returns how many of the `sent_bytes` bytes of this connection are lost with it, if its peer has not acknowledged the
    /// last `undelivered_bytes` bytes. A record of which a part is lost is lost.
    pub fn lost_bytes(&self, undelivered_bytes: u64, sent_bytes: u64) -> u64 {
        match &self.0 {
            None => undelivered_bytes.min(sent_bytes),
            Some(sealed) => {
                let delivered = sealed.delivered(undelivered_bytes);
                (sealed.given.bytes - delivered.bytes.min(sealed.given.bytes)).min(sent_bytes)
            }
        }
    }
}

impl Sealed {
    fn is_empty(&self) -> bool {
        self.handed == self.wire.len()
    }

    fn seal(&mut self, bytes: usize) -> Result<(), RecordError> {
        self.wire.clear();
        self.handed = 0;
        for zeros in ZEROS[..bytes].chunks(MAX_RECORD_BYTES) {
            self.sealer.seal(zeros, &mut self.wire)?;
            self.taken_bytes += zeros.len() as u64;
            self.marks.push_back(Mark {
                wire_bytes: self.given.wire_bytes + self.wire.len() as u64,
                bytes: self.taken_bytes,
            });
        }
        Ok(())
    }

    /// Gives the kernel what it has room for. Returns by how many bytes of the transfer the whole records grew.
    fn hand_over(&mut self, stream: &TcpStream) -> Result<u64, WorkError> {
        match stream.try_write(&self.wire[self.handed..]) {
            Ok(count) => {
                self.handed += count;
                self.given.wire_bytes += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(WorkError::io("send")(error)),
        }
        let whole = |mark: &&Mark| mark.wire_bytes <= self.given.wire_bytes;
        let newest = self.marks.iter().rev().find(whole);
        let before = self.given.bytes;
        self.given.bytes = newest.map_or(before, |mark| mark.bytes);
        self.forget(stream);
        Ok(self.given.bytes - before)
    }

    /// Forgets the records that were delivered, when there are many.
    fn forget(&mut self, stream: &impl AsFd) {
        if self.marks.len() < self.most_marks {
            return;
        }
        if let Ok(undelivered_bytes) = tcp::undelivered_bytes(stream) {
            // One byte may be the end of the stream.
            self.delivered = self.delivered(undelivered_bytes + 1);
            let delivered = self.delivered;
            self.marks.retain(|mark| mark.wire_bytes > delivered.wire_bytes);
        }
        self.most_marks = MARKS.max(2 * self.marks.len());
    }

    /// The end of the newest record that was delivered, if the last `undelivered_bytes` bytes were not.
    fn delivered(&self, undelivered_bytes: u64) -> Mark {
        let wire_bytes = self.given.wire_bytes.saturating_sub(undelivered_bytes);
        let delivered = self.marks.iter().take_while(|mark| mark.wire_bytes <= wire_bytes);
        delivered.last().copied().unwrap_or(self.delivered)
    }
}

/// Receives the records of a transfer up to the last one, and passes the time and size of each to `add`. Returns the number of
/// bytes.
///
/// # Errors
/// If the connection fails or ends before the last record, a record is not the next one, or there are more than `most_bytes`
/// bytes.
pub async fn receive_records(
    stream: &TcpStream,
    mut opener: Opener,
    most_bytes: u64,
    mut add: impl FnMut(Instant, u64) + Send,
) -> Result<u64, WorkError> {
    let mut came = 0;
    while !opener.has_ended() {
        readable(stream).await?;
        match stream.try_read(opener.space()) {
            Ok(0) => return Err(RecordError::Cut.into()),
            Ok(count) => opener.filled(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(WorkError::io("receive")(error)),
        }
        let now = Instant::now();
        while let Some(bytes) = opener.open()? {
            let count = bytes.len() as u64;
            came += count;
            if came > most_bytes {
                return Err(WorkError::Request(format!(
                    "the sender sent more than {most_bytes} bytes"
                )));
            }
            if count > 0 {
                add(now, count);
            }
        }
    }
    Ok(came)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::budget::Allowance;
    use crate::hold::secret::Secret;
    use crate::plane::records::{Cipher, Ends};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    const RECORD: u64 = MAX_RECORD_BYTES as u64;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (near, listener.accept().await.unwrap().0)
    }

    fn cipher() -> Cipher {
        let ends = Ends {
            connector: "a",
            acceptor: "b",
        };
        Cipher::new(&Secret::new(&[1; 32]).unwrap(), [&[2; 16], &[3; 16]], 1, ends)
    }

    async fn send(stream: &TcpStream, bytes: u64, most: u64) -> Result<(), WorkError> {
        let allowance = Allowance::new(bytes);
        let mut reservation = allowance.reserve(bytes).unwrap();
        let mut outflow = Outflow::new(Some(Sealer(cipher())));
        while reservation.unspent() > 0 {
            outflow.send_at_most(stream, &mut reservation, most).await?;
        }
        assert_eq!(outflow.waiting_bytes(), 0);
        outflow.finish(stream).await
    }

    #[tokio::test]
    async fn a_transfer_arrives_whatever_its_portions() {
        for (bytes, most) in [(0, 1), (1, 9), (5_000_001, u64::MAX), (300_000, 1448), (RECORD, RECORD)] {
            let (mut near, mut far) = pair().await;
            let mut counted = 0;
            let receiving = receive_records(&far, Opener::new(cipher()), bytes, |_, count| counted += count);
            let (sent, came) = tokio::join!(send(&near, bytes, most), receiving);
            sent.unwrap();
            assert_eq!((came.unwrap(), counted), (bytes, bytes));
            // What follows the last record is not read.
            near.write_all(b"next").await.unwrap();
            let mut rest = [0; 4];
            tokio::io::AsyncReadExt::read_exact(&mut far, &mut rest).await.unwrap();
            assert_eq!(&rest, b"next");
        }
    }

    #[tokio::test]
    async fn a_stream_without_its_last_record_was_cut() {
        let (mut near, far) = pair().await;
        let mut wire = Vec::new();
        Sealer(cipher()).seal(&[0; 100], &mut wire).unwrap();
        near.write_all(&wire).await.unwrap();
        drop(near);
        let received = receive_records(&far, Opener::new(cipher()), 100, |_, _| ()).await;
        assert!(
            matches!(received, Err(WorkError::Record(RecordError::Cut))),
            "{received:?}"
        );
    }

    #[tokio::test]
    async fn more_bytes_than_announced_are_refused() {
        let (near, far) = pair().await;
        let receiving = receive_records(&far, Opener::new(cipher()), 99, |_, _| ());
        let (sent, received) = tokio::join!(send(&near, 100, 100), receiving);
        sent.unwrap();
        assert!(matches!(received, Err(WorkError::Request(_))), "{received:?}");
    }

    #[tokio::test]
    async fn a_record_that_is_lost_in_part_is_lost() {
        let (near, _far) = pair().await;
        let mut outflow = Outflow::new(Some(Sealer(cipher())));
        let sent = outflow.send_now(&near, 2 * RECORD + 5).unwrap();
        assert_eq!((sent, outflow.waiting_bytes()), (2 * RECORD + 5, 0));
        let short = 5 + OVERHEAD_BYTES as u64;
        let lost = |undelivered| outflow.lost_bytes(undelivered, sent);
        assert_eq!([lost(0), lost(1), lost(short), lost(short + 1)], [0, 5, 5, 5 + RECORD]);
        assert_eq!(lost(u64::MAX), sent);
        assert_eq!(Outflow::new(None).lost_bytes(7, 5), 5);
    }

    #[tokio::test]
    async fn a_portion_fills_its_segments_with_what_records_add() {
        let segments = 12 * 1448;
        assert_eq!(Outflow::new(None).bytes_in(segments), segments);
        let (near, _far) = pair().await;
        let mut outflow = Outflow::new(Some(Sealer(cipher())));
        let bytes = outflow.bytes_in(segments);
        assert_eq!(outflow.send_now(&near, bytes).unwrap(), bytes);
        assert_eq!(outflow.0.as_ref().unwrap().given.wire_bytes, segments);
        assert_eq!(outflow.bytes_in(1), 1);
    }

    #[tokio::test]
    async fn delivered_records_are_forgotten() {
        let (near, far) = pair().await;
        let mut outflow = Outflow::new(Some(Sealer(cipher())));
        let sending = async {
            let mut sent = 0;
            while sent < 4000 * 100 {
                writable(&near).await.unwrap();
                sent += outflow.send_now(&near, 100).unwrap();
            }
            outflow.finish(&near).await.unwrap();
        };
        let ((), came) = tokio::join!(
            sending,
            receive_records(&far, Opener::new(cipher()), u64::MAX, |_, _| ())
        );
        assert_eq!(came.unwrap(), 400_000);
        let sealed = outflow.0.as_ref().unwrap();
        assert!(
            sealed.marks.len() < 4000 && sealed.delivered.bytes > 0,
            "{}",
            sealed.marks.len()
        );
        assert_eq!(outflow.lost_bytes(0, 400_000), 0);
    }
}
