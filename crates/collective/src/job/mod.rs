//! What each rank of an operation does along a tree or round a ring, and its duration by the model of MPI jobs.
//!
//! The operations are those of `python/gavotte/mpi`: receives are posted ahead, and a rank sends piece by piece, child by
//! child, one blocking send at a time. [`gavotte_replay`] knows what a blocking send waits for, which messages share links
//! with which, and what a large message's request to send costs. A plan and the replay of a job that runs it therefore agree.

mod rings;
mod trees;

use std::sync::Arc;

use gavotte_fluid::{LinkId, Platform};
use gavotte_net::{BitsPerSec, Bucket};
use gavotte_replay::{Collective, Kind, Model, Op, Placed, Program, replay};

use crate::error::TreeError;
use crate::ranks::Ranks;

/// The operations of all ranks, while they are put together.
pub(crate) struct Job {
    ranks: Vec<Vec<Op>>,
    /// By rank: the number of its next request.
    requests: Vec<u32>,
}

/// A request of one rank.
type Request = u32;

impl Job {
    fn new(ranks: usize) -> Self {
        Self {
            ranks: vec![Vec::new(); ranks],
            requests: vec![0; ranks],
        }
    }

    fn request(&mut self, rank: usize) -> Request {
        self.requests[rank] += 1;
        self.requests[rank] - 1
    }

    /// Posts a receive.
    fn receive(&mut self, rank: usize, source: usize) -> Request {
        let request = self.request(rank);
        self.ranks[rank].push(Op::Irecv {
            peer: source as u32,
            tag: 0,
            communicator: 0,
            request,
        });
        request
    }

    /// Begins to send.
    fn begin_send(&mut self, rank: usize, target: usize, bytes: u64) -> Request {
        let request = self.request(rank);
        self.ranks[rank].push(Op::Isend {
            peer: target as u32,
            bytes,
            tag: 0,
            communicator: 0,
            request,
            synchronous: false,
        });
        request
    }

    /// Sends, and goes on when MPI no longer needs the data.
    fn send(&mut self, rank: usize, target: usize, bytes: u64) {
        let request = self.begin_send(rank, target, bytes);
        self.wait(rank, &[request]);
    }

    fn wait(&mut self, rank: usize, requests: &[Request]) {
        if !requests.is_empty() {
            self.ranks[rank].push(Op::Wait(requests.into()));
        }
    }

    fn combine(&mut self, rank: usize, bytes: u64) {
        self.ranks[rank].push(Op::Combine(bytes));
    }

    /// An operation that each rank leaves to the MPI library.
    pub(crate) fn of_library(ranks: usize, kind: Kind, root: usize, bytes: u64) -> Self {
        let call = Arc::new(Collective {
            kind,
            communicator: 0,
            root: root as u32,
            bytes,
            counts: Vec::new(),
            sources: Vec::new(),
            targets: Vec::new(),
            request: None,
        });
        let mut job = Self::new(ranks);
        for ops in &mut job.ranks {
            ops.push(Op::Collective(Arc::clone(&call)));
        }
        job
    }

    /// Seconds until the last rank is done.
    ///
    /// # Errors
    ///
    /// If the replay fails.
    pub(crate) fn seconds(self, ranks: &Ranks, model: &Model) -> Result<f64, TreeError> {
        let fail = |error: gavotte_replay::ReplayError| TreeError::Replay(error.to_string());
        let program = Program {
            communicators: vec![(0..self.ranks.len() as u32).collect()],
            ranks: self.ranks.into_iter().map(Arc::from).collect(),
        };
        let hosts: Vec<u32> = ranks.hosts().iter().map(|&host| host as u32).collect();
        let platform = Hosts(ranks);
        let placed = Placed {
            platform: Some(&platform),
            hosts: &hosts,
            cap_bps: None,
        };
        Ok(replay(&program, placed, model, None).map_err(fail)?.makespan_s)
    }
}

/// The start and end of each piece of a message or block, as `python/gavotte/mpi/trees.py` cuts it.
fn pieces(bytes: u64, segments: u32) -> Vec<(u64, u64)> {
    let step = bytes.div_ceil(u64::from(segments)).max(1);
    let starts = (0..bytes.div_ceil(step).max(1)).map(|number| number * step);
    starts.map(|start| (start, (start + step).min(bytes))).collect()
}

/// The hosts of ranks. On the platform of [`Ranks`], each rank counts as one host.
struct Hosts<'a>(&'a Ranks);

impl Platform for Hosts<'_> {
    fn host_count(&self) -> usize {
        self.0.network().hosts().len()
    }

    fn route(&self, source: usize, target: usize, _label: u64, path: &mut Vec<LinkId>) {
        self.0.links(source, target, path);
    }

    fn route_between(&self, source: usize, target: usize, path: &mut Vec<LinkId>) {
        self.0.network().route_between(source, target, path);
    }

    fn rate(&self, link: LinkId) -> BitsPerSec {
        self.0.rate(link)
    }

    fn latency_s(&self, source: usize, target: usize) -> f64 {
        self.0.network().latency_s(source, target).unwrap_or(0.0)
    }

    fn buckets(&self, source: usize, target: usize) -> Option<[Bucket; 2]> {
        self.0.network().buckets(source, target)
    }

    fn link_name(&self, link: LinkId) -> String {
        self.0.link_name(link)
    }
}
