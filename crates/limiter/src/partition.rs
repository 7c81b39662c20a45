//! Guarantee partitioning (`ElasticSwitch`, section 4.1): divides hose guarantees into guarantees of pairs.

use std::collections::BTreeMap;

use gavotte_net::{Bandwidth, Bytes, Seconds};

use crate::fill::Fill;
use crate::parameters::Partition;

/// A rate is averaged over as many divisions as carry this many bytes, since packets come in bursts: a pair of 1 Mbit/s
/// sends none to four packets between two divisions, and its demand must not follow that.
const RATE_BYTES: f64 = 64_000.0;
/// But each division counts for this share at least.
const RATE_LEAST: f64 = 0.15;

/// The end of its pairs at which a [`Partitioner`] runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The sending end, which knows how much pairs could send.
    Source,
    /// The receiving end, which relies on the sources' offers.
    Target,
}

/// The message of one end of a pair to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offer {
    /// The pair's share of the hose of this end, in bit/s. All shares of a hose add up to at most the hose.
    pub share_bps: f64,
    /// The share that the pair could have if the other end set no bound, in bit/s; from the source, at most its demand.
    /// Both ends divide by the other's offer. They thus find the max-min fair division in two rounds for each of its
    /// levels.
    pub offer_bps: f64,
}

/// The result of a division for one pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share<K> {
    /// The host at the other end.
    pub peer: K,
    /// The same as [`Offer::share_bps`].
    pub share_bps: f64,
    /// The same as [`Offer::offer_bps`].
    pub offer_bps: f64,
    /// The guarantee of the pair in bit/s: the lower share of both ends. It is this end's share until the other end's
    /// first offer, and again after a silence of [`Partition::silence_s`].
    pub guarantee_bps: f64,
}

impl<K> Share<K> {
    /// The offer for the other end.
    pub fn offer(&self) -> Offer {
        Offer {
            share_bps: self.share_bps,
            offer_bps: self.offer_bps,
        }
    }
}

/// Divides the hose guarantee of one host in one direction among its active pairs.
#[derive(Clone, Debug)]
pub struct Partitioner<K> {
    end: End,
    hose_bps: f64,
    rules: Partition,
    pairs: BTreeMap<K, PairState>,
    last_s: Option<f64>,
    settled: bool,
}

#[derive(Clone, Debug)]
struct PairState {
    /// Bytes since the last division.
    bytes: u64,
    limit_bps: f64,
    /// Bytes since the pair's first packet, which show whether it is a mouse.
    total_bytes: u64,
    /// Whether the pair has a share; a paused pair is remembered for a while.
    active: bool,
    rate_bps: f64,
    active_s: Option<f64>,
    heard: Option<(f64, Offer)>,
    share_bps: f64,
    offer_bps: f64,
}

impl<K: Copy + Ord> Partitioner<K> {
    /// Creates the partitioner of a hose of `hose_bps`.
    pub fn new(end: End, Bandwidth(hose_bps): Bandwidth, rules: &Partition) -> Self {
        Self {
            end,
            hose_bps,
            rules: *rules,
            pairs: BTreeMap::new(),
            last_s: None,
            settled: false,
        }
    }

    /// Changes the hose from the next division on.
    pub fn set_hose(&mut self, Bandwidth(hose_bps): Bandwidth) {
        self.settled &= (hose_bps - self.hose_bps).abs() < f64::EPSILON;
        self.hose_bps = hose_bps;
    }

    /// The hose in bit/s.
    pub fn hose_bps(&self) -> f64 {
        self.hose_bps
    }

    /// Adds the bytes that a pair sent (behind its limiter) or received since the last call. Zero `bytes` announce a
    /// new pair. `limit_bps` is the pair's limiter; a [`End::Target`] does not know it and passes infinity.
    pub fn observe(&mut self, peer: K, Bytes(bytes): Bytes, Bandwidth(limit_bps): Bandwidth) {
        if let Some(pair) = self.pairs.get_mut(&peer) {
            pair.bytes += bytes;
            pair.total_bytes += bytes;
            pair.limit_bps = limit_bps;
            return;
        }
        // Looks at all pairs, so only for a new one.
        let newcomer_bps = self.newcomer_bps();
        let pair = PairState {
            bytes,
            limit_bps,
            total_bytes: bytes,
            active: false,
            rate_bps: 0.0,
            active_s: None,
            heard: None,
            share_bps: newcomer_bps,
            offer_bps: newcomer_bps,
        };
        self.pairs.insert(peer, pair);
    }

    /// Records the offer from the other end of a pair. Ignored for a pair that was never observed.
    pub fn hear(&mut self, peer: K, Seconds(now_s): Seconds, offer: Offer) {
        if let Some(pair) = self.pairs.get_mut(&peer) {
            pair.heard = Some((now_s, offer));
        }
    }

    /// Removes a pair at once. Pairs without traffic for [`Partition::idle_s`] are removed automatically.
    pub fn forget(&mut self, peer: K) {
        self.pairs.remove(&peer);
    }

    /// Whether it is time to divide: [`Partition::period_s`] has passed, or there is a new pair, which should not wait.
    pub fn is_due(&self, Seconds(now_s): Seconds) -> bool {
        let waited = self.last_s.is_none_or(|last_s| now_s - last_s >= self.rules.period_s);
        waited || self.pairs.values().any(|pair| pair.active_s.is_none())
    }

    /// The share of the hose that a new pair would get until the next division, in bit/s: an equal part, or a part of
    /// the slot for mice.
    pub fn newcomer_bps(&self) -> f64 {
        let count = self.pairs.values().filter(|pair| pair.active).count() as f64 + 1.0;
        if self.rules.mice_bytes == 0 {
            return self.hose_bps / count;
        }
        let mice = self
            .pairs
            .values()
            .filter(|pair| pair.active && self.is_mouse(pair))
            .count();
        (self.hose_bps * self.rules.mice_floor / (mice as f64 + 1.0)).min(self.hose_bps / count)
    }

    /// The present guarantee of a pair in bit/s, between two divisions.
    pub fn guarantee_bps(&self, peer: K, Seconds(now_s): Seconds) -> Option<f64> {
        self.pairs.get(&peer).map(|pair| self.guarantee(pair, now_s))
    }

    /// Divides the hose among the active pairs again. Returns the shares by peer, in ascending order; they add up to
    /// the hose.
    pub fn partition(&mut self, Seconds(now_s): Seconds) -> Vec<Share<K>> {
        self.measure(now_s);
        let entries = self.entries(now_s);
        let bounds: Vec<f64> = entries.iter().map(|entry| entry.bound_bps).collect();
        let fill = Fill::new(self.hose_bps, &bounds);
        // The rest is divided equally among all pairs, as room to grow and as a guarantee for new traffic.
        let more_bps = fill.left_bps() / entries.len().max(1) as f64;
        let mut shares = Vec::with_capacity(self.pairs.len());
        for ((entry, share_bps), offer_bps) in entries.into_iter().zip(fill.shares()).zip(fill.offers()) {
            let count = entry.peers.len() as f64;
            let offer_bps = offer_bps.min(entry.demand_bps);
            for peer in entry.peers {
                shares.push((peer, (share_bps + more_bps) / count, offer_bps / count));
            }
        }
        let steady = self.settled
            && shares.iter().all(|(peer, share_bps, _)| {
                let before = self.pairs[peer].share_bps;
                (share_bps - before).abs() <= self.rules.hysteresis * before
            });
        self.settled = true;
        for (peer, share_bps, offer_bps) in shares {
            if let Some(pair) = self.pairs.get_mut(&peer) {
                pair.offer_bps = offer_bps;
                pair.share_bps = if steady { pair.share_bps } else { share_bps };
            }
        }
        let share = |(&peer, pair): (&K, &PairState)| Share {
            peer,
            share_bps: pair.share_bps,
            offer_bps: pair.offer_bps,
            guarantee_bps: self.guarantee(pair, now_s),
        };
        self.pairs.iter().filter(|(_, pair)| pair.active).map(share).collect()
    }

    /// Converts bytes into rates and removes idle pairs.
    fn measure(&mut self, now_s: f64) {
        let elapsed_s = self.last_s.map_or(self.rules.period_s, |last_s| now_s - last_s);
        let Partition {
            period_s,
            idle_s,
            silence_s,
            mice_bytes,
            ..
        } = self.rules;
        // A time that is too short gives no rate: continue to count until the next division.
        let counts = elapsed_s >= period_s / 2.0;
        let mut same = true;
        self.pairs.retain(|_, pair| {
            let before = pair.active;
            // A mouse sends one burst and no more.
            let fresh = !before || pair.total_bytes < mice_bytes;
            if pair.bytes > 0 || pair.active_s.is_none() {
                pair.active_s = Some(now_s);
            }
            if counts {
                let bytes = std::mem::take(&mut pair.bytes) as f64;
                let part = if fresh {
                    1.0
                } else {
                    (bytes / RATE_BYTES).clamp(RATE_LEAST, 1.0)
                };
                pair.rate_bps += part * (bytes * 8.0 / elapsed_s - pair.rate_bps);
            }
            let silent_s = pair.active_s.map_or(f64::INFINITY, |active_s| now_s - active_s);
            pair.active = silent_s < idle_s;
            same &= pair.active == before;
            silent_s < idle_s.max(silence_s)
        });
        self.settled &= same;
        self.last_s = if counts { Some(now_s) } else { self.last_s };
    }

    /// The pairs, with all mice as one, and the highest rate that each can use.
    fn entries(&self, now_s: f64) -> Vec<Entry<K>> {
        let mut entries = Vec::with_capacity(self.pairs.len());
        let (mut mice, mut mice_bps) = (Vec::new(), 0.0);
        for (&peer, pair) in self.pairs.iter().filter(|(_, pair)| pair.active) {
            if self.is_mouse(pair) {
                mice.push(peer);
                mice_bps += pair.rate_bps;
                continue;
            }
            let demand_bps = self.demand(pair);
            let remote_bps = self.heard(pair, now_s).map_or(f64::INFINITY, |offer| offer.offer_bps);
            entries.push(Entry {
                peers: vec![peer],
                demand_bps,
                bound_bps: demand_bps.min(remote_bps),
            });
        }
        if !mice.is_empty() {
            let least_bps = self.rules.mice_floor * self.hose_bps;
            let demand_bps = (self.rules.growth * mice_bps).max(least_bps);
            entries.push(Entry {
                peers: mice,
                demand_bps,
                bound_bps: demand_bps,
            });
        }
        entries
    }

    /// The rate that a pair would use, in bit/s.
    fn demand(&self, pair: &PairState) -> f64 {
        let Partition {
            full_use,
            growth,
            floor,
            ..
        } = self.rules;
        if self.end == End::Target || pair.rate_bps >= full_use * pair.limit_bps {
            return f64::INFINITY;
        }
        (growth * pair.rate_bps).max(floor * self.hose_bps)
    }

    fn is_mouse(&self, pair: &PairState) -> bool {
        pair.total_bytes < self.rules.mice_bytes
    }

    /// The last offer of the other end, unless the other end has been silent for too long.
    fn heard(&self, pair: &PairState, now_s: f64) -> Option<Offer> {
        let fresh = |(at_s, _): &(f64, Offer)| now_s - at_s <= self.rules.silence_s;
        pair.heard.filter(fresh).map(|(_, offer)| offer)
    }

    fn guarantee(&self, pair: &PairState, now_s: f64) -> f64 {
        let remote_bps = self.heard(pair, now_s).map_or(f64::INFINITY, |offer| offer.share_bps);
        pair.share_bps.min(remote_bps)
    }
}

/// The owner of one share of the hose: a pair, or all mice together.
struct Entry<K> {
    peers: Vec<K>,
    demand_bps: f64,
    bound_bps: f64,
}
