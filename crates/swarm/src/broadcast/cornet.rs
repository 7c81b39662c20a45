//! Cornet (Orchestra, section 5): receivers fetch whole blocks, one at a time per connection, from random peers that a
//! tracker names.
//!
//! The constants are those of the same authors' early public source code.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::Blocks;

/// Number of blocks that a host receives at the same time; also the number that it sends at the same time.
pub const SLOTS: usize = 4;
/// Number of peers in one answer of the tracker.
pub const ANSWER: usize = 4;
/// Time between two answers, chosen at random from this range.
pub const POLL_S: std::ops::Range<f64> = 0.5..1.0;
/// Once a receiver has this share of the blocks, it may request a block from two peers.
const ENDGAME: f64 = 0.95;

/// Random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `count`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// A random number in a range.
    pub fn within(&mut self, range: std::ops::Range<f64>) -> f64 {
        range.start + (range.end - range.start) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// At most `most` of the items, in a random order.
    pub fn some<T>(&mut self, mut of: Vec<T>, most: usize) -> Vec<T> {
        let mut chosen = Vec::new();
        while !of.is_empty() && chosen.len() < most {
            chosen.push(of.swap_remove(self.below(of.len())));
        }
        chosen
    }
}

/// A receiver's choice of peers and blocks.
#[derive(Clone, Debug)]
pub struct Picker {
    peers: BTreeMap<String, Blocks>,
    talking: BTreeSet<String>,
    requested: BTreeMap<String, u32>,
    random: Random,
}

impl Picker {
    /// A receiver that does not know any peer yet.
    pub fn new(seed: u64) -> Self {
        Self {
            peers: BTreeMap::new(),
            talking: BTreeSet::new(),
            requested: BTreeMap::new(),
            random: Random::new(seed),
        }
    }

    /// Replaces the known peers by the tracker's answer.
    pub fn set_peers(&mut self, peers: BTreeMap<String, Blocks>) {
        self.peers = peers;
    }

    /// Starts a conversation: picks the free peer with the most blocks that this receiver lacks.
    pub fn peer(&mut self, have: &Blocks) -> Option<String> {
        let useful = |(name, blocks): (&String, &Blocks)| (blocks.without(have).len(), name.clone());
        let free = self.peers.iter().filter(|(name, _)| !self.talking.contains(*name));
        let useful: Vec<_> = free.map(useful).filter(|(count, _)| *count > 0).collect();
        let most = useful.iter().map(|(count, _)| *count).max()?;
        let mut best: Vec<_> = useful.into_iter().filter(|(count, _)| *count == most).collect();
        let (_, name) = best.swap_remove(self.random.below(best.len()));
        self.talking.insert(name.clone());
        Some(name)
    }

    /// Picks a block to request from a peer. The peer has the block, this receiver lacks it, and no other peer was
    /// asked for it. Near the end a block may be requested twice.
    pub fn block(&mut self, peer: &str, have: &Blocks) -> Option<u32> {
        self.requested.remove(peer);
        let mut wanted = self.peers.get(peer)?.without(have);
        if f64::from(have.len()) < ENDGAME * f64::from(have.count()) {
            for &block in self.requested.values() {
                wanted.remove(block);
            }
        }
        let wanted: Vec<u32> = wanted.iter().collect();
        let block = wanted.get(self.random.below(wanted.len())).copied()?;
        self.requested.insert(peer.to_owned(), block);
        Some(block)
    }

    /// Records that a peer sends another block than the requested one.
    pub fn substituted(&mut self, peer: &str, block: u32) {
        self.requested.insert(peer.to_owned(), block);
    }

    /// Ends the conversation with a peer.
    pub fn end(&mut self, peer: &str) {
        self.talking.remove(peer);
        self.requested.remove(peer);
    }
}

/// The source's rule: until it has sent every block once, it sends the next unsent block, whichever block a peer
/// requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation(u32);

impl Rotation {
    /// The block to send for a request; the object has `count` blocks.
    pub fn instead_of(&mut self, requested: u32, count: u32) -> u32 {
        if self.0 >= count {
            return requested;
        }
        self.0 += 1;
        self.0 - 1
    }
}

/// The order in which blocks pass from partition to partition, such that each block leaves and enters a partition at
/// most once.
///
/// In the published way the source serves all partitions. It then sends one copy to each, so its own port takes that
/// many times the bound. Here the source serves one partition only, the home:
///
/// 1. The home is the source's own partition, or the first partition if the source's own has no receivers.
/// 2. From the home, each block passes through all other partitions in a circle.
/// 3. Consecutive blocks enter the circle at different partitions, so that all partitions pass on equally much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The partition that the source serves.
    pub home: usize,
    /// The other partitions, in order.
    pub others: Vec<usize>,
}

impl Round {
    /// The order for the source's partition `own` and the partitions of all receivers.
    pub fn new(own: usize, receivers: impl Iterator<Item = usize>) -> Self {
        let mut others: BTreeSet<usize> = receivers.collect();
        let home = if others.contains(&own) {
            Some(own)
        } else {
            others.first().copied()
        };
        let home = home.unwrap_or(own);
        others.remove(&home);
        Self {
            home,
            others: others.into_iter().collect(),
        }
    }

    /// The partition from which a partition gets a block; `None` for the home.
    pub fn before(&self, partition: usize, block: u32) -> Option<usize> {
        let place = self.others.binary_search(&partition).ok()?;
        let count = self.others.len();
        let first = block as usize % count;
        Some(if place == first {
            self.home
        } else {
            self.others[(place + count - 1) % count]
        })
    }
}

/// Partitions, and the hosts that fetch blocks for them.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    partitions: Vec<usize>,
    /// By host: when the tracker answers it next, in seconds.
    pub(super) polls_s: Vec<f64>,
    /// By partition and block: the host that fetches the block from another partition, and since when.
    pub(super) fetchers: BTreeMap<(usize, u32), (usize, f64)>,
}

impl Tracker {
    /// A tracker without any fetch.
    pub fn new(partitions: Vec<usize>, hosts: usize) -> Self {
        Self {
            partitions,
            polls_s: vec![0.0; hosts],
            fetchers: BTreeMap::new(),
        }
    }

    /// Makes the receiver's next answer due now.
    pub fn soon(&mut self, host: usize, now_s: f64) {
        self.polls_s[host] = now_s;
    }

    /// A host's partition; 0 if none is known.
    pub fn partition(&self, host: usize) -> usize {
        self.partitions.get(host).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_goes_through_each_partition_once() {
        for (own, receivers) in [(0, vec![0, 1, 2, 5]), (7, vec![2, 4, 6]), (0, vec![0]), (3, vec![])] {
            let round = Round::new(own, receivers.iter().copied());
            for block in 0..9 {
                let mut chain = vec![round.home];
                while let Some(next) =
                    (round.others.iter()).find(|&&other| round.before(other, block) == chain.last().copied())
                {
                    chain.push(*next);
                    assert!(chain.len() <= receivers.len());
                }
                assert_eq!(chain.len(), receivers.len().max(1), "{block} of {receivers:?}");
            }
            assert_eq!(round.before(round.home, 0), None);
        }
    }

    fn blocks(of: &[u32]) -> Blocks {
        let mut blocks = Blocks::none(8);
        for &block in of {
            blocks.insert(block);
        }
        blocks
    }

    #[test]
    fn the_peer_with_most_that_is_lacking_is_asked_for_what_nobody_is() {
        let mut picker = Picker::new(1);
        let have = blocks(&[0]);
        assert_eq!(picker.peer(&have), None);
        let peers = [("a", blocks(&[0, 1])), ("b", blocks(&[1, 2, 3])), ("c", blocks(&[0]))];
        picker.set_peers(
            peers
                .into_iter()
                .map(|(name, blocks)| (name.to_owned(), blocks))
                .collect(),
        );
        assert_eq!(picker.peer(&have).as_deref(), Some("b"));
        assert_eq!(picker.peer(&have).as_deref(), Some("a"));
        assert_eq!(picker.peer(&have), None);
        assert_eq!(picker.block("a", &have), Some(1));
        let other = picker.block("b", &have).unwrap();
        assert!([2, 3].contains(&other));
        picker.substituted("b", 5);
        picker.end("a");
        assert_eq!(picker.peer(&have).as_deref(), Some("a"));
        assert_eq!(picker.block("c", &have), None);
    }

    #[test]
    fn the_source_sends_each_block_once_first() {
        let mut rotation = Rotation::default();
        let sent: Vec<u32> = (0..6).map(|_| rotation.instead_of(3, 4)).collect();
        assert_eq!(sent, [0, 1, 2, 3, 3, 3]);
    }

    #[test]
    fn a_draw_has_nothing_twice() {
        let mut drawn = Random::new(7).some((0..10).collect(), 4);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 4);
        assert!(Random::new(7).within(POLL_S) < 1.0);
    }
}
