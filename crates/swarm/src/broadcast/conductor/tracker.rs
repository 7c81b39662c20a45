//! A Cornet's tracker: which peers it names to a receiver, and which blocks of each.
//!
//! If receivers keep to partitions, one member fetches each block from outside; the tracker names the block to that
//! member only.

use gavotte_net::Seconds;

use super::super::blocks::Blocks;
use super::super::cornet::{ANSWER, POLL_S, Round, Tracker};
use super::{Conductor, Overlay, Standing};

/// Largest number of a receiver's peers that may be in other partitions.
const OUTSIDE: usize = 2;
/// After this long, another member may fetch a block from outside.
const FETCH_S: f64 = 4.0;
/// With partitions, answers come this many times sooner, since a block waits for an answer in each partition on its
/// way.
const SOONER: f64 = 4.0;

impl Conductor {
    /// The answers that are due: each host with random peers, and the blocks of each peer.
    pub fn answers(&mut self, Seconds(now_s): Seconds) -> Vec<(usize, Vec<(usize, Blocks)>)> {
        let Overlay::Cornet(tracker) = &mut self.overlay else {
            return Vec::new();
        };
        let mut tracker = std::mem::take(tracker);
        let round = self.round(&tracker);
        let mut answers = Vec::new();
        for host in self.ground.receivers().to_vec() {
            if self.nodes[host].standing != Standing::Live || now_s < tracker.polls_s[host] {
                continue;
            }
            let mut peers = self.outside(&mut tracker, &round, host, now_s);
            // A host without blocks cannot serve.
            let known: Vec<usize> = (self.ground.members())
                .filter(|&peer| peer != host && self.nodes[peer].takes_part() && !self.nodes[peer].have.is_empty())
                .filter(|&peer| self.shares(&tracker, &round, host, peer))
                .collect();
            let chosen = self.random.some(known, ANSWER - peers.len());
            peers.extend(chosen.into_iter().map(|peer| (peer, self.nodes[peer].have.clone())));
            answers.push((host, peers));
            let pause_s = self.random.within(POLL_S);
            tracker.polls_s[host] = now_s
                + if round.others.is_empty() {
                    pause_s
                } else {
                    pause_s / SOONER
                };
        }
        self.overlay = Overlay::Cornet(tracker);
        answers
    }

    /// Whether a host may get all of a peer's blocks.
    fn shares(&self, tracker: &Tracker, round: &Round, host: usize, peer: usize) -> bool {
        let source = self.ground.source();
        if !self.nodes[source].takes_part() {
            // If the source is lost, a host may get blocks from any peer.
            return true;
        }
        let of = if peer == source {
            round.home
        } else {
            tracker.partition(peer)
        };
        tracker.partition(host) == of
    }

    /// The order in which blocks pass from partition to partition, for the receivers that take part.
    fn round(&self, tracker: &Tracker) -> Round {
        let receivers = self.ground.receivers().iter();
        let live = receivers.filter(|&&host| self.nodes[host].takes_part());
        let own = tracker.partition(self.ground.source());
        Round::new(own, live.map(|&host| tracker.partition(host)))
    }

    /// Peers in other partitions, each with the blocks that the host fetches from it: blocks that no other member has
    /// or fetches.
    fn outside(&self, tracker: &mut Tracker, round: &Round, host: usize, now_s: f64) -> Vec<(usize, Blocks)> {
        let own = tracker.partition(host);
        if own == round.home || !self.nodes[self.ground.source()].takes_part() {
            return Vec::new();
        }
        let receivers = || self.ground.receivers().iter().copied();
        let members: Vec<usize> = receivers()
            .filter(|&other| self.nodes[other].takes_part() && tracker.partition(other) == own)
            .collect();
        let mut present = Blocks::none(self.layout.count());
        for &member in &members {
            present.add(&self.nodes[member].have);
        }
        let mut lacking = Blocks::all(self.layout.count()).without(&present);
        for block in lacking.clone().iter() {
            let fetcher = tracker.fetchers.get(&(own, block));
            if fetcher
                .is_some_and(|&(other, since_s)| other != host && members.contains(&other) && now_s < since_s + FETCH_S)
            {
                lacking.remove(block);
            }
        }
        let mut share = lacking.len().div_ceil(members.len().max(1) as u32);
        let mut peers: Vec<(usize, Blocks)> = Vec::new();
        while peers.len() < OUTSIDE && share > 0 {
            let gives = |peer: usize| {
                let mut blocks = self.nodes[peer].have.within(&lacking);
                for block in blocks
                    .clone()
                    .iter()
                    .filter(|&block| round.before(own, block) != Some(tracker.partition(peer)))
                {
                    blocks.remove(block);
                }
                blocks
            };
            let able = receivers().filter(|&peer| self.nodes[peer].takes_part() && tracker.partition(peer) != own);
            let best = able
                .map(|peer| (peer, gives(peer)))
                .max_by_key(|(_, blocks)| blocks.len());
            let Some((peer, blocks)) = best.filter(|(_, blocks)| !blocks.is_empty()) else {
                break;
            };
            let mut chosen = Blocks::none(self.layout.count());
            for block in blocks.iter().take(share as usize) {
                chosen.insert(block);
                let since_s = tracker.fetchers.get(&(own, block)).filter(|(other, _)| *other == host);
                let since_s = since_s.map_or(now_s, |(_, since_s)| *since_s);
                tracker.fetchers.insert((own, block), (host, since_s));
            }
            share -= chosen.len();
            lacking = lacking.without(&chosen);
            peers.push((peer, chosen));
        }
        peers
    }
}
