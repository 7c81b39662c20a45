//! Collective operations as the messages of each rank.

mod exchanges;
mod mpich;
mod open_mpi;
mod rules;
mod trees;

use std::collections::HashMap;
use std::sync::Arc;

pub use rules::default_algorithm;

use crate::model::{Library, Model};
use crate::program::{Collective, Kind, Op};
use crate::settings::{self, Chosen, Setting};

/// The first request of collectives' own messages. Programs number theirs from 0.
const FIRST_REQUEST: u32 = 1 << 30;

/// The operations of collectives, made once for each call of a program.
pub(crate) struct Expansions<'a> {
    communicators: &'a [Vec<u32>],
    model: &'a Model,
    /// By the address of a call, which lives as long as the program, and rank.
    made: HashMap<(usize, u32), Arc<[Op]>>,
}

impl<'a> Expansions<'a> {
    pub(crate) fn new(communicators: &'a [Vec<u32>], model: &'a Model) -> Self {
        Self {
            communicators,
            model,
            made: HashMap::new(),
        }
    }

    /// The operations of one rank.
    pub(crate) fn of(&mut self, call: &Arc<Collective>, rank: u32, context: u32) -> Arc<[Op]> {
        let (communicators, model) = (self.communicators, self.model);
        let members = &communicators[call.communicator as usize];
        let made = self.made.entry((Arc::as_ptr(call) as usize, rank)).or_insert_with(|| {
            let me = members.iter().position(|&member| member == rank).unwrap_or(0);
            // Nonblocking calls go to another component, which reads no settings.
            let settings: &[Setting] = if call.request.is_none() { &model.settings } else { &[] };
            let mut script = Script::new(members, me, context, settings);
            script.carry_out(call, model.library);
            script.ops.into()
        });
        Arc::clone(made)
    }
}

/// The messages of one member, as they are put together.
pub(crate) struct Script<'a> {
    members: &'a [u32],
    /// The place of the rank in the communicator, and the number of members.
    me: usize,
    size: usize,
    context: u32,
    requests: u32,
    settings: &'a [Setting],
    ops: Vec<Op>,
}

impl<'a> Script<'a> {
    fn new(members: &'a [u32], me: usize, context: u32, settings: &'a [Setting]) -> Self {
        Self {
            members,
            me,
            size: members.len(),
            context,
            requests: FIRST_REQUEST,
            settings,
            ops: Vec::new(),
        }
    }

    fn carry_out(&mut self, call: &Collective, library: Library) {
        if call.kind == Kind::Neighbor {
            self.neighbours(call);
            return;
        }
        if self.size < 2 {
            return;
        }
        match (call.kind, library) {
            (Kind::Scan | Kind::Exscan, _) => self.scan(call.bytes),
            (Kind::Scatterv, _) => self.scatter_linear(call.root as usize, &call.counts, call.bytes),
            (Kind::Gatherv, _) => self.gather_linear(call.root as usize, call.bytes),
            (_, Library::OpenMpi) => self.by_open_mpi(call),
            (_, Library::Mpich) => self.by_mpich(call),
        }
    }

    /// The algorithm that is set for a call; `bytes` as in [`Setting::from_bytes`].
    fn chosen(&self, kind: Kind, bytes: u64) -> Option<Chosen> {
        settings::chosen(self.settings, kind, self.size, bytes)
    }

    fn request(&mut self) -> u32 {
        self.requests += 1;
        self.requests - 1
    }

    fn isend(&mut self, to: usize, bytes: u64) -> u32 {
        let request = self.request();
        self.ops.push(Op::Isend {
            peer: self.members[to],
            bytes,
            tag: 0,
            communicator: self.context,
            request,
            synchronous: false,
        });
        request
    }

    fn irecv(&mut self, from: usize) -> u32 {
        let request = self.request();
        self.ops.push(Op::Irecv {
            peer: self.members[from],
            tag: 0,
            communicator: self.context,
            request,
        });
        request
    }

    fn wait(&mut self, requests: &[u32]) {
        if !requests.is_empty() {
            self.ops.push(Op::Wait(requests.into()));
        }
    }

    fn send(&mut self, to: usize, bytes: u64) {
        let request = self.isend(to, bytes);
        self.wait(&[request]);
    }

    fn receive(&mut self, from: usize) {
        let request = self.irecv(from);
        self.wait(&[request]);
    }

    /// Sends to one member and receives from another at the same time.
    fn exchange(&mut self, to: usize, bytes: u64, from: usize) {
        let requests = [self.irecv(from), self.isend(to, bytes)];
        self.wait(&requests);
    }

    fn combine(&mut self, bytes: u64) {
        if bytes > 0 {
            self.ops.push(Op::Combine(bytes));
        }
    }

    /// The member that is this many places after the own one.
    fn after(&self, distance: usize) -> usize {
        (self.me + distance) % self.size
    }

    /// The member that is this many places before the own one.
    fn before(&self, distance: usize) -> usize {
        (self.me + self.size - distance % self.size) % self.size
    }

    fn neighbours(&mut self, call: &Collective) {
        let mut requests = Vec::with_capacity(call.sources.len() + call.targets.len());
        for &peer in &call.sources {
            let request = self.request();
            requests.push(request);
            self.ops.push(Op::Irecv {
                peer,
                tag: 0,
                communicator: self.context,
                request,
            });
        }
        for (place, &peer) in call.targets.iter().enumerate() {
            let request = self.request();
            requests.push(request);
            self.ops.push(Op::Isend {
                peer,
                bytes: call.counts.get(place).copied().unwrap_or(call.bytes),
                tag: 0,
                communicator: self.context,
                request,
                synchronous: false,
            });
        }
        self.wait(&requests);
    }
}

/// The sizes of the pieces in which `bytes` are passed on; a segment of 0 bytes is the whole.
fn pieces(bytes: u64, segment_bytes: u64) -> Vec<u64> {
    if segment_bytes == 0 || segment_bytes >= bytes {
        return vec![bytes];
    }
    let whole = (bytes - 1) / segment_bytes;
    let mut sizes = vec![segment_bytes; whole as usize];
    sizes.push(bytes - whole * segment_bytes);
    sizes
}

/// The part of `bytes` that each of `parts` gets, rounded up.
fn share(bytes: u64, parts: usize) -> u64 {
    bytes.div_ceil(parts as u64)
}
