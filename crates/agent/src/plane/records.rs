//! Encrypts the bulk bytes of a connection, in records.
//!
//! 1. A record is a header, its bytes encrypted, and a tag of 16 bytes. The header is 2 bytes, big-endian: the highest bit
//!    marks the last record, the other bits are the number of bytes.
//! 2. AES-256-GCM encrypts the bytes, and authenticates them together with the header. The nonce is the record's number in its
//!    direction, from 0, so a record that was copied, moved or left out is refused like a forged one.
//! 3. HKDF-SHA256 derives the keys from the run's secret: the salt is both nonces of the handshake. Each connection, each
//!    direction and every `RECORDS_OF_A_KEY` records have a key of their own.
//!
//! The cryptography is `ring`'s. This module decides only which bytes form a record.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

use crate::contract::{MAX_RECORD_BYTES, NONCE_BYTES};
use crate::error::RecordError;
use crate::hold::secret::Secret;

/// Size of a record's header.
const HEADER_BYTES: usize = 2;
/// Size of a record's tag.
const TAG_BYTES: usize = 16;
/// Bytes by which a record is longer than what it contains.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + TAG_BYTES;
/// The bit of a header that marks the last record.
const LAST: u16 = 1 << 15;
/// Records that one key encrypts: 256 GiB. AES-GCM's margin would shrink beyond that.
const RECORDS_OF_A_KEY: u64 = 1 << 24;
/// First and largest size of a receiver's buffer. It grows when a connection fills it, since thousands may be slow.
const BUFFER_BYTES: (usize, usize) = (2 * (MAX_RECORD_BYTES + OVERHEAD_BYTES), 160 << 10);
/// Keeps these keys apart from any others.
const LABEL: &[u8] = b"gavotte 1 records";

const _: () = assert!(MAX_RECORD_BYTES < LAST as usize);

/// The names of a connection's ends, to which its keys are bound.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The host that sent the hello.
    pub connector: &'a str,
    /// The host that sent the challenge.
    pub acceptor: &'a str,
}

/// The keys of one direction of one connection.
#[derive(Debug)]
pub(super) struct Cipher {
    secret: Prk,
    context: Vec<u8>,
    key: LessSafeKey,
    number: u64,
}

impl Cipher {
    /// Derives the first key. `direction` is the byte that names the direction in the handshake's MACs.
    pub(super) fn new(secret: &Secret, nonces: [&[u8; NONCE_BYTES]; 2], direction: u8, ends: Ends<'_>) -> Self {
        let secret = Salt::new(HKDF_SHA256, &nonces.map(|nonce| *nonce).concat()).extract(secret.bytes());
        let mut context = vec![direction];
        for name in [ends.connector, ends.acceptor] {
            // Lengths keep `a` and `bc` apart from `ab` and `c`.
            context.extend((name.len() as u64).to_be_bytes());
            context.extend(name.as_bytes());
        }
        let key = key(&secret, &context, 0);
        Self {
            secret,
            context,
            key,
            number: 0,
        }
    }

    /// The nonce of the next record. Derives the next key when this one has encrypted enough.
    fn nonce(&mut self) -> Nonce {
        if self.number > 0 && self.number.is_multiple_of(RECORDS_OF_A_KEY) {
            self.key = key(&self.secret, &self.context, self.number / RECORDS_OF_A_KEY);
        }
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.number.to_be_bytes());
        // No connection sends 2^64 records.
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn key(secret: &Prk, context: &[u8], epoch: u64) -> LessSafeKey {
    let (epoch, algorithm) = (epoch.to_be_bytes(), &AES_256_GCM);
    let info: [&[u8]; 3] = [LABEL, &epoch, context];
    let derived = secret.expand(&info, algorithm).map(UnboundKey::from);
    // HKDF-SHA256 derives up to 8160 bytes, and a key has 32.
    LessSafeKey::new(derived.unwrap_or_else(|_| unreachable!("a key of 32 bytes")))
}

/// Encrypts what one side sends.
#[derive(Debug)]
pub struct Sealer(pub(super) Cipher);

impl Sealer {
    /// Appends the records of `bytes` to `wire`.
    ///
    /// # Errors
    /// If the library refuses to encrypt.
    pub fn seal(&mut self, bytes: &[u8], wire: &mut Vec<u8>) -> Result<(), RecordError> {
        for bytes in bytes.chunks(MAX_RECORD_BYTES) {
            self.record(bytes, 0, wire)?;
        }
        Ok(())
    }

    /// Appends the last record, which is empty, to `wire`.
    ///
    /// # Errors
    /// If the library refuses to encrypt.
    pub fn finish(&mut self, wire: &mut Vec<u8>) -> Result<(), RecordError> {
        self.record(&[], LAST, wire)
    }

    fn record(&mut self, bytes: &[u8], mark: u16, wire: &mut Vec<u8>) -> Result<(), RecordError> {
        let header = (bytes.len() as u16 | mark).to_be_bytes();
        wire.extend(header);
        let start = wire.len();
        wire.extend_from_slice(bytes);
        let nonce = self.0.nonce();
        let tag = self
            .0
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(header), &mut wire[start..]);
        wire.extend_from_slice(tag.map_err(|_| RecordError::Unsealed)?.as_ref());
        Ok(())
    }
}

/// Decrypts what one side receives, and buffers the part of a record that has arrived.
#[derive(Debug)]
pub struct Opener {
    cipher: Cipher,
    buffer: Vec<u8>,
    /// The bytes of the buffer that are not opened yet.
    start: usize,
    end: usize,
    ended: bool,
}

impl Opener {
    pub(super) fn new(cipher: Cipher) -> Self {
        Self {
            cipher,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            ended: false,
        }
    }

    /// Returns the place for the next bytes of the connection, which is never empty if [`Self::open`] has opened all
    /// records before.
    pub fn space(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER_BYTES.0, 0);
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Records that `count` bytes have been written to [`Self::space`].
    pub fn filled(&mut self, count: usize) {
        self.end += count;
        if self.end == self.buffer.len() && self.end < BUFFER_BYTES.1 {
            self.buffer.resize((2 * self.end).min(BUFFER_BYTES.1), 0);
        }
    }

    /// Returns the bytes of the next record, or `None` until all of it has arrived.
    ///
    /// # Errors
    /// If the record is not the one that the other side sent next. No further record may be opened then.
    pub fn open(&mut self) -> Result<Option<&[u8]>, RecordError> {
        let rest = &mut self.buffer[self.start..self.end];
        if self.ended && !rest.is_empty() {
            return Err(RecordError::Forged);
        }
        let Some((header, body)) = rest.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let word = u16::from_be_bytes(*header);
        let length = usize::from(word & !LAST);
        if length > MAX_RECORD_BYTES {
            return Err(RecordError::TooLong(length));
        }
        let Some(sealed) = body.get_mut(..length + TAG_BYTES) else {
            return Ok(None);
        };
        let nonce = self.cipher.nonce();
        let opened = self.cipher.key.open_in_place(nonce, Aad::from(*header), sealed);
        let opened = opened.map_err(|_| RecordError::Forged)?;
        self.start += length + OVERHEAD_BYTES;
        self.ended = word & LAST != 0;
        Ok(Some(opened))
    }

    /// Whether the last record was opened.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether a part of a record has arrived.
    pub fn has_part(&self) -> bool {
        self.start < self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENDS: Ends<'_> = Ends {
        connector: "a",
        acceptor: "b",
    };

    fn cipher(secret: u8, nonces: [u8; 2], direction: u8, ends: Ends<'_>) -> Cipher {
        let secret = Secret::new(&[secret; 32]).unwrap();
        Cipher::new(&secret, [&[nonces[0]; 16], &[nonces[1]; 16]], direction, ends)
    }

    fn pair() -> (Sealer, Opener) {
        let same = || cipher(1, [2, 3], 1, ENDS);
        (Sealer(same()), Opener::new(same()))
    }

    /// One record for each word, and the last one.
    fn sealed(sealer: &mut Sealer, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        for word in words {
            let mut wire = Vec::new();
            sealer.seal(word, &mut wire).unwrap();
            records.push(wire);
        }
        let mut wire = Vec::new();
        sealer.finish(&mut wire).unwrap();
        records.push(wire);
        records
    }

    /// What an opener makes of the bytes of a connection, which come in pieces of `gulp` bytes.
    fn opened(opener: &mut Opener, mut wire: &[u8], gulp: usize) -> Result<Vec<u8>, RecordError> {
        let mut bytes = Vec::new();
        while !wire.is_empty() {
            let space = opener.space();
            assert!(!space.is_empty());
            let count = wire.len().min(gulp).min(space.len());
            space[..count].copy_from_slice(&wire[..count]);
            opener.filled(count);
            wire = &wire[count..];
            while let Some(some) = opener.open()? {
                bytes.extend_from_slice(some);
            }
        }
        Ok(bytes)
    }

    #[test]
    fn long_bytes_come_back_and_no_record_is_too_long() {
        let (mut sealer, mut opener) = pair();
        let bytes: Vec<u8> = (0..1_000_003u32).map(|at| at as u8).collect();
        let mut wire = Vec::new();
        sealer.seal(&bytes, &mut wire).unwrap();
        assert_eq!(
            wire.len(),
            bytes.len() + bytes.len().div_ceil(MAX_RECORD_BYTES) * OVERHEAD_BYTES
        );
        assert_eq!(opened(&mut opener, &wire, usize::MAX).unwrap(), bytes);
        assert!(!opener.has_ended() && !opener.has_part() && opener.buffer.len() == BUFFER_BYTES.1);
        assert!(!wire.windows(32).any(|some| some == &bytes[..32]));
    }

    #[test]
    fn records_that_are_left_out_repeated_or_moved_are_refused() {
        let words: [&[u8]; 3] = [b"first", b"second", b"third"];
        for order in [
            vec![1],
            vec![0, 2],
            vec![0, 0],
            vec![1, 0],
            vec![0, 1, 2, 1],
            vec![0, 3],
        ] {
            let (mut sealer, mut opener) = pair();
            let records = sealed(&mut sealer, &words);
            let wire: Vec<u8> = order.iter().flat_map(|at| records[*at].clone()).collect();
            assert_eq!(opened(&mut opener, &wire, 7), Err(RecordError::Forged), "{order:?}");
        }
    }

    #[test]
    fn a_cut_stream_does_not_count_as_ended() {
        let (mut sealer, _) = pair();
        let wire = sealed(&mut sealer, &[b"all of it"]).concat();
        for cut in 0..=wire.len() {
            let (_, mut opener) = pair();
            let bytes = opened(&mut opener, &wire[..cut], 5).unwrap();
            let whole = cut >= 9 + OVERHEAD_BYTES;
            assert_eq!(bytes, if whole { b"all of it".as_slice() } else { &[] });
            assert_eq!(opener.has_ended(), cut == wire.len());
            assert_eq!(opener.has_part(), ![0, 9 + OVERHEAD_BYTES, wire.len()].contains(&cut));
        }
    }

    #[test]
    fn nothing_follows_the_last_record() {
        let (mut sealer, mut opener) = pair();
        let mut wire = sealed(&mut sealer, &[b"end"]).concat();
        sealer.seal(b"more", &mut wire).unwrap();
        assert_eq!(opened(&mut opener, &wire, usize::MAX), Err(RecordError::Forged));
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_its_bytes() {
        let (_, mut opener) = pair();
        let header = (MAX_RECORD_BYTES as u16 + 1).to_be_bytes();
        assert_eq!(
            opened(&mut opener, &header, 1),
            Err(RecordError::TooLong(MAX_RECORD_BYTES + 1))
        );
    }

    #[test]
    fn keys_belong_to_one_run_connection_direction_and_pair_of_hosts() {
        let mut sealer = Sealer(cipher(1, [2, 3], 1, ENDS));
        let mut wire = Vec::new();
        sealer.seal(b"secret", &mut wire).unwrap();
        let joined = Ends {
            connector: "ab",
            acceptor: "",
        };
        let others = [
            cipher(9, [2, 3], 1, ENDS),
            cipher(1, [9, 3], 1, ENDS),
            cipher(1, [2, 9], 1, ENDS),
            cipher(1, [3, 2], 1, ENDS),
            cipher(1, [2, 3], 2, ENDS),
            cipher(1, [2, 3], 1, joined),
        ];
        for other in others {
            assert_eq!(opened(&mut Opener::new(other), &wire, 100), Err(RecordError::Forged));
        }
        assert_eq!(opened(&mut pair().1, &wire, 100).unwrap(), b"secret");
    }

    #[test]
    fn the_next_key_follows_at_the_same_record_on_both_sides() {
        let (mut sealer, mut opener) = pair();
        (sealer.0.number, opener.cipher.number) = (RECORDS_OF_A_KEY - 1, RECORDS_OF_A_KEY - 1);
        let wire = sealed(&mut sealer, &[b"old", b"new"]).concat();
        assert_eq!(opened(&mut opener, &wire, 100).unwrap(), b"oldnew");
        // The number alone is not enough: the key has changed.
        let (_, mut stale) = pair();
        stale.cipher.number = RECORDS_OF_A_KEY + 1;
        let second = wire[3 + OVERHEAD_BYTES..].to_vec();
        assert_eq!(opened(&mut stale, &second, 100), Err(RecordError::Forged));
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_never_accepted(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 1..6),
            at in any::<prop::sample::Index>(),
            change in 1u8..,
            gulp in 1usize..90,
        ) {
            let (mut sealer, mut opener) = pair();
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let records = sealed(&mut sealer, &words);
            let mut wire = records.concat();
            let at = at.index(wire.len());
            wire[at] ^= change;
            let mut before = 0;
            let untouched = records.iter().take_while(|record| {
                before += record.len();
                before <= at
            });
            let untouched = untouched.count();
            // A header may now announce more than has arrived; the stream does not end then.
            if let Ok(bytes) = opened(&mut opener, &wire, gulp) {
                prop_assert_eq!(bytes, words[..untouched].concat());
                prop_assert!(!opener.has_ended());
            }
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..400), gulp in 1usize..50) {
            let (_, mut opener) = pair();
            let nothing = opened(&mut opener, &bytes, gulp).unwrap_or_default();
            prop_assert!(nothing.is_empty() && !opener.has_ended());
        }
    }
}
