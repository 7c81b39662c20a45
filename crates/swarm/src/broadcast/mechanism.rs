//! The mechanisms that bring an object to many hosts, and a prediction of how long each takes.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use gavotte_net::Bytes;
use thiserror::Error;

use super::cornet::Round;
use super::ground::Ground;
use super::layout::FAR_BLOCK_BYTES;
use super::mesh::Shares;
use super::packing::{self, Branching};
use super::tree::{Shape, Tree};

/// Smallest piece: three full packets.
const MIN_PIECE_BYTES: u64 = 4 << 10;
/// Largest piece.
const MAX_PIECE_BYTES: u64 = 64 << 10;
/// Largest share of the transfer time that all hops together may add.
const HOPS_SHARE: f64 = 0.01;
/// Slowdown of a mesh compared with the fluid model, because of its many flows: 8 to 11 %, measured with up to
/// `MESH_RECEIVERS` receivers.
const MESH_LOSS: f64 = 1.08;
const MESH_RECEIVERS: f64 = 32.0;

/// Round trip of a far path, in seconds.
const FAR_S: f64 = 0.004;

/// Slowdown of a Cornet compared with the fluid model: 1.9 to 2.9 times, measured.
const CORNET_LOSS: f64 = 2.4;

/// A way to bring an object to many hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// A pipelined chain.
    Chain,
    /// A pipelined binary tree.
    Tree,
    /// A pipelined binomial tree.
    Binomial,
    /// The paced mesh, in which the source sends each block once.
    Mesh,
    /// Several trees at once, which the controller plans: see [`Packing`](super::packing::Packing).
    Packing,
    /// Cornet as published.
    Cornet,
    /// Cornet within partitions that are known racks.
    Topology,
    /// Cornet within partitions that earlier runs revealed.
    Clustering,
}

/// A name that is no mechanism's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no mechanism `{0}`")]
pub struct UnknownMechanism(String);

impl Mechanism {
    /// All mechanisms. If two take the same time, the first in this list is chosen.
    pub const ALL: [Self; 8] = [
        Self::Chain,
        Self::Tree,
        Self::Binomial,
        Self::Mesh,
        Self::Packing,
        Self::Cornet,
        Self::Topology,
        Self::Clustering,
    ];

    /// The mechanism's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Tree => "tree",
            Self::Binomial => "binomial",
            Self::Mesh => "mesh",
            Self::Packing => "packing",
            Self::Cornet => "cornet",
            Self::Topology => "topology",
            Self::Clustering => "clustering",
        }
    }

    /// Predicts how long the mechanism takes. `partitions` are those of a Cornet, by host. A packing takes for ever:
    /// [`packing::seconds`](super::packing::seconds) knows its trees.
    pub fn price(self, ground: &Ground, size: Bytes, partitions: &[usize]) -> Price {
        let bytes = size.0;
        let (seconds, piece_bytes) = match self.shape() {
            _ if self.is_cornet() => (cornet_seconds(ground, bytes, partitions), MAX_PIECE_BYTES as u32),
            Some(shape) => {
                let depth = Tree::new(shape, ground, size, 0).depth();
                let piece_bytes = piece_bytes(ground, bytes, depth);
                (
                    Tree::new(shape, ground, size, piece_bytes).seconds(ground, size, piece_bytes),
                    piece_bytes,
                )
            }
            None if self == Self::Packing => (f64::INFINITY, MIN_PIECE_BYTES as u32),
            None => {
                let shares = Shares::new(ground, size);
                (
                    MESH_LOSS * crowd(ground.receivers().len()) * shares.seconds + shares.latency_s(ground),
                    piece_bytes(ground, bytes, 2),
                )
            }
        };
        Price {
            mechanism: self,
            seconds,
            piece_bytes,
        }
    }

    /// Whether receivers choose the blocks that they fetch and the peers that they fetch from.
    pub fn is_cornet(self) -> bool {
        matches!(self, Self::Cornet | Self::Topology | Self::Clustering)
    }

    /// The shape of the mechanism's tree, if it uses one.
    pub(super) fn shape(self) -> Option<Shape> {
        match self {
            Self::Chain => Some(Shape::Chain),
            Self::Tree => Some(Shape::Binary),
            Self::Binomial => Some(Shape::Binomial),
            Self::Mesh | Self::Packing | Self::Cornet | Self::Topology | Self::Clustering => None,
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(name: &str) -> Result<Self, UnknownMechanism> {
        let known = Self::ALL.into_iter().find(|mechanism| mechanism.name() == name);
        known.ok_or_else(|| UnknownMechanism(name.to_owned()))
    }
}

/// The predicted time of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Time until the last receiver has the whole object, in seconds.
    pub seconds: f64,
    /// Piece size in bytes that this prediction assumes.
    pub piece_bytes: u32,
}

/// Slowdown of a packing compared with its fluid model, because of the pauses of many paced flows.
const PACKING_LOSS: f64 = 1.03;

/// Slowdown of receivers that each have this many parents to be paced: 50 receivers of a mesh took 2.64 times the bound.
fn crowd(parents: usize) -> f64 {
    (parents as f64 / MESH_RECEIVERS).max(1.0).powi(2)
}

/// Predicts how long several trees take together.
pub fn packing_price(ground: &Ground, size: Bytes, trees: &[Branching]) -> Price {
    // All first pieces together delay the object by this many hops: a tree of rate r that starts d later carries r d less.
    let hops = trees
        .iter()
        .map(|tree| tree.parents.keys().map(|&host| tree.depth(host)).max().unwrap_or(0));
    let piece_bytes = piece_bytes(ground, size.0, hops.sum());
    let parents_of = |host: &usize| {
        let parents = trees.iter().filter_map(|tree| tree.parents.get(host));
        parents.collect::<BTreeSet<_>>().len()
    };
    let parents = ground.receivers().iter().map(parents_of).max().unwrap_or(0);
    Price {
        mechanism: Mechanism::Packing,
        seconds: PACKING_LOSS * crowd(parents) * packing::seconds(trees, ground, size, piece_bytes),
        piece_bytes,
    }
}

/// A piece size so small that the hops to the deepest host add little time, but not smaller: each piece costs every
/// host some work.
///
/// Between far hosts, many connections carry a block each, which grow together. A piece of a first window is then passed
/// on after one round trip at most.
fn piece_bytes(ground: &Ground, bytes: u64, depth: usize) -> u32 {
    let most = HOPS_SHARE * bytes as f64 / depth.max(1) as f64;
    let largest = if ground.farthest_s() < FAR_S {
        MAX_PIECE_BYTES
    } else {
        u64::from(FAR_BLOCK_BYTES)
    };
    (most as u64).clamp(MIN_PIECE_BYTES, largest) as u32
}

/// Predicts a Cornet's time with a fluid model. Each receiver gets an equal part of each block from outside its
/// partition, and the rest from all other members. The part from outside comes from the source or, following [`Round`],
/// from all members of another partition.
fn cornet_seconds(ground: &Ground, bytes: u64, partitions: &[usize]) -> f64 {
    let partition = |host: usize| partitions.get(host).copied().unwrap_or(0);
    let source = ground.source();
    let round = Round::new(
        partition(source),
        ground.receivers().iter().map(|&host| partition(host)),
    );
    let ways = round.others.len();
    let mut loads = Vec::new();
    for &host in ground.receivers() {
        let mates = ground.receivers().iter().copied();
        let mates: Vec<usize> = mates
            .filter(|&mate| mate != host && partition(mate) == partition(host))
            .collect();
        // Each member fetches an equal part of its partition's first copy.
        let first = bytes as f64 / (mates.len() + 1) as f64;
        if partition(host) == round.home {
            loads.push((source, host, first));
        }
        for before in (0..ways as u32).filter_map(|block| round.before(partition(host), block)) {
            let givers = ground
                .receivers()
                .iter()
                .copied()
                .filter(|&giver| partition(giver) == before);
            let givers: Vec<usize> = givers.collect();
            let each = first / (ways * givers.len()) as f64;
            loads.extend(givers.into_iter().map(|giver| (giver, host, each)));
        }
        loads.extend(
            mates
                .iter()
                .map(|&mate| (mate, host, (bytes as f64 - first) / mates.len() as f64)),
        );
    }
    CORNET_LOSS
        * ground
            .load_seconds(loads.into_iter())
            .max(ground.bound(Bytes(bytes)).seconds)
}
