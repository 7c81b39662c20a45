//! A Cornet's tracker: which peers a receiver is told of, and what each of them has.
//!
//! Where receivers keep to partitions, each block is fetched from outside by one member, who is told of it alone.

use super::super::blocks::Blocks;
use super::super::cornet::{ANSWER, POLL_S, Round, Tracker};
use super::{Conductor, Overlay, Standing};

/// Of a receiver's peers, so many may be of another partition.
const OUTSIDE: usize = 2;
/// A block that a member was to fetch from outside is another's after so long.
const FETCH_S: f64 = 4.0;
/// Where there are partitions, answers come so many times sooner: on its way a block waits for one in each of them.
const SOONER: f64 = 4.0;

impl Conductor {
    /// The tracker's answers that are due: hosts, and some random peers of each with what they have.
    pub fn answers(&mut self, now_s: f64) -> Vec<(usize, Vec<(usize, Blocks)>)> {
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
            // Who has nothing yet is no source.
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

    /// Whether a host may have from a peer all that this has.
    fn shares(&self, tracker: &Tracker, round: &Round, host: usize, peer: usize) -> bool {
        let source = self.ground.source();
        if !self.nodes[source].takes_part() {
            // What the source cannot give any more is had from wherever it is.
            return true;
        }
        let of = if peer == source {
            round.home
        } else {
            tracker.partition(peer)
        };
        tracker.partition(host) == of
    }

    /// How blocks go from partition to partition, of receivers that take part.
    fn round(&self, tracker: &Tracker) -> Round {
        let receivers = self.ground.receivers().iter();
        let live = receivers.filter(|&&host| self.nodes[host].takes_part());
        let own = tracker.partition(self.ground.source());
        Round::new(own, live.map(|&host| tracker.partition(host)))
    }

    /// Peers of other partitions, each with what the host is to fetch from it: blocks that no other member has or fetches.
    fn outside(&self, tracker: &mut Tracker, round: &Round, host: usize, now_s: f64) -> Vec<(usize, Blocks)> {
        let own = tracker.partition(host);
        if own == round.home || !self.nodes[self.ground.source()].takes_part() {
            return Vec::new();
        }
        let receivers = || self.ground.receivers().iter().copied();
        let members: Vec<usize> = receivers()
            .filter(|&other| self.nodes[other].takes_part() && tracker.partition(other) == own)
            .collect();
        let mut there = Blocks::none(self.layout.count());
        for &member in &members {
            there.add(&self.nodes[member].have);
        }
        let mut lacking = Blocks::all(self.layout.count()).without(&there);
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
