//! Seals calls to an agent that other agents forward, and its answers. Only the controller and that agent have the key.
//!
//! 1. A sealed call is its number, 8 bytes big-endian, and its content as AES-256-GCM encrypts it. The controller uses each
//!    number once.
//! 2. A sealed answer is only encrypted. Its nonce is the call's number and the answer's own, which is 0 for the first one.
//!    Answers that are left out, moved or repeated therefore do not open.
//! 3. HKDF-SHA256 derives two keys from the agent's 32 bytes: one for calls, one for answers.
//! 4. An agent takes each number once ([`Taken`]), so a call that is forwarded again has no effect.
//!
//! The cryptography is `ring`'s.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

/// Length of an agent's key in bytes.
pub const KEY_BYTES: usize = 32;
/// Bytes by which a sealed call is longer than its content. An answer is shorter by the number.
pub const OVERHEAD_BYTES: usize = NUMBER_BYTES + MAX_TAG_LEN;

const NUMBER_BYTES: usize = 8;
/// Keep these keys apart from any others.
const CALLS: &[u8] = b"gavotte 1 calls";
const ANSWERS: &[u8] = b"gavotte 1 answers";

/// What arrived was not sealed with the key, or was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forged;

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was not sealed with this agent's key")
    }
}

impl std::error::Error for Forged {}

/// The keys of one agent in one run. They are never printed.
pub struct Keys {
    calls: LessSafeKey,
    answers: LessSafeKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    /// Derives the keys; `None` unless there are exactly [`KEY_BYTES`] bytes.
    pub fn new(secret: &[u8]) -> Option<Self> {
        (secret.len() == KEY_BYTES).then(|| Self {
            calls: derived(secret, CALLS),
            answers: derived(secret, ANSWERS),
        })
    }

    /// Seals a call. Each number may be used once.
    pub fn seal_call(&self, number: u64, content: &[u8]) -> Vec<u8> {
        let mut sealed = number.to_be_bytes().to_vec();
        sealed.extend(encrypted(&self.calls, nonce(number, 0), content));
        sealed
    }

    /// Opens a call, and returns its number and content.
    ///
    /// # Errors
    /// [`Forged`].
    pub fn open_call(&self, sealed: &[u8]) -> Result<(u64, Vec<u8>), Forged> {
        let (number, content) = sealed.split_first_chunk::<NUMBER_BYTES>().ok_or(Forged)?;
        let number = u64::from_be_bytes(*number);
        Ok((number, decrypted(&self.calls, nonce(number, 0), content)?))
    }

    /// Seals an answer to a call. Each pair of numbers may be used once.
    pub fn seal_answer(&self, call: u64, number: u32, content: &[u8]) -> Vec<u8> {
        encrypted(&self.answers, nonce(call, number), content)
    }

    /// Opens an answer, if it is the one of these numbers.
    ///
    /// # Errors
    /// [`Forged`].
    pub fn open_answer(&self, call: u64, number: u32, sealed: &[u8]) -> Result<Vec<u8>, Forged> {
        decrypted(&self.answers, nonce(call, number), sealed)
    }
}

fn derived(secret: &[u8], label: &[u8]) -> LessSafeKey {
    let secret = Salt::new(HKDF_SHA256, &[]).extract(secret);
    let key = secret.expand(&[label], &AES_256_GCM).map(UnboundKey::from);
    // HKDF-SHA256 derives up to 8160 bytes, and a key has 32.
    LessSafeKey::new(key.unwrap_or_else(|_| unreachable!("a key of 32 bytes")))
}

fn nonce(call: u64, answer: u32) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..NUMBER_BYTES].copy_from_slice(&call.to_be_bytes());
    nonce[NUMBER_BYTES..].copy_from_slice(&answer.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn encrypted(key: &LessSafeKey, nonce: Nonce, content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut bytes);
    // Only contents of more than 64 GiB are refused.
    bytes.extend(
        tag.unwrap_or_else(|_| unreachable!("a content that fits in memory"))
            .as_ref(),
    );
    bytes
}

fn decrypted(key: &LessSafeKey, nonce: Nonce, sealed: &[u8]) -> Result<Vec<u8>, Forged> {
    let mut bytes = sealed.to_vec();
    let length = key
        .open_in_place(nonce, Aad::empty(), &mut bytes)
        .map_err(|_| Forged)?
        .len();
    bytes.truncate(length);
    Ok(bytes)
}

/// The numbers that an agent has taken: all up to some number, except for a few of the last ones.
#[derive(Debug, Default)]
pub struct Taken {
    /// All numbers from here on are new.
    next: u64,
    /// Bit k is set if `next - 1 - k` was taken. Older numbers count as taken.
    last: u128,
}

impl Taken {
    /// Takes a number; returns whether it was new.
    pub fn take(&mut self, number: u64) -> bool {
        if number == u64::MAX {
            return false;
        }
        if number >= self.next {
            let ahead = number - self.next + 1;
            self.last = u32::try_from(ahead).map_or(0, |ahead| self.last.checked_shl(ahead).unwrap_or(0)) | 1;
            self.next = number + 1;
            return true;
        }
        let behind = self.next - 1 - number;
        let bit = u32::try_from(behind).ok().and_then(|behind| 1_u128.checked_shl(behind));
        let new = bit.is_some_and(|bit| self.last & bit == 0);
        self.last |= bit.unwrap_or(0);
        new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn keys(byte: u8) -> Keys {
        Keys::new(&[byte; KEY_BYTES]).unwrap()
    }

    #[test]
    fn a_key_has_its_length() {
        for length in [0, 31, 33] {
            assert!(Keys::new(&vec![1; length]).is_none());
        }
        assert_eq!(format!("{:?}", keys(1)), "Keys(..)");
    }

    #[test]
    fn answers_open_only_in_their_places() {
        let keys = keys(1);
        let sealed = keys.seal_answer(7, 2, b"answer");
        assert_eq!(keys.open_answer(7, 2, &sealed).unwrap(), b"answer");
        for (call, number) in [(7, 1), (7, 3), (6, 2), (2, 7)] {
            assert_eq!(keys.open_answer(call, number, &sealed), Err(Forged));
        }
        // A call is no answer, though both nonces are the same.
        assert_eq!(
            keys.open_answer(7, 0, &keys.seal_call(7, b"call")[NUMBER_BYTES..]),
            Err(Forged)
        );
    }

    #[test]
    fn numbers_are_taken_once_and_late_ones_a_little_later() {
        let mut taken = Taken::default();
        assert!(taken.take(0) && !taken.take(0));
        assert!(taken.take(100) && taken.take(40) && !taken.take(40) && !taken.take(100));
        assert!(taken.take(1000));
        assert!(taken.take(1000 - 127) && !taken.take(1000 - 128));
        assert!(taken.take(u64::MAX - 1) && !taken.take(u64::MAX) && !taken.take(1000));
    }

    proptest! {
        #[test]
        fn calls_open_unless_they_were_changed(content: Vec<u8>, number: u64, at: prop::sample::Index, bit in 0..8_u8) {
            let mut sealed = keys(1).seal_call(number, &content);
            prop_assert_eq!(sealed.len(), content.len() + OVERHEAD_BYTES);
            prop_assert_eq!(keys(1).open_call(&sealed), Ok((number, content)));
            prop_assert_eq!(keys(2).open_call(&sealed), Err(Forged));
            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert_eq!(keys(1).open_call(&sealed), Err(Forged));
        }

        #[test]
        fn any_bytes_are_safe(bytes: Vec<u8>, number: u64) {
            prop_assert_eq!(keys(1).open_call(&bytes), Err(Forged));
            prop_assert_eq!(keys(1).open_answer(number, 0, &bytes), Err(Forged));
        }

        #[test]
        fn no_number_is_taken_twice(numbers in prop::collection::vec(0..300_u64, 0..200)) {
            let (mut taken, mut known) = (Taken::default(), HashSet::new());
            for number in numbers {
                let new = taken.take(number);
                prop_assert!(!new || known.insert(number));
            }
        }
    }
}
