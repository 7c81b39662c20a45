//! A rank, or a nonblocking collective that runs next to it: where it is in its program, and its open requests.

use std::collections::HashMap;
use std::sync::Arc;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::matching::{Envelope, Ticket};
use crate::outcome::Split;
use crate::program::Op;
use crate::steady::{Lap, Laps};

/// A request that has not been waited for.
#[derive(Clone, Copy, Debug)]
struct Request {
    serial: u64,
    complete: bool,
    /// Whether the actor waits for it now.
    awaited: bool,
    /// Bytes that were received, whose processor time is due at the wait.
    received: Option<u64>,
}

/// A sequence of operations on its way.
#[derive(Clone, Debug)]
struct Frame {
    body: Arc<[Op]>,
    at: usize,
    /// Passes that are left, with the present one.
    left: u64,
    /// The ends of its passes, if it is a loop of a rank.
    laps: Option<Laps>,
}

/// A rank, or a nonblocking collective of one.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    pub(crate) rank: u32,
    /// The present of this actor. It may be ahead of the engine by the overheads of messages.
    pub(crate) time_s: f64,
    /// What the chain of operations that led to this time consists of.
    pub(crate) path: Split,
    pub(crate) compute_s: f64,
    pub(crate) overhead_s: f64,
    pub(crate) wait_s: f64,
    /// Incomplete requests that it waits for; 0 = it does not wait.
    pub(crate) missing: usize,
    pub(crate) done: bool,
    /// The request of the rank that completes with this collective.
    pub(crate) parent: Option<Ticket>,
    /// What tells the messages of a nonblocking collective from those of others: its number in its communicator.
    tag_offset: i32,
    /// By communicator: nonblocking collectives that it has begun.
    begun: HashMap<u32, i32>,
    frames: Vec<Frame>,
    requests: HashMap<u32, Request>,
    serial: u64,
    random: Option<Xoshiro256PlusPlus>,
}

impl Actor {
    /// Creates a rank at time 0; without a seed, all its computing takes its mean.
    pub(crate) fn of_rank(rank: u32, body: Arc<[Op]>, seed: Option<u64>) -> Self {
        let mut actor = Self::new(rank, body, 0.0, Split::default());
        // Each rank has draws of its own, the same under every order of hosts.
        actor.random = seed
            .map(|seed| Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(rank)));
        actor
    }

    /// Creates the actor of a nonblocking collective.
    pub(crate) fn of_collective(parent: Ticket, of: &mut Self, communicator: u32, body: Arc<[Op]>) -> Self {
        let begun = of.begun.entry(communicator).or_default();
        *begun = begun.wrapping_add(1);
        let tag_offset = *begun;
        let mut actor = Self::new(of.rank, body, of.time_s, of.path);
        (actor.parent, actor.tag_offset) = (Some(parent), tag_offset);
        actor
    }

    fn new(rank: u32, body: Arc<[Op]>, time_s: f64, path: Split) -> Self {
        Self {
            rank,
            time_s,
            path,
            compute_s: 0.0,
            overhead_s: 0.0,
            wait_s: 0.0,
            missing: 0,
            done: false,
            parent: None,
            tag_offset: 0,
            begun: HashMap::new(),
            frames: vec![Frame {
                body,
                at: 0,
                left: 1,
                laps: None,
            }],
            requests: HashMap::new(),
            serial: 0,
            random: None,
        }
    }

    /// The next operation, `None` at the end. The second value is the depth of a loop that has just finished a pass.
    pub(crate) fn next_op(&mut self) -> (Option<Op>, Option<usize>) {
        let lap = Lap {
            time_s: self.time_s,
            compute_s: self.compute_s,
            overhead_s: self.overhead_s,
            wait_s: self.wait_s,
            path: self.path,
        };
        let mut finished = None;
        while let Some(frame) = self.frames.last_mut() {
            if let Some(op) = frame.body.get(frame.at) {
                let op = op.clone();
                frame.at += 1;
                return (Some(op), finished);
            }
            if frame.left <= 1 {
                self.frames.pop();
                continue;
            }
            frame.left -= 1;
            frame.at = 0;
            if let Some(laps) = &mut frame.laps {
                laps.push(lap);
                finished = Some(self.frames.len() - 1);
            }
        }
        (None, finished)
    }

    /// Enters a sequence.
    pub(crate) fn enter(&mut self, body: Arc<[Op]>, count: u64, timed: bool) {
        if count > 0 && !body.is_empty() {
            self.frames.push(Frame {
                body,
                at: 0,
                left: count,
                laps: timed.then(Laps::default),
            });
        }
    }

    /// The passes of the loop at a depth, and how many are left with the present one.
    pub(crate) fn laps(&self, depth: usize) -> Option<(&Laps, u64)> {
        let frame = self.frames.get(depth)?;
        frame.laps.as_ref().map(|laps| (laps, frame.left))
    }

    /// Leaves out passes of the loop at a depth, and forgets the others.
    pub(crate) fn skip(&mut self, depth: usize, passes: u64) {
        self.frames[depth].left -= passes;
        for frame in &mut self.frames[depth..] {
            if let Some(laps) = &mut frame.laps {
                laps.clear();
            }
        }
    }

    /// What one of its messages has in common with a receive.
    pub(crate) fn envelope(&self, source: u32, tag: i32, communicator: u32) -> Envelope {
        Envelope {
            source,
            tag: tag.wrapping_add(self.tag_offset),
            context: communicator,
        }
    }

    /// Spends processor time on the MPI library's work.
    pub(crate) fn work(&mut self, seconds: f64) {
        self.time_s += seconds;
        self.overhead_s += seconds;
        self.path.overhead_s += seconds;
    }

    /// Computes.
    pub(crate) fn compute(&mut self, seconds: f64) {
        self.time_s += seconds;
        self.compute_s += seconds;
        self.path.compute_s += seconds;
    }

    /// Draws a computing time: lognormal, so that it is never negative and sometimes long.
    pub(crate) fn draw(&mut self, mean_s: f64, variance_s2: f64) -> f64 {
        let Some(random) = self.random.as_mut().filter(|_| mean_s > 0.0 && variance_s2 > 0.0) else {
            return mean_s;
        };
        let sigma2 = (variance_s2 / (mean_s * mean_s)).ln_1p();
        // Box and Muller. 1 - u is never 0.
        let (u, v): (f64, f64) = (random.random(), random.random());
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        mean_s * (sigma2.sqrt() * normal - sigma2 / 2.0).exp()
    }

    /// Opens a request of this number. An earlier one that was never waited for is forgotten.
    pub(crate) fn open(&mut self, actor: u32, request: u32) -> Ticket {
        self.serial += 1;
        let opened = Request {
            serial: self.serial,
            complete: false,
            awaited: false,
            received: None,
        };
        self.requests.insert(request, opened);
        Ticket {
            actor,
            request,
            serial: self.serial,
        }
    }

    /// Completes a request. Returns whether the actor waited for nothing else.
    pub(crate) fn complete(&mut self, ticket: Ticket, received: Option<u64>) -> bool {
        let Some(request) = self.requests.get_mut(&ticket.request) else {
            return false;
        };
        if request.serial != ticket.serial || request.complete {
            return false;
        }
        (request.complete, request.received) = (true, received);
        if !request.awaited {
            return false;
        }
        self.missing -= 1;
        self.missing == 0
    }

    /// Begins to wait for requests. Returns whether all are complete.
    pub(crate) fn wait(&mut self, numbers: &[u32]) -> bool {
        for number in numbers {
            if let Some(request) = self
                .requests
                .get_mut(number)
                .filter(|request| !request.complete && !request.awaited)
            {
                request.awaited = true;
                self.missing += 1;
            }
        }
        self.missing == 0
    }

    /// Ends a wait: forgets the requests. Returns the number and the bytes of the messages that were received.
    pub(crate) fn collect(&mut self, numbers: &[u32]) -> (u64, u64) {
        let received = numbers
            .iter()
            .filter_map(|number| self.requests.remove(number)?.received);
        received.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    }

    /// Forgets a request. Returns its ticket.
    pub(crate) fn forget(&mut self, actor: u32, request: u32) -> Option<Ticket> {
        let serial = self.requests.remove(&request)?.serial;
        Some(Ticket { actor, request, serial })
    }

    /// The first request that it waits for.
    pub(crate) fn awaited(&self, actor: u32) -> Option<Ticket> {
        let open = self
            .requests
            .iter()
            .filter(|(_, request)| request.awaited && !request.complete);
        let (&request, &Request { serial, .. }) = open.min_by_key(|(_, request)| request.serial)?;
        Some(Ticket { actor, request, serial })
    }
}
