//! The messages about guarantees between agents: small authenticated datagrams.
//!
//! ```text
//!  0      4        12     16     18     19      23     27       31       35     39       43        47              59
//!  | GVP6 | number | time | from | next | bytes | lost | marked | waited | lost | marked | transit | 4 x rate (24) | MAC (12) |  of the pairs between them
//!                                         in units of 16 bytes             packets
//!  | GVM6 | number | time | from | next | 4 x rate (24) | MAC (12) |  the same without counts: other hosts' packets
//!                                                                     arrive from the same address
//!  | GVN6 | number | time | from | next | 2 x rate (24) | MAC (12) |  what a host of a tenant needs
//!  | GVS6 | number | time | from | next | 2 x rate (24) | MAC (12) |  its share of the tenant's bandwidth
//! ```
//!
//! * Number: grows from datagram to datagram, so that no datagram is accepted twice. Its upper half is the epoch, which
//!   is random at each start of the sender. Receivers remember the epochs that have ended under the present key, so no
//!   clock has to say which epoch is later.
//! * Time: when the datagram was sent, in microseconds of the sender's own clock. A transit time above the shortest one
//!   reveals a queue.
//! * Transit: the shortest transit time of the other host's last datagrams, in microseconds by both clocks; 0 = unknown. The sum
//!   of both directions is the round trip, since the difference of the clocks cancels out.
//! * From: the sender's position in the set of guarantees. Its address may be another one behind a NAT.
//! * Next: the time until the sender's next datagram about pairs at the latest, in tenths of a second, while the hosts
//!   send each other bytes.
//! * Counts: what arrived since the sender of the datagram began to keep guarantees. They wrap around, so a lost
//!   datagram loses no count.
//! * Rates: 32-bit floats without the last byte, so rounded down by at most 1 in 30 000.
//! * MAC: BLAKE3 over the receiver's position (2 bytes) and all bytes before the MAC, with a key derived from that of the
//!   two hosts' agents. No other host has it.
//!
//! Integers are big-endian.

use std::collections::BTreeSet;

use gavotte_limiter::Offer;

const MAC_BYTES: usize = 12;
const HEAD_BYTES: usize = 19;
const RATE_BYTES: usize = 3;
const TALLY_BYTES: usize = 28;
const PAIR: [u8; 4] = *b"GVP6";
const MIXED: [u8; 4] = *b"GVM6";
const NEED: [u8; 4] = *b"GVN6";
const SHARE: [u8; 4] = *b"GVS6";
/// Length of the longest datagram in bytes.
pub const BYTES: usize = HEAD_BYTES + TALLY_BYTES + 4 * RATE_BYTES + MAC_BYTES;
/// Unit of byte counts.
pub const UNIT_BYTES: f64 = 16.0;

/// The first bytes of all datagrams.
pub const MAGICS: [[u8; 4]; 4] = [PAIR, MIXED, NEED, SHARE];

/// The key of the datagrams between two agents.
#[derive(Clone)]
pub struct TalkKey([u8; 32]);

impl TalkKey {
    /// Derives the key, so that its MACs are valid for no other purpose.
    pub fn derive(key: &[u8; 32]) -> Self {
        Self(blake3::derive_key("gavotte 6 guarantee of two", key))
    }

    fn mac(&self, to: u16, body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&to.to_be_bytes()).update(body).finalize()
    }
}

impl std::fmt::Debug for TalkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TalkKey(..)")
    }
}

/// What arrived on a pair since its receiver started, as the receiver counts it. All counts wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes that arrived, in units of 16 bytes.
    pub units: u32,
    /// Bytes charged as lost, in units of 16 bytes.
    pub lost_units: u32,
    /// Bytes that arrived marked, in units of 16 bytes.
    pub marked_units: u32,
    /// Bytes that arrived after waiting too long, in units of 16 bytes.
    pub waited_units: u32,
    /// Packets that were lost.
    pub lost: u32,
    /// Packets that were marked.
    pub marked: u32,
    /// The shortest transit time of recent datagrams in microseconds, by the clocks of both hosts; 0 = unknown.
    pub transit_us: u32,
}

/// The content of a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Matter {
    /// About the pairs between the two hosts.
    Pair {
        /// What arrived from the other host; `None` if the datagram's sender cannot distinguish its packets from those of
        /// another host.
        tally: Option<Tally>,
        /// Offer for the pair on which the datagram's sender sends; `None` while it is idle.
        as_source: Option<Offer>,
        /// Offer for the pair on which the datagram's sender receives.
        as_target: Option<Offer>,
    },
    /// Rates at which the sender could send and receive, in bit/s, for the host that divides the tenant's bandwidth.
    Need([f64; 2]),
    /// Rates that the other host is guaranteed to send and receive, in bit/s.
    Share([f64; 2]),
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word {
    /// Grows from datagram to datagram of one sender.
    pub number: u64,
    /// When it was sent, by the sender's clock; wraps around.
    pub sent_us: u32,
    /// The sender's position in the set.
    pub from: u16,
    /// The longest time until its next datagram about pairs, in tenths of a second.
    pub next_tenths: u8,
    /// The content.
    pub matter: Matter,
}

/// The number before a sender's first datagram, with a new epoch.
pub fn first_number() -> u64 {
    u64::from(rand::random::<u32>()) << 32
}

fn epoch(number: u64) -> u32 {
    (number >> 32) as u32
}

/// What a datagram's number shows about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It was received before, or overtaken by a later datagram.
    Old,
    /// It follows the datagrams before it.
    Next,
    /// It is the first of its sender since one of the two hosts started.
    Start,
}

/// The numbers of one sender's datagrams.
#[derive(Debug, Default)]
pub struct Numbers {
    last: Option<u64>,
    ended: BTreeSet<u32>,
}

impl Numbers {
    /// Accepts an authenticated datagram's number unless it is old.
    pub fn take(&mut self, number: u64) -> Order {
        let order = match self.last {
            None => Order::Start,
            Some(last) if epoch(last) == epoch(number) => {
                if number <= last {
                    return Order::Old;
                }
                Order::Next
            }
            Some(last) => {
                if self.ended.contains(&epoch(number)) {
                    return Order::Old;
                }
                self.ended.insert(epoch(last));
                Order::Start
            }
        };
        self.last = Some(number);
        order
    }

    /// Forgets the epochs that have ended: with a new key, none of their datagrams is authentic any more.
    pub fn renew(&mut self) {
        self.ended.clear();
    }
}

impl Word {
    /// Encodes the datagram for the host at position `to`.
    pub fn seal(&self, key: &TalkKey, to: u16) -> Vec<u8> {
        let (magic, tally, rates) = match self.matter {
            Matter::Pair {
                tally,
                as_source,
                as_target,
            } => {
                let rates = [as_source, as_target]
                    .map(|offer| offer.map_or([f64::NAN; 2], |offer| [offer.share_bps, offer.offer_bps]));
                (if tally.is_some() { PAIR } else { MIXED }, tally, rates.concat())
            }
            Matter::Need(rates) => (NEED, None, rates.to_vec()),
            Matter::Share(rates) => (SHARE, None, rates.to_vec()),
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&magic);
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.sent_us.to_be_bytes());
        bytes.extend_from_slice(&self.from.to_be_bytes());
        bytes.push(self.next_tenths);
        if let Some(tally) = tally {
            let Tally {
                units,
                lost_units,
                marked_units,
                waited_units,
                lost,
                marked,
                transit_us,
            } = tally;
            for count in [units, lost_units, marked_units, waited_units, lost, marked, transit_us] {
                bytes.extend_from_slice(&count.to_be_bytes());
            }
        }
        for rate in rates {
            bytes.extend_from_slice(&(rate as f32).to_be_bytes()[..RATE_BYTES]);
        }
        let mac = key.mac(to, &bytes);
        bytes.extend_from_slice(&mac.as_bytes()[..MAC_BYTES]);
        bytes
    }

    /// Decodes a datagram; `None` if the bytes are not a datagram to the host at position `to` from one of those for whose
    /// position there is a key. Accepts any bytes.
    pub fn open<'a>(key_of: impl FnOnce(u16) -> Option<&'a TalkKey>, to: u16, bytes: &[u8]) -> Option<Self> {
        let (body, mac) = bytes.split_at_checked(bytes.len().checked_sub(MAC_BYTES)?)?;
        let magic: [u8; 4] = take(body, 0)?;
        let from = u16::from_be_bytes(take(body, 16)?);
        // Most of what others send ends here, before a MAC is computed.
        let key = key_of(from).filter(|_| MAGICS.contains(&magic))?;
        let wanted = key.mac(to, body);
        let mut given_mac = *wanted.as_bytes();
        given_mac[..MAC_BYTES].copy_from_slice(mac);
        // blake3::Hash compares in constant time.
        if wanted != given_mac {
            return None;
        }
        let number = u64::from_be_bytes(take(body, 4)?);
        let sent_us = u32::from_be_bytes(take(body, 12)?);
        let [next_tenths] = take(body, 18)?;
        let rate = |place: usize, before: usize| -> Option<f64> {
            let [a, b, c] = take::<RATE_BYTES>(body, HEAD_BYTES + before + RATE_BYTES * place)?;
            Some(f64::from(f32::from_be_bytes([a, b, c, 0])))
        };
        let sound = |rate: &f64| *rate >= 0.0;
        let offer = |place: usize, before: usize| -> Option<Option<Offer>> {
            let rates = [rate(place, before)?, rate(place + 1, before)?];
            let [share_bps, offer_bps] = rates;
            Some(rates.iter().all(sound).then_some(Offer { share_bps, offer_bps }))
        };
        let matter = match (magic, body.len()) {
            (PAIR, length) if length == BYTES - MAC_BYTES => {
                let count = |place: usize| Some(u32::from_be_bytes(take(body, HEAD_BYTES + 4 * place)?));
                Matter::Pair {
                    tally: Some(Tally {
                        units: count(0)?,
                        lost_units: count(1)?,
                        marked_units: count(2)?,
                        waited_units: count(3)?,
                        lost: count(4)?,
                        marked: count(5)?,
                        transit_us: count(6)?,
                    }),
                    as_source: offer(0, TALLY_BYTES)?,
                    as_target: offer(2, TALLY_BYTES)?,
                }
            }
            (MIXED, length) if length == HEAD_BYTES + 4 * RATE_BYTES => Matter::Pair {
                tally: None,
                as_source: offer(0, 0)?,
                as_target: offer(2, 0)?,
            },
            (NEED | SHARE, length) if length == HEAD_BYTES + 2 * RATE_BYTES => {
                let rates = [rate(0, 0)?, rate(1, 0)?];
                if !rates.iter().all(sound) {
                    return None;
                }
                if magic == NEED {
                    Matter::Need(rates)
                } else {
                    Matter::Share(rates)
                }
            }
            _ => return None,
        };
        Some(Self {
            number,
            sent_us,
            from,
            next_tenths,
            matter,
        })
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TO: u16 = 3999;

    fn key() -> TalkKey {
        TalkKey::derive(&[5; 32])
    }

    fn open(key: &TalkKey, to: u16, bytes: &[u8]) -> Option<Word> {
        Word::open(|_| Some(key), to, bytes)
    }

    fn word() -> Word {
        Word {
            number: 77 << 32 | 5,
            sent_us: u32::MAX,
            from: 258,
            next_tenths: 20,
            matter: Matter::Pair {
                tally: Some(Tally {
                    units: u32::MAX,
                    lost_units: 3,
                    marked_units: 4,
                    waited_units: 8,
                    lost: 5,
                    marked: 6,
                    transit_us: 7,
                }),
                as_source: None,
                as_target: Some(Offer {
                    // Its last bits are zeros, as in encoded rates.
                    share_bps: 45_056_000.0,
                    offer_bps: f64::INFINITY,
                }),
            },
        }
    }

    #[test]
    fn a_word_is_read_as_it_was_said() {
        let read = open(&key(), TO, &word().seal(&key(), TO)).unwrap();
        assert_eq!(read, word());
        let mut mixed = word();
        let Matter::Pair { tally, .. } = &mut mixed.matter else {
            unreachable!();
        };
        *tally = None;
        let bytes = mixed.seal(&key(), TO);
        assert_eq!(
            (open(&key(), TO, &bytes), bytes.len()),
            (Some(mixed), BYTES - TALLY_BYTES)
        );
        for matter in [Matter::Need([f64::INFINITY, 0.0]), Matter::Share([45e6, 1e6])] {
            let sent = Word {
                number: 1,
                sent_us: 0,
                from: 0,
                next_tenths: 0,
                matter,
            };
            let Some(Word { number: 1, matter, .. }) = open(&key(), TO, &sent.seal(&key(), TO)) else {
                panic!("{sent:?}");
            };
            let (Matter::Need(decoded) | Matter::Share(decoded), Matter::Need(original) | Matter::Share(original)) =
                (matter, sent.matter)
            else {
                panic!("{matter:?}");
            };
            for (decoded, original) in decoded.into_iter().zip(original) {
                // Rounded down, never up: shares must not add up to more than the total.
                assert!(
                    decoded <= original && decoded >= original * (1.0 - 1.0 / 30_000.0)
                        || decoded.to_bits() == original.to_bits()
                );
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_was_changed_is_refused(at in 0..BYTES, flip in 1u8..) {
            let mut bytes = word().seal(&key(), TO);
            bytes[at] ^= flip;
            prop_assert_eq!(open(&key(), TO, &bytes), None);
        }

        #[test]
        fn any_bytes_are_safe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(open(&key(), TO, &bytes), None);
        }
    }

    #[test]
    fn a_sender_that_restarts_is_heard_whatever_its_epoch() {
        let number = |epoch: u64, count: u64| epoch << 32 | count;
        let mut numbers = Numbers::default();
        let orders = [
            (number(9, 1), Order::Start),
            (number(9, 2), Order::Next),
            (number(9, 2), Order::Old),
            (number(9, 1), Order::Old),
            // An epoch from a clock would be later.
            (number(3, 1), Order::Start),
            (number(3, 2), Order::Next),
            (number(9, 7), Order::Old),
            (number(u64::from(u32::MAX), 1), Order::Start),
            (number(3, 3), Order::Old),
            (number(9, 8), Order::Old),
            (number(u64::from(u32::MAX), 2), Order::Next),
        ];
        for (number, order) in orders {
            assert_eq!(numbers.take(number), order, "{number:x}");
        }
        numbers.renew();
        assert_eq!(numbers.take(number(u64::from(u32::MAX), 2)), Order::Old);
        assert_eq!(numbers.take(number(9, 1)), Order::Start);
        assert_ne!(first_number(), first_number());
    }

    #[test]
    fn another_set_or_host_is_refused() {
        let bytes = word().seal(&key(), TO);
        // A host that has the key of its own pairs cannot speak for another one.
        let own = TalkKey::derive(&[7; 32]);
        let keys = [(word().from, &key()), (9, &own)].map(|(from, key)| (from, key.clone()));
        let key_of = |from: u16| keys.iter().find(|(known, _)| *known == from).map(|(_, key)| key);
        assert_eq!(Word::open(key_of, TO, &bytes), Some(word()));
        assert_eq!(Word::open(key_of, TO, &word().seal(&own, TO)), None);
        assert_eq!(Word::open(|_| None, TO, &bytes), None);
        assert_eq!(open(&TalkKey::derive(&[6; 32]), TO, &bytes), None);
        assert_eq!(open(&key(), TO - 1, &bytes), None);
    }
}
