//! Networks and operations of small jobs, for the tests of replays.

use std::sync::Arc;

use gavotte_net::{BitsPerSec, Group, Host, Network, NetworkParts, Sharing};
use gavotte_replay::{Collective, Kind, Model, Op, Placed, Program, ReplayError, Replayed, replay};

pub(crate) const ALPHA_S: f64 = 50e-6;
pub(crate) const RATE_BPS: f64 = 1e9;
pub(crate) const BYTE_S: f64 = 8.0 / RATE_BPS;

/// Hosts with equal caps, in racks of `rack` hosts behind uplinks of a rate.
pub(crate) fn network(hosts: usize, rack: usize, up_bps: f64) -> Network {
    let rate = BitsPerSec::new(RATE_BPS).unwrap();
    let up = BitsPerSec::new(up_bps).unwrap();
    let host = |name: usize| Host {
        name: format!("h{name}"),
        machine: name,
        egress: rate,
        ingress: rate,
    };
    let group = |first: usize| Group {
        name: format!("rack{first}"),
        members: (first..(first + rack).min(hosts)).collect(),
        up,
        down: up,
        parent: None,
    };
    Network::new(NetworkParts {
        hosts: (0..hosts).map(host).collect(),
        rate_bps: Vec::new(),
        latency_s: vec![ALPHA_S; hosts * hosts],
        groups: (0..hosts).step_by(rack).map(group).collect(),
        sharing: Sharing::Groups,
    })
    .unwrap()
}

/// A model without any work of processors.
pub(crate) fn bare() -> Model {
    Model {
        overhead_s: 0.0,
        combine_s: 0.0,
        ..Model::default()
    }
}

pub(crate) fn run_on(
    network: &Network,
    hosts: &[u32],
    program: &Program,
    model: &Model,
) -> Result<Replayed, ReplayError> {
    let placed = Placed {
        platform: Some(network),
        hosts,
        cap_bps: None,
    };
    replay(program, placed, model, None)
}

/// Replays with rank i on host i, each with the full rate to all others.
pub(crate) fn run(ranks: Vec<Vec<Op>>, model: &Model) -> Result<Replayed, ReplayError> {
    let count = ranks.len();
    let hosts: Vec<u32> = (0..count as u32).collect();
    run_on(&network(count, count, 1e15), &hosts, &program(ranks), model)
}

pub(crate) fn program(ranks: Vec<Vec<Op>>) -> Program {
    Program {
        communicators: vec![(0..ranks.len() as u32).collect()],
        ranks: ranks.into_iter().map(Into::into).collect(),
    }
}

pub(crate) fn isend(peer: u32, bytes: u64, request: u32) -> Op {
    Op::Isend {
        peer,
        bytes,
        tag: 7,
        communicator: 0,
        request,
        synchronous: false,
    }
}

pub(crate) fn irecv(peer: u32, request: u32) -> Op {
    Op::Irecv {
        peer,
        tag: 7,
        communicator: 0,
        request,
    }
}

pub(crate) fn wait(requests: &[u32]) -> Op {
    Op::Wait(requests.into())
}

pub(crate) fn compute(mean_s: f64) -> Op {
    Op::Compute {
        mean_s,
        variance_s2: 0.0,
    }
}

pub(crate) fn collective(kind: Kind, bytes: u64) -> Op {
    Op::Collective(Arc::new(Collective {
        kind,
        communicator: 0,
        root: 0,
        bytes,
        counts: Vec::new(),
        sources: Vec::new(),
        targets: Vec::new(),
        request: None,
    }))
}

pub(crate) fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-9), "{a} instead of {b}");
}
