//! Broadcasts: the duration of each mechanism, and the conductor of a running broadcast.

use std::collections::BTreeMap;

use gavotte_net::{Bandwidth, Bytes, Seconds};
use gavotte_swarm::broadcast as swarm;
use gavotte_swarm::broadcast::blocks::Blocks;
use gavotte_swarm::broadcast::conductor::Standing;
use gavotte_swarm::broadcast::ground::{Ground, GroundError};
use gavotte_swarm::broadcast::layout::Layout;
use gavotte_swarm::broadcast::mechanism::{Mechanism, UnknownMechanism, packing_price};
use gavotte_swarm::broadcast::packing::Branching;
use gavotte_swarm::broadcast::rehearsal::Rehearsal;
use gavotte_swarm::broadcast::replica::checksum;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;
use crate::network::Network;

impl From<GroundError> for Error {
    fn from(error: GroundError) -> Self {
        Self::Value(error.to_string())
    }
}

impl From<UnknownMechanism> for Error {
    fn from(error: UnknownMechanism) -> Self {
        Self::Value(error.to_string())
    }
}

/// Parent, blocks (empty = all that are missing), pace in bit/s (0 = none) and round trip in seconds (0 = unknown).
type Feed = (usize, Vec<u8>, u64, f64);

/// Rate in bit/s of a tree, and parent and child of each edge.
type Tree = (f64, Vec<(usize, usize)>);

fn branchings(trees: Vec<Tree>) -> Vec<Branching> {
    let branching = |(rate_bps, edges): Tree| Branching {
        rate_bps,
        parents: edges.into_iter().map(|(parent, child)| (child, parent)).collect(),
    };
    trees.into_iter().map(branching).collect()
}

/// A peer, and its blocks.
type Holder = (usize, Vec<u8>);

/// A network, and the hosts of a broadcast in it.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct BroadcastGround(Ground);

#[pymethods]
impl BroadcastGround {
    #[new]
    #[allow(clippy::needless_pass_by_value, reason = "a list of numbers comes by value")]
    fn new(network: &Network, source: usize, receivers: Vec<usize>) -> PyResult<Self> {
        Ok(Self(Ground::new(&network.0, source, &receivers).map_err(Error::from)?))
    }

    /// A lower bound in seconds for every mechanism, and the port that causes it.
    fn bound(&self, size_bytes: u64) -> (f64, String) {
        let bound = self.0.bound(Bytes(size_bytes));
        (bound.seconds, bound.port)
    }

    /// Rate in bit/s and name of each link that may limit a broadcast; and, by sending and receiving member, the source
    /// first, the numbers of the links between them. `best` as in [`Ground::best`].
    fn links(&self, best: bool) -> (Vec<f64>, Vec<String>, Vec<Vec<usize>>) {
        let network = if best { self.0.best() } else { self.0.network() };
        let members: Vec<usize> = self.0.members().collect();
        let mut numbers = BTreeMap::new();
        let (mut rates_bps, mut names, mut ways) = (Vec::new(), Vec::new(), Vec::new());
        for (&m, &n) in members.iter().flat_map(|m| members.iter().map(move |n| (m, n))) {
            let mut way = Vec::new();
            network.for_each_link(m, n, |link| {
                if network.decides(link) {
                    way.push(*numbers.entry(network.link_index(link)).or_insert_with(|| {
                        rates_bps.push(network.rate(link).bps());
                        names.push(network.link_name(link));
                        rates_bps.len() - 1
                    }));
                }
            });
            ways.push(way);
        }
        (rates_bps, names, ways)
    }

    /// Seconds of a Cornet that is played with these partitions, by host.
    fn rehearse(&self, mechanism: &str, size_bytes: u64, partitions: Vec<usize>, seed: u64) -> PyResult<f64> {
        let layout = Layout::new(size_bytes, Layout::block_bytes_for(size_bytes));
        let layout = layout.ok_or_else(|| PyValueError::new_err("the object has too many blocks"))?;
        let mechanism: Mechanism = mechanism.parse().map_err(Error::from)?;
        if !mechanism.is_cornet() {
            return Err(PyValueError::new_err(format!("{mechanism} is no Cornet")));
        }
        Ok(Rehearsal::new(&self.0, layout, mechanism, partitions, seed).run())
    }

    /// Seconds and piece size in bytes of several trees.
    fn packing_price(&self, size_bytes: u64, trees: Vec<Tree>) -> (f64, u32) {
        let price = packing_price(&self.0, Bytes(size_bytes), &branchings(trees));
        (price.seconds, price.piece_bytes)
    }

    /// Name, seconds and piece size in bytes of each mechanism but the packing; equally fast ones in order of preference. The
    /// partitions, by host, are for mechanisms that keep to partitions.
    #[allow(clippy::needless_pass_by_value, reason = "a list of numbers comes by value")]
    fn prices(&self, size_bytes: u64, partitions: Vec<usize>) -> Vec<(&'static str, f64, u32)> {
        let price = |mechanism: Mechanism| {
            let kept: &[usize] = if mechanism == Mechanism::Cornet {
                &[]
            } else {
                &partitions
            };
            mechanism.price(&self.0, Bytes(size_bytes), kept)
        };
        let others = Mechanism::ALL.into_iter().filter(|&each| each != Mechanism::Packing);
        let columns = |price: swarm::mechanism::Price| (price.mechanism.name(), price.seconds, price.piece_bytes);
        others.map(price).map(columns).collect()
    }
}

/// One running broadcast.
#[pyclass(module = "gavotte._core")]
pub(crate) struct Conductor {
    inner: swarm::conductor::Conductor,
    blocks: u32,
}

#[pymethods]
impl Conductor {
    #[new]
    #[allow(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        ground: &BroadcastGround,
        size_bytes: u64,
        block_bytes: u32,
        mechanism: &str,
        piece_bytes: u32,
        predicted_s: f64,
        partitions: Vec<usize>,
        seed: u64,
    ) -> PyResult<Self> {
        let layout = Layout::new(size_bytes, block_bytes);
        let layout = layout.ok_or_else(|| PyValueError::new_err(format!("no blocks of {block_bytes} bytes")))?;
        let mechanism: Mechanism = mechanism.parse().map_err(Error::from)?;
        Ok(Self {
            inner: swarm::conductor::Conductor::new(
                ground.0.clone(),
                layout,
                mechanism,
                piece_bytes,
                Seconds(predicted_s),
                partitions,
                seed,
            ),
            blocks: layout.count(),
        })
    }

    /// Sets the trees of a packing.
    fn plant(&mut self, trees: Vec<Tree>) {
        self.inner.plant(branchings(trees));
    }

    /// Notes before the start that a receiver is unreachable. It may join later.
    fn absent(&mut self, host: usize) {
        self.inner.absent(host);
    }

    /// Adds a host of the network as a receiver.
    fn invite(&mut self, host: usize) {
        self.inner.invite(host);
    }

    /// Records that a missing or lost receiver has joined.
    fn expect(&mut self, host: usize, now_s: f64) {
        self.inner.expect(host, Seconds(now_s));
    }

    fn opened(&mut self, host: usize, have: &[u8], held_bytes: u64, now_s: f64) {
        self.inner.opened(
            host,
            Blocks::from_bytes(self.blocks, have),
            Bytes(held_bytes),
            Seconds(now_s),
        );
    }

    fn progress(&mut self, host: usize, have: &[u8], held_bytes: u64, now_s: f64) {
        self.inner.progress(
            host,
            Blocks::from_bytes(self.blocks, have),
            Bytes(held_bytes),
            Seconds(now_s),
        );
    }

    fn kept(&mut self, host: usize) {
        self.inner.kept(host);
    }

    fn lost(&mut self, host: usize, why: &str, now_s: f64) {
        self.inner.lost(host, why, Seconds(now_s));
    }

    #[allow(clippy::needless_pass_by_value, reason = "a list of pairs comes by value")]
    fn separate(&mut self, pairs: Vec<(usize, usize)>) {
        self.inner.separate(&pairs);
    }

    fn broken(&mut self, child: usize, parent: usize, why: &str, now_s: f64) {
        self.inner.broken(child, parent, why, Seconds(now_s));
    }

    fn tick(&mut self, now_s: f64) {
        self.inner.tick(Seconds(now_s));
    }

    fn changes(&mut self) -> Vec<(usize, Vec<Feed>)> {
        let changes = self.inner.changes();
        let feed = |host: usize, feed: swarm::conductor::Feed| {
            // As in the agents' contract: 0 = TCP sets the pace, 1 = the parent waits.
            let pace_bps = match feed.pace_bps {
                0.0 => 1,
                pace_bps if pace_bps.is_finite() => pace_bps.max(2.0) as u64,
                _ => 0,
            };
            let round_trip_s = self.inner.round_trip_s(feed.parent, host);
            (feed.parent, feed.blocks.to_bytes(), pace_bps, round_trip_s)
        };
        changes
            .into_iter()
            .map(|(host, feeds)| (host, feeds.into_iter().map(|each| feed(host, each)).collect()))
            .collect()
    }

    /// Parent, child and bytes left of each subscription.
    fn flows(&self) -> Vec<(usize, usize, u64)> {
        self.inner.flows()
    }

    /// The round trip between two hosts in seconds; 0 if it is unknown.
    fn round_trip_s(&self, m: usize, n: usize) -> f64 {
        self.inner.round_trip_s(m, n)
    }

    /// Makes every parent wait until it gets a limit.
    fn hold(&mut self) {
        self.inner.hold();
    }

    /// Limits what a parent sends to a child.
    fn limit(&mut self, parent: usize, child: usize, pace_bps: f64, now_s: f64) {
        self.inner.limit(parent, child, Bandwidth(pace_bps), Seconds(now_s));
    }

    /// The tracker's answers that are due: hosts, and peers of each with their blocks.
    fn answers(&mut self, now_s: f64) -> Vec<(usize, Vec<Holder>)> {
        let named = |(peer, blocks): (usize, Blocks)| (peer, blocks.to_bytes());
        let answers = self.inner.answers(Seconds(now_s)).into_iter();
        answers
            .map(|(host, peers)| (host, peers.into_iter().map(named).collect()))
            .collect()
    }

    /// The changes since the last call, with their reasons.
    fn log(&mut self) -> Vec<String> {
        self.inner.log()
    }

    /// Hosts that left the trees of a packing since the last call.
    fn aside(&mut self) -> Vec<usize> {
        self.inner.aside()
    }

    /// Parent and child of each edge; a mesh has none.
    fn edges(&self) -> Vec<(usize, usize)> {
        self.inner.edges()
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// The reason why a host was lost; `None` unless it was.
    fn loss(&self, host: usize) -> Option<String> {
        match self.inner.standing(host) {
            Standing::Lost(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Names of the mechanisms, in order of preference.
#[pyfunction]
pub(crate) fn mechanisms() -> Vec<&'static str> {
    Mechanism::ALL.map(Mechanism::name).to_vec()
}

/// The checksum of an object with these block hashes, 32 bytes each.
#[pyfunction]
pub(crate) fn blocks_checksum(hashes: &[u8]) -> PyResult<[u8; 32]> {
    let (hashes, rest) = hashes.as_chunks::<32>();
    if rest.is_empty() {
        Ok(checksum(hashes))
    } else {
        Err(PyValueError::new_err("a hash has 32 bytes"))
    }
}
