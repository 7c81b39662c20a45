//! Cornet (Orchestra, section 5): receivers fetch whole blocks, one a connection at a time, from peers that a tracker names at
//! random.
//!
//! The constants are those of the early public source by the same authors.

use std::collections::{BTreeMap, BTreeSet};

use super::blocks::Blocks;

/// Blocks that a host receives, and that it sends, at one time.
pub const SLOTS: usize = 4;
/// Peers in one answer of the tracker.
pub const ANSWER: usize = 4;
/// Between two answers, at random in this range.
pub const POLL_S: std::ops::Range<f64> = 0.5..1.0;
/// Once a receiver has this share, a block may be under way twice.
const ENDGAME: f64 = 0.95;

/// Random numbers from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of the first `count` numbers; 0 when there is none.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// A number in a range.
    pub fn within(&mut self, range: std::ops::Range<f64>) -> f64 {
        range.start + (range.end - range.start) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// At most `most` of them, in a random order.
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
    /// Knows nobody yet.
    pub fn new(seed: u64) -> Self {
        Self {
            peers: BTreeMap::new(),
            talking: BTreeSet::new(),
            requested: BTreeMap::new(),
            random: Random::new(seed),
        }
    }

    /// Takes the tracker's answer, which replaces the one before.
    pub fn told(&mut self, peers: BTreeMap<String, Blocks>) {
        self.peers = peers;
    }

    /// Begins to talk to a peer: of those that nobody talks to, the one with most blocks that are lacking.
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

    /// Asks a peer for a block that it has and that is lacking and not asked for yet; near the end, asked for or not.
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

    /// Takes that another block is coming from a peer than the one asked for.
    pub fn substituted(&mut self, peer: &str, block: u32) {
        self.requested.insert(peer.to_owned(), block);
    }

    /// Talks to a peer no longer.
    pub fn end(&mut self, peer: &str) {
        self.talking.remove(peer);
        self.requested.remove(peer);
    }
}

/// The source's rule: until each block went out once, it sends the next that has not, whatever is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rotation(u32);

impl Rotation {
    /// What to send for a request, of `count` blocks.
    pub fn instead_of(&mut self, requested: u32, count: u32) -> u32 {
        if self.0 >= count {
            return requested;
        }
        self.0 += 1;
        self.0 - 1
    }
}

/// How blocks go from partition to partition, so that each leaves and enters one at most once.
///
/// The published way is that the source serves all partitions: it then sends a copy to each, and its own port takes as many times
/// the bound. Here it serves its own, or, where that has no receivers, the first; from this home a block goes round the others,
/// each time from another one on, so that all pass on as much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The partition that the source serves.
    pub home: usize,
    /// The others, in order.
    pub others: Vec<usize>,
}

impl Round {
    /// Of the source's partition and those of all receivers.
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

    /// The partition that a partition has a block from; none for the home.
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

/// Partitions, and who fetches what for them.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    partitions: Vec<usize>,
    /// By host: when it is answered next.
    pub(super) polls_s: Vec<f64>,
    /// By partition and block: who fetches it from outside, and since when.
    pub(super) fetchers: BTreeMap<(usize, u32), (usize, f64)>,
}

impl Tracker {
    /// Nobody fetches anything yet.
    pub fn new(partitions: Vec<usize>, hosts: usize) -> Self {
        Self {
            partitions,
            polls_s: vec![0.0; hosts],
            fetchers: BTreeMap::new(),
        }
    }

    /// The receiver's next answer is due at once.
    pub fn soon(&mut self, host: usize, now_s: f64) {
        self.polls_s[host] = now_s;
    }

    /// A host's partition; 0 where none is known.
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
        picker.told(
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
