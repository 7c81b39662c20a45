//! What one host's keeper hears from other agents, and sends to them.

use std::net::{IpAddr, SocketAddr};

use gavotte_net::{Bandwidth, Seconds};

use crate::guarantee::keeping::Keeper;
use crate::guarantee::peer::{Peer, around_bytes};
use crate::guarantee::talk::{Matter, Order, Word};
use crate::guarantee::wire::now_us;

impl Keeper {
    /// Receives all datagrams that have arrived.
    pub(super) fn hear(&mut self, now_s: f64) {
        let (keys, own) = (&self.keys, self.duty.own.position);
        let mut words = Vec::new();
        let ahead_us = self.wire.hear(|from, bytes, stamp_us| {
            words.extend(Word::open(|from| keys.get(&from), own, bytes).map(|word| (from, word, stamp_us)));
        });
        for (from, word, stamp_us) in words {
            let arrived_us = stamp_us
                .zip(ahead_us)
                .map(|(stamp_us, ahead_us)| stamp_us.wrapping_sub(ahead_us));
            self.take(now_s, from, &word, arrived_us);
        }
    }

    fn take(&mut self, now_s: f64, origin: SocketAddr, word: &Word, arrived_us: Option<u32>) {
        let Some(from) = self.duty.at(word.from) else {
            return;
        };
        let Some((hose, other)) = self.duty.peers.get(&from).zip(self.others.get_mut(&from)) else {
            return;
        };
        let order = other.numbers.take(word.number);
        if order == Order::Old {
            return;
        }
        self.moved |= other.note_origin(hose, origin);
        other.heard_s = Some(now_s);
        other.note_next(word.next_tenths);
        other.out.interval_s = 0.1 * f64::from(word.next_tenths);
        if order == Order::Start {
            self.shaper.renumber(from);
            other.incoming.renumber();
            other.out.forget();
        }
        if let Some(arrived_us) = arrived_us {
            other.incoming.time(now_s, arrived_us.wrapping_sub(word.sent_us));
            let most_s = self.duty.parameters.delayed.delay_most_s;
            let waited = other.incoming.waited(now_s, most_s);
            self.common.note(Seconds(now_s), from, waited);
        }
        let (tally, as_source, as_target) = match word.matter {
            Matter::Pair {
                tally,
                as_source,
                as_target,
            } => (tally, as_source, as_target),
            matter => return self.part.hear(&self.duty, from, now_s, matter),
        };
        other.heard = [as_target, as_source];
        if let Some(offer) = as_source {
            self.sources.hear(from, Seconds(now_s), offer);
        }
        if let Some(offer) = as_target {
            self.targets.hear(from, Seconds(now_s), offer);
        }
        other.out.set_distinguished(tally.is_some());
        let Some(tally) = tally else {
            return;
        };
        let round_trip = other.incoming.round_trip(&tally);
        if let Some(feedback) = other.out.report(now_s, word.sent_us, tally)
            && let Some(allocator) = &mut other.out.allocator
        {
            if let Some(round_trip) = round_trip {
                allocator.set_round_trip(round_trip);
            }
            allocator.set_patience(Seconds(other.patience_s));
            let guarantee_bps = self.targets.guarantee_bps(from, Seconds(now_s)).unwrap_or(0.0);
            allocator.feedback(Seconds(now_s), &feedback, Bandwidth(guarantee_bps));
        }
    }

    /// Keeps the last offers of a silent agent valid. Otherwise six senders that each used their own hose as the pair's
    /// guarantee sent three times the rate for which their receiver's hose and its link were admitted.
    pub(super) fn remember(&mut self, now_s: f64) {
        let rare_s = self.duty.parameters.partition.silence_s / 2.0;
        let silent = |other: &&Peer| other.heard_s.is_some_and(|heard_s| now_s - heard_s > rare_s);
        for (peer, other) in &self.others {
            let [as_target, as_source] = Some(other).filter(silent).map_or([None; 2], |other| other.heard);
            if let Some(offer) = as_target {
                self.targets.hear(*peer, Seconds(now_s), offer);
            }
            if let Some(offer) = as_source {
                self.sources.hear(*peer, Seconds(now_s), offer);
            }
        }
    }

    /// Sends the other hosts what has changed.
    pub(super) fn say(&mut self, now_s: f64) {
        let mut messages = self.part.say(&self.duty, now_s);
        let active = |other: &&Peer| other.out.offer.is_some() || other.incoming.offer.is_some();
        let pairs = self.others.values().filter(active).count();
        self.active_pairs = pairs;
        let timed = self.duty.parameters.delayed.delay_most_s > 0.0;
        for (peer, other) in &mut self.others {
            if !other.is_due(now_s, around_bytes(self.duty.peers[peer].place.ip()), timed, pairs) {
                continue;
            }
            let matter = Matter::Pair {
                tally: other.mixed.is_empty().then(|| other.incoming.tally()),
                as_source: other.out.offer,
                as_target: other.incoming.offer,
            };
            messages.push((*peer, matter));
        }
        for (peer, matter) in messages {
            self.tell(now_s, peer, matter);
        }
    }

    fn tell(&mut self, now_s: f64, peer: IpAddr, matter: Matter) {
        let Some((hose, other)) = self.duty.peers.get(&peer).zip(self.others.get(&peer)) else {
            return;
        };
        self.number = self.number.wrapping_add(1);
        let word = Word {
            number: self.number,
            sent_us: now_us(),
            from: self.duty.own.position,
            next_tenths: other.next_tenths(),
            matter,
        };
        let Some(key) = self.keys.get(&hose.position) else {
            return;
        };
        let bytes = word.seal(key, hose.position);
        let place = other.place(hose, now_s);
        // A host that is gone answers by ICMP, but only its silence counts.
        if self.wire.tell(place, &bytes) {
            self.control_bytes += bytes.len() as u64 + around_bytes(place.ip());
        }
    }
}
