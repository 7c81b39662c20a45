//! The event loop: from one end of computing, of a transfer or of a latency to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use gavotte_fluid::{Platform, Transfer, Wire};
use gavotte_net::Seconds;

use crate::actor::Actor;
use crate::bursts::{Bursts, Passage};
use crate::collectives::Expansions;
use crate::error::ReplayError;
use crate::events::{Chore, Due, Event};
use crate::matching::{Envelope, Mailbox, Posted, Ticket};
use crate::messages::{Connections, Message, Messages, Stage};
use crate::model::Model;
use crate::outcome::{Replayed, Split};
use crate::placed::Placed;
use crate::program::{Op, Program};
use crate::steady::steady;

/// The part of a context that tells collectives' messages from others.
const COLLECTIVE: u32 = 1 << 31;

/// Replays a program.
///
/// With a seed, computing times are drawn by their means and variances. Ranks' draws do not depend on their hosts, so that
/// two orders with one seed differ by the network alone. Without a seed, they are the means.
///
/// # Errors
/// [`ReplayError`] that names what is wrong, or what a rank waits for in vain.
pub fn replay(
    program: &Program,
    placed: Placed<'_>,
    model: &Model,
    seed: Option<u64>,
) -> Result<Replayed, ReplayError> {
    model.check()?;
    program.check()?;
    placed.check(program.ranks.len())?;
    let mut engine = Engine::new(program, placed, model, seed);
    engine.run()?;
    Ok(engine.into_replayed())
}

struct Engine<'a> {
    placed: Placed<'a>,
    model: &'a Model,
    wire: Option<Wire<'a>>,
    bursts: Bursts,
    now_s: f64,
    due: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    events: u64,
    /// The ranks, and after them the nonblocking collectives.
    actors: Vec<Actor>,
    ranks: usize,
    left: usize,
    mailboxes: Vec<Mailbox>,
    chores: Vec<Vec<Chore>>,
    messages: Messages,
    connections: Connections,
    expansions: Expansions<'a>,
    /// By actor: the requests that it waits for.
    awaited: Vec<Arc<[u32]>>,
    skipped_s: f64,
    skipped: Split,
    /// By rank: when it ended, and what led there, with what was skipped before.
    ends: Vec<(f64, Split)>,
}

impl<'a> Engine<'a> {
    fn new(program: &'a Program, placed: Placed<'a>, model: &'a Model, seed: Option<u64>) -> Self {
        let ranks = program.ranks.len();
        let actor = |(rank, body): (usize, &Arc<[Op]>)| Actor::of_rank(rank as u32, Arc::clone(body), seed);
        let mut engine = Self {
            placed,
            model,
            wire: placed.platform.map(Wire::new),
            bursts: Bursts::new(placed.platform.map_or(0, Platform::host_count)),
            now_s: 0.0,
            due: BinaryHeap::new(),
            numbers: 0,
            events: 0,
            actors: program.ranks.iter().enumerate().map(actor).collect(),
            ranks,
            left: ranks,
            mailboxes: vec![Mailbox::default(); ranks],
            chores: vec![Vec::new(); ranks],
            messages: Messages::default(),
            connections: Connections::default(),
            expansions: Expansions::new(&program.communicators, model),
            awaited: vec![Arc::from([]); ranks],
            skipped_s: 0.0,
            skipped: Split::default(),
            ends: vec![(0.0, Split::default()); ranks],
        };
        (0..ranks as u32).for_each(|rank| engine.at(0.0, Event::Go(rank)));
        engine
    }

    fn at(&mut self, time_s: f64, event: Event) {
        self.numbers += 1;
        let number = self.numbers;
        self.due.push(Reverse(Due { time_s, number, event }));
    }

    fn run(&mut self) -> Result<(), ReplayError> {
        let mut sent = Vec::new();
        while self.left > 0 {
            let wire_s = self.wire.as_mut().map_or(f64::INFINITY, Wire::next_s);
            let due_s = self.due.peek().map_or(f64::INFINITY, |Reverse(due)| due.time_s);
            let next_s = wire_s.min(due_s).max(self.now_s);
            if next_s.is_infinite() {
                return Err(self.deadlock());
            }
            self.now_s = next_s;
            if let Some(wire) = &mut self.wire {
                wire.advance(Seconds(next_s), &mut sent);
            }
            for message in sent.drain(..) {
                self.events += 1;
                self.sent(message);
            }
            while let Some(&Reverse(due)) = self.due.peek()
                && due.time_s <= next_s
            {
                self.due.pop();
                self.events += 1;
                match due.event {
                    Event::Go(actor) => self.go(actor),
                    Event::Hand(message) => self.hand(message),
                    Event::Sent(message) => self.sent(message),
                    Event::Arrive(message) => self.arrive(message),
                    Event::Permit(message) => self.permitted(message),
                }
            }
            if self.events > self.model.most_events {
                return Err(ReplayError::TooLong(self.model.most_events));
            }
        }
        Ok(())
    }

    /// Carries out the operations of an actor until it computes, waits or ends.
    fn go(&mut self, number: u32) {
        let rank = self.actors[number as usize].rank;
        // Whatever it does next is a call of MPI.
        self.do_chores(rank);
        loop {
            self.events += 1;
            if self.events > self.model.most_events {
                return;
            }
            let (op, lap) = self.actors[number as usize].next_op();
            if let Some(depth) = lap {
                self.consider_skip(number, depth);
            }
            let Some(op) = op else {
                self.end(number);
                return;
            };
            let actor = &mut self.actors[number as usize];
            match op {
                Op::Compute { mean_s, variance_s2 } => {
                    let seconds = actor.draw(mean_s, variance_s2);
                    if seconds > 0.0 {
                        actor.compute(seconds);
                        let time_s = actor.time_s;
                        self.at(time_s, Event::Go(number));
                        return;
                    }
                }
                Op::Combine(bytes) => actor.work(bytes as f64 * self.model.combine_s),
                Op::Isend {
                    peer,
                    bytes,
                    tag,
                    communicator,
                    request,
                    synchronous,
                } => {
                    let envelope = actor.envelope(rank, tag, communicator);
                    self.send(number, envelope, peer, bytes, (request, synchronous));
                }
                Op::Irecv {
                    peer,
                    tag,
                    communicator,
                    request,
                } => {
                    let envelope = actor.envelope(peer, tag, communicator);
                    self.receive(number, envelope, request);
                }
                Op::Wait(requests) => {
                    if !actor.wait(&requests) {
                        self.awaited[number as usize] = requests;
                        return;
                    }
                    self.collect(number, &requests);
                }
                Op::Cancel(request) => {
                    if let Some(ticket) = actor.forget(number, request) {
                        self.mailboxes[rank as usize].cancel(ticket);
                    }
                }
                Op::Collective(call) => {
                    let body = self.expansions.of(&call, rank, COLLECTIVE | call.communicator);
                    match call.request {
                        None => actor.enter(body, 1, false),
                        Some(request) => self.begin_collective(number, request, call.communicator, body),
                    }
                }
                Op::Loop { count, body } => actor.enter(body, count, true),
            }
        }
    }

    /// Starts a nonblocking collective: an actor that goes on whatever its rank does.
    fn begin_collective(&mut self, number: u32, request: u32, communicator: u32, body: Arc<[Op]>) {
        let actor = &mut self.actors[number as usize];
        let ticket = actor.open(number, request);
        let time_s = actor.time_s;
        let fork = Actor::of_collective(ticket, actor, communicator, body);
        self.actors.push(fork);
        self.awaited.push(Arc::from([]));
        self.at(time_s, Event::Go(self.actors.len() as u32 - 1));
    }

    fn end(&mut self, number: u32) {
        let actor = &mut self.actors[number as usize];
        actor.done = true;
        let (time_s, path) = (actor.time_s, actor.path);
        match actor.parent {
            None => {
                let mut critical = path;
                critical += self.skipped;
                self.ends[number as usize] = (time_s + self.skipped_s, critical);
                self.left -= 1;
            }
            Some(parent) => self.complete(parent, None, time_s, path),
        }
    }

    /// Spends the processor time of a wait that has ended.
    fn collect(&mut self, number: u32, requests: &[u32]) {
        let actor = &mut self.actors[number as usize];
        let (count, bytes) = actor.collect(requests);
        actor.work(count as f64 * self.model.overhead_s + bytes as f64 * self.model.byte_overhead_s);
    }

    fn send(&mut self, number: u32, envelope: Envelope, target: u32, bytes: u64, (request, synchronous): (u32, bool)) {
        let eager = bytes <= self.model.eager_bytes && !synchronous;
        let actor = &mut self.actors[number as usize];
        actor.work(self.model.overhead_s + bytes as f64 * self.model.byte_overhead_s);
        let ticket = actor.open(number, request);
        let (time_s, path) = (actor.time_s, actor.path);
        if eager {
            actor.complete(ticket, None);
        }
        let first = if eager {
            bytes
        } else {
            bytes.min(self.model.eager_bytes)
        };
        let message = self.messages.add(Message {
            envelope,
            target,
            bytes,
            stage: if eager { Stage::Eager } else { Stage::Announced },
            left_bytes: bytes - first,
            behind_bytes: 0,
            sender: (!eager).then_some(ticket),
            receiver: None,
            path,
        });
        if time_s > self.now_s {
            self.at(time_s, Event::Hand(message));
        } else {
            self.hand(message);
        }
    }

    fn receive(&mut self, number: u32, envelope: Envelope, request: u32) {
        let actor = &mut self.actors[number as usize];
        let ticket = actor.open(number, request);
        let rank = actor.rank;
        let (time_s, path) = (actor.time_s, actor.path);
        let Some(number) = self.mailboxes[rank as usize].post(Posted { envelope, ticket }) else {
            return;
        };
        let message = self.messages.at(number);
        message.receiver = Some(ticket);
        if message.stage == Stage::Eager {
            self.received(number, time_s);
            return;
        }
        // The receiver decides when an announced message goes on, and is inside MPI at this call.
        (message.stage, message.path) = (Stage::Matched, path);
        self.do_chore(Chore::Permit(number));
    }

    /// Hands the first piece of a message to its connection.
    fn hand(&mut self, number: u32) {
        let message = self.messages.at(number);
        let bytes = message.bytes - message.left_bytes;
        self.queue(number, bytes);
    }

    /// Hands the next piece of an announced message to its connection. With the last piece, the send is complete.
    fn hand_rest(&mut self, number: u32) {
        let now_s = self.now_s;
        let message = self.messages.at(number);
        let bytes = message.left_bytes.min(self.model.socket_bytes);
        message.left_bytes -= bytes;
        let ended = if message.left_bytes == 0 {
            message.sender.take()
        } else {
            None
        };
        let path = message.path;
        self.queue(number, bytes);
        if let Some(sender) = ended {
            self.complete(sender, None, now_s, path);
        }
    }

    fn queue(&mut self, number: u32, bytes: u64) {
        let message = self.messages.at(number);
        let pair = (message.envelope.source, message.target);
        if self.connections.take(pair, number, bytes) {
            self.start(number, bytes);
        }
    }

    /// Starts a piece whose connection is free.
    fn start(&mut self, number: u32, bytes: u64) {
        let message = self.messages.at(number);
        let [source, target] = [message.envelope.source, message.target].map(|rank| self.placed.hosts[rank as usize]);
        if self.wire.is_none() || source == target {
            let local = self.placed.platform.is_some();
            let seconds = if local {
                bytes as f64 * 8.0 / self.model.local_bps
            } else {
                0.0
            };
            self.at(self.now_s + seconds, Event::Sent(number));
            return;
        }
        let buckets = self
            .placed
            .platform
            .and_then(|platform| platform.buckets(source as usize, target as usize));
        match buckets.map(|ways| self.bursts.pass([source, target], &ways, bytes, self.now_s)) {
            None => self.put_on_wire(number, bytes, None),
            Some(Passage::Through(time_s)) => self.put_on_wire(number, bytes, Some(time_s)),
            // What is left has to wait for its turn at the links between the hosts, too.
            Some(Passage::Left(left)) if left < bytes => {
                self.messages.at(number).behind_bytes = left;
                self.put_on_wire(number, bytes - left, Some(self.now_s));
            }
            Some(Passage::Left(left)) => self.put_on_wire(number, left, None),
        }
    }

    /// Sends bytes of a piece. If the hosts' buckets let them pass until a time, only the links between the hosts limit them.
    fn put_on_wire(&mut self, number: u32, bytes: u64, through_s: Option<f64>) {
        let Some(wire) = self.wire.as_mut() else { return };
        let message = self.messages.at(number);
        let [source, target] = [message.envelope.source, message.target].map(|rank| self.placed.hosts[rank as usize]);
        let hosts = self.placed.platform.map_or(0, Platform::host_count);
        let cap_bps = self
            .placed
            .cap_bps
            .map_or(f64::INFINITY, |caps| caps[source as usize * hosts + target as usize]);
        // The links between the hosts have no bucket that is known.
        let peak_bps = through_s.map_or(f64::INFINITY, |time_s| bytes as f64 * 8.0 / (time_s - self.now_s));
        let started = wire.start(&Transfer {
            source,
            target,
            bytes,
            cap_bps: cap_bps.min(peak_bps),
            number,
            between: through_s.is_some(),
        });
        if !started {
            self.at(through_s.unwrap_or(self.now_s), Event::Sent(number));
        }
    }

    /// Handles a piece whose last byte was sent, or the last one that the hosts' buckets let pass.
    fn sent(&mut self, number: u32) {
        let behind = std::mem::take(&mut self.messages.at(number).behind_bytes);
        if behind > 0 {
            self.put_on_wire(number, behind, None);
            return;
        }
        let latency_s = self.latency_s(number, false);
        let now_s = self.now_s;
        let message = self.messages.at(number);
        message.path.transfer_s += now_s - message.path.total_s();
        let (pair, path) = ((message.envelope.source, message.target), message.path);
        let more = (message.stage == Stage::Rest && message.left_bytes > 0).then_some(message.sender);
        if let Some((next, bytes)) = self.connections.next(pair) {
            // It could not start before, so what led here is the message before it.
            self.messages.at(next).path = path;
            self.start(next, bytes);
        }
        if let Some(sender) = more {
            let by = sender.map_or(pair.0, |ticket| ticket.actor);
            self.chore(pair.0, by, Chore::Send(number));
            return;
        }
        self.at(now_s + latency_s, Event::Arrive(number));
    }

    /// The latency of a message, or of its way back.
    fn latency_s(&mut self, number: u32, back: bool) -> f64 {
        let message = self.messages.at(number);
        let [source, target] = [message.envelope.source, message.target].map(|rank| self.placed.hosts[rank as usize]);
        match self.placed.platform {
            None => 0.0,
            Some(_) if source == target => self.model.local_latency_s,
            Some(platform) if back => platform.latency_s(target as usize, source as usize),
            Some(platform) => platform.latency_s(source as usize, target as usize),
        }
    }

    /// Handles a piece that has arrived: a whole message, an announcement, or the rest.
    fn arrive(&mut self, number: u32) {
        let now_s = self.now_s;
        let message = self.messages.at(number);
        message.path.latency_s += now_s - message.path.total_s();
        if message.stage == Stage::Rest {
            self.received(number, now_s);
            return;
        }
        let (target, envelope) = (message.target, message.envelope);
        if let Some(posted) = self.mailboxes[target as usize].deliver(envelope, number) {
            let message = self.messages.at(number);
            message.receiver = Some(posted.ticket);
            if message.stage == Stage::Eager {
                self.received(number, now_s);
                return;
            }
            message.stage = Stage::Matched;
            self.chore(target, posted.ticket.actor, Chore::Permit(number));
        }
    }

    /// Completes a receive, and forgets the message.
    fn received(&mut self, number: u32, time_s: f64) {
        let message = self.messages.at(number);
        let (ticket, bytes, path) = (message.receiver, message.bytes, message.path);
        self.messages.remove(number);
        if let Some(ticket) = ticket {
            self.complete(ticket, Some(bytes), time_s, path);
        }
    }

    /// Does what a rank can only do inside MPI: now if it waits there, else at its next call.
    fn chore(&mut self, rank: u32, by: u32, chore: Chore) {
        let waits = by as usize >= self.ranks || self.is_inside(rank);
        if waits {
            self.do_chore(chore);
        } else {
            self.chores[rank as usize].push(chore);
        }
    }

    /// Whether a rank is inside MPI now: it waits, has ended, or is at a call.
    fn is_inside(&self, rank: u32) -> bool {
        let actor = &self.actors[rank as usize];
        actor.missing > 0 || actor.done
    }

    fn do_chores(&mut self, rank: u32) {
        for chore in std::mem::take(&mut self.chores[rank as usize]) {
            // Until now the rank was busy with what its own path shows.
            let (time_s, path) = (self.actors[rank as usize].time_s, self.actors[rank as usize].path);
            let (Chore::Permit(number) | Chore::Send(number)) = chore;
            if time_s <= self.now_s {
                self.messages.at(number).path = path;
            }
            self.do_chore(chore);
        }
    }

    fn do_chore(&mut self, chore: Chore) {
        match chore {
            Chore::Permit(number) => {
                let latency_s = self.latency_s(number, true);
                let time_s = self.now_s.max(self.messages.at(number).path.total_s());
                self.at(time_s + latency_s, Event::Permit(number));
            }
            Chore::Send(number) => {
                self.messages.at(number).stage = Stage::Rest;
                self.hand_rest(number);
            }
        }
    }

    /// Handles a permit that has arrived at the sender.
    fn permitted(&mut self, number: u32) {
        let now_s = self.now_s;
        let message = self.messages.at(number);
        message.path.latency_s += now_s - message.path.total_s();
        let (rank, by) = (message.envelope.source, message.sender.map(|ticket| ticket.actor));
        self.chore(rank, by.unwrap_or(rank), Chore::Send(number));
    }

    /// Completes a request at a time. The actor goes on if it waited for this last.
    fn complete(&mut self, ticket: Ticket, received: Option<u64>, time_s: f64, path: Split) {
        let number = ticket.actor;
        let actor = &mut self.actors[number as usize];
        if !actor.complete(ticket, received) {
            return;
        }
        if time_s > actor.time_s {
            actor.wait_s += time_s - actor.time_s;
            actor.time_s = time_s;
            actor.path = path;
        }
        let requests = std::mem::replace(&mut self.awaited[number as usize], Arc::from([]));
        self.collect(number, &requests);
        let at_s = self.actors[number as usize].time_s.max(self.now_s);
        self.at(at_s, Event::Go(number));
    }

    /// Leaves out the passes of a loop in a steady state.
    fn consider_skip(&mut self, number: u32, depth: usize) {
        let leader = (0..self.ranks).find(|&rank| !self.actors[rank].done);
        if leader != Some(number as usize)
            || !self.actors[number as usize]
                .laps(depth)
                .is_some_and(|(laps, _)| laps.is_due())
        {
            return;
        }
        let active: Vec<usize> = (0..self.ranks).filter(|&rank| !self.actors[rank].done).collect();
        let Some(found) = steady(active.iter().map(|&rank| self.actors[rank].laps(depth))) else {
            return;
        };
        let passes = found.passes as f64;
        for (&rank, pass) in active.iter().zip(&found.of_ranks) {
            let actor = &mut self.actors[rank];
            actor.skip(depth, found.passes);
            actor.compute_s += passes * pass.compute_s;
            actor.overhead_s += passes * pass.overhead_s;
            actor.wait_s += passes * pass.wait_s;
        }
        self.skipped_s += passes * found.period_s;
        let path = found.of_ranks[0].path;
        self.skipped += path * (passes * found.period_s / path.total_s().max(f64::MIN_POSITIVE));
    }

    /// The first rank that waits in vain, and what for.
    fn deadlock(&self) -> ReplayError {
        let stuck: Vec<usize> = (0..self.actors.len())
            .filter(|&number| self.actors[number].missing > 0)
            .collect();
        // A rank that waits for a nonblocking collective says less than the collective itself.
        let receiving = stuck.iter().find_map(|&number| {
            let actor = &self.actors[number];
            let ticket = actor.awaited(number as u32)?;
            let posted = self.mailboxes[actor.rank as usize].waiting(ticket)?;
            Some((actor.rank, posted))
        });
        let first = stuck.first().map_or(0, |&number| self.actors[number].rank);
        let (rank, posted) = receiving.map_or((first, None), |(rank, posted)| (rank, Some(posted)));
        let what = match posted {
            Some(Posted { envelope, .. }) if envelope.context & COLLECTIVE != 0 => format!(
                "rank {} in a collective operation of communicator {}",
                envelope.source,
                envelope.context & !COLLECTIVE
            ),
            Some(Posted { envelope, .. }) => format!(
                "a message with tag {} from rank {} that is never sent",
                envelope.tag, envelope.source
            ),
            None => "a message that is never received".into(),
        };
        ReplayError::Deadlock {
            time_s: self.now_s + self.skipped_s,
            rank,
            what,
        }
    }

    fn into_replayed(self) -> Replayed {
        let ranks = &self.actors[..self.ranks];
        let column = |of: fn(&Actor) -> f64| ranks.iter().map(of).collect::<Vec<f64>>();
        let last = self.ends.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
        let (makespan_s, critical) = last.unwrap_or_default();
        Replayed {
            makespan_s,
            critical,
            compute_s: column(|actor| actor.compute_s),
            overhead_s: column(|actor| actor.overhead_s),
            wait_s: column(|actor| actor.wait_s),
            finish_s: self.ends.iter().map(|end| end.0).collect(),
            events: self.events,
            extrapolated_s: self.skipped_s,
        }
    }
}
