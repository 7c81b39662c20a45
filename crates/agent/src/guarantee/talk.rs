//! What agents tell each other of the pairs between them: one small sealed datagram.
//!
//! ```text
//!  0      4      8    12       20      28     36       44        52               68      72         88
//!  | GVG1 | from | to | number | bytes | lost | marked | packets | 4 x rate (f32) | epoch | MAC (16) |
//! ```
//!
//! Integers and rates are big-endian. Counts are of what arrived at `from` from `to`, since `from` began to keep guarantees: a
//! datagram that is lost costs nothing. The MAC is BLAKE3 with a key derived from that of the set, over all
//! before it. The number grows from datagram to datagram, so none is taken twice.

use std::net::Ipv4Addr;

use gavotte_limiter::Offer;

/// First four bytes; the last of them is the layout's version.
pub const MAGIC: [u8; 4] = *b"GVG1";
const BODY_BYTES: usize = 72;
const MAC_BYTES: usize = 16;
/// Bytes of a datagram.
pub const BYTES: usize = BODY_BYTES + MAC_BYTES;

/// The key of a set.
#[derive(Clone)]
pub struct TalkKey([u8; 32]);

impl TalkKey {
    /// Derives it, so that no MAC is valid elsewhere.
    pub fn derive(key: &[u8; 32]) -> Self {
        Self(blake3::derive_key("gavotte 1 guarantee", key))
    }

    fn mac(&self, body: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.0, body)
    }
}

impl std::fmt::Debug for TalkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TalkKey(..)")
    }
}

/// What arrived of a pair, as its receiver counts it since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Bytes that are charged as lost.
    pub lost_bytes: u64,
    /// Bytes that arrived marked.
    pub marked_bytes: u64,
    /// Packets: those lost in the upper half, those marked in the lower.
    pub packets: u64,
}

impl Tally {
    /// Packets that were lost.
    pub fn lost(&self) -> u64 {
        self.packets >> 32
    }

    /// Packets that were marked.
    pub fn marked(&self) -> u64 {
        self.packets & 0xffff_ffff
    }
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word {
    /// Who says it.
    pub from: Ipv4Addr,
    /// To whom.
    pub to: Ipv4Addr,
    /// Grows from datagram to datagram of one sender.
    pub number: u64,
    /// What came from `to`.
    pub tally: Tally,
    /// Of the pair that `from` sends on; `None` when it is idle.
    pub as_source: Option<Offer>,
    /// Of the pair that `from` receives on.
    pub as_target: Option<Offer>,
    /// Another one when `from` began to number its packets anew.
    pub epoch: u32,
}

impl Word {
    /// The datagram's bytes.
    pub fn seal(&self, key: &TalkKey) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.from.octets());
        bytes[8..12].copy_from_slice(&self.to.octets());
        let Tally {
            bytes: arrived,
            lost_bytes,
            marked_bytes,
            packets,
        } = self.tally;
        for (at, count) in [self.number, arrived, lost_bytes, marked_bytes, packets]
            .into_iter()
            .enumerate()
        {
            bytes[12 + 8 * at..20 + 8 * at].copy_from_slice(&count.to_be_bytes());
        }
        let rates = [self.as_source, self.as_target]
            .map(|offer| offer.map_or([f32::NAN; 2], |offer| [offer.share_bps as f32, offer.offer_bps as f32]));
        for (at, rate) in rates.into_iter().flatten().enumerate() {
            bytes[52 + 4 * at..56 + 4 * at].copy_from_slice(&rate.to_be_bytes());
        }
        bytes[68..72].copy_from_slice(&self.epoch.to_be_bytes());
        let mac = key.mac(&bytes[..BODY_BYTES]);
        bytes[BODY_BYTES..].copy_from_slice(&mac.as_bytes()[..MAC_BYTES]);
        bytes
    }

    /// Reads a datagram; `None` when the bytes are not one of this set. Takes any bytes.
    pub fn open(key: &TalkKey, bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let (body, mac) = bytes.split_at(BODY_BYTES);
        let wanted = key.mac(body);
        let mut told = *wanted.as_bytes();
        told[..MAC_BYTES].copy_from_slice(mac);
        // blake3::Hash compares in constant time.
        if wanted != told || body[..4] != MAGIC {
            return None;
        }
        let address = |at: usize| Ipv4Addr::from(take::<4>(body, at));
        let count = |at: usize| u64::from_be_bytes(take(body, at));
        let rate = |at: usize| f64::from(f32::from_be_bytes(take(body, at)));
        let offer = |at: usize| {
            let (share_bps, offer_bps) = (rate(at), rate(at + 4));
            let sound = share_bps >= 0.0 && offer_bps >= 0.0;
            sound.then_some(Offer { share_bps, offer_bps })
        };
        Some(Self {
            from: address(4),
            to: address(8),
            number: count(12),
            tally: Tally {
                bytes: count(20),
                lost_bytes: count(28),
                marked_bytes: count(36),
                packets: count(44),
            },
            as_source: offer(52),
            as_target: offer(60),
            epoch: u32::from_be_bytes(take(body, 68)),
        })
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut taken = [0; N];
    taken.copy_from_slice(&bytes[at..at + N]);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> TalkKey {
        TalkKey::derive(&[5; 32])
    }

    fn word() -> Word {
        Word {
            from: Ipv4Addr::new(10, 0, 0, 1),
            to: Ipv4Addr::new(10, 0, 0, 2),
            number: 77,
            tally: Tally {
                bytes: 1 << 40,
                lost_bytes: 3,
                marked_bytes: 4,
                packets: 5 << 32 | 6,
            },
            as_source: None,
            as_target: Some(Offer {
                share_bps: 45e6,
                offer_bps: f64::INFINITY,
            }),
            epoch: 9,
        }
    }

    #[test]
    fn a_word_is_read_as_it_was_said() {
        let read = Word::open(&key(), &word().seal(&key())).unwrap();
        assert_eq!(read, word());
        assert_eq!((read.tally.lost(), read.tally.marked()), (5, 6));
    }

    proptest! {
        #[test]
        fn whatever_was_changed_is_refused(at in 0..BYTES, flip in 1u8..) {
            let mut bytes = word().seal(&key());
            bytes[at] ^= flip;
            prop_assert_eq!(Word::open(&key(), &bytes), None);
        }

        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Word::open(&key(), &bytes), None);
        }
    }

    #[test]
    fn another_set_is_refused() {
        assert_eq!(Word::open(&TalkKey::derive(&[6; 32]), &word().seal(&key())), None);
    }
}
