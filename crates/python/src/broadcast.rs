//! Broadcasts: what each way costs, and the conductor of one under way.

use gavotte_swarm::broadcast as swarm;
use gavotte_swarm::broadcast::blocks::Blocks;
use gavotte_swarm::broadcast::conductor::Standing;
use gavotte_swarm::broadcast::ground::{Ground, GroundError};
use gavotte_swarm::broadcast::layout::Layout;
use gavotte_swarm::broadcast::mechanism::{Mechanism, UnknownMechanism};
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

/// Parent, blocks (empty = all that is lacking) and pace in bit/s (0 = none).
type Feed = (usize, Vec<u8>, u64);

/// A peer, and its blocks.
type Holder = (usize, Vec<u8>);

/// A network, and who sends to whom in it.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct BroadcastGround(Ground);

#[pymethods]
impl BroadcastGround {
    #[new]
    #[allow(clippy::needless_pass_by_value, reason = "a list of numbers comes by value")]
    fn new(network: &Network, source: usize, receivers: Vec<usize>) -> PyResult<Self> {
        Ok(Self(Ground::new(&network.0, source, &receivers).map_err(Error::from)?))
    }

    /// Seconds that any mechanism needs at least, and the port that says so.
    fn bound(&self, size_bytes: u64) -> (f64, String) {
        let bound = self.0.bound(size_bytes);
        (bound.seconds, bound.port)
    }

    /// Name, seconds and bytes of a piece of each mechanism, in the order in which equals are preferred. The partitions, by
    /// host, are for those that keep to any.
    #[allow(clippy::needless_pass_by_value, reason = "a list of numbers comes by value")]
    fn prices(&self, size_bytes: u64, partitions: Vec<usize>) -> Vec<(&'static str, f64, u32)> {
        let price = |mechanism: Mechanism| {
            let kept: &[usize] = if mechanism == Mechanism::Cornet {
                &[]
            } else {
                &partitions
            };
            mechanism.price(&self.0, size_bytes, kept)
        };
        let prices = Mechanism::ALL.into_iter().map(price);
        let told = |price: swarm::mechanism::Price| (price.mechanism.name(), price.seconds, price.piece_bytes);
        prices.map(told).collect()
    }
}

/// One broadcast under way.
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
                predicted_s,
                partitions,
                seed,
            ),
            blocks: layout.count(),
        })
    }

    /// A receiver is not there, before the start; it may come.
    fn absent(&mut self, host: usize) {
        self.inner.absent(host);
    }

    /// A host of the network is to receive it, too.
    fn invite(&mut self, host: usize) {
        self.inner.invite(host);
    }

    /// One that was not there, or was lost, is now.
    fn expect(&mut self, host: usize, now_s: f64) {
        self.inner.expect(host, now_s);
    }

    fn opened(&mut self, host: usize, have: &[u8], held_bytes: u64, now_s: f64) {
        self.inner
            .opened(host, Blocks::from_bytes(self.blocks, have), held_bytes, now_s);
    }

    fn progress(&mut self, host: usize, have: &[u8], held_bytes: u64, now_s: f64) {
        self.inner
            .progress(host, Blocks::from_bytes(self.blocks, have), held_bytes, now_s);
    }

    fn kept(&mut self, host: usize) {
        self.inner.kept(host);
    }

    fn lost(&mut self, host: usize, why: &str, now_s: f64) {
        self.inner.lost(host, why, now_s);
    }

    fn broken(&mut self, child: usize, parent: usize, why: &str, now_s: f64) {
        self.inner.broken(child, parent, why, now_s);
    }

    fn tick(&mut self, now_s: f64) {
        self.inner.tick(now_s);
    }

    fn changes(&mut self) -> Vec<(usize, Vec<Feed>)> {
        let feed = |feed: swarm::conductor::Feed| {
            // As the agents' contract has it: 0 = as TCP goes, 1 = it waits.
            let pace_bps = match feed.pace_bps {
                0.0 => 1,
                pace_bps if pace_bps.is_finite() => pace_bps.max(2.0) as u64,
                _ => 0,
            };
            (feed.parent, feed.blocks.to_bytes(), pace_bps)
        };
        let changes = self.inner.changes().into_iter();
        changes
            .map(|(host, feeds)| (host, feeds.into_iter().map(feed).collect()))
            .collect()
    }

    /// Parent, child and bytes left of each subscription.
    fn flows(&self) -> Vec<(usize, usize, u64)> {
        self.inner.flows()
    }

    /// Has every parent wait until a limit for it is told.
    fn hold(&mut self) {
        self.inner.hold();
    }

    /// Limits what a parent sends to a child.
    fn limit(&mut self, parent: usize, child: usize, pace_bps: f64, now_s: f64) {
        self.inner.limit(parent, child, pace_bps, now_s);
    }

    /// The tracker's answers that are due: hosts, and peers of each with their blocks.
    fn answers(&mut self, now_s: f64) -> Vec<(usize, Vec<Holder>)> {
        let named = |(peer, blocks): (usize, Blocks)| (peer, blocks.to_bytes());
        let answers = self.inner.answers(now_s).into_iter();
        answers
            .map(|(host, peers)| (host, peers.into_iter().map(named).collect()))
            .collect()
    }

    /// What was changed and why, since the last call.
    fn log(&mut self) -> Vec<String> {
        self.inner.log()
    }

    /// Parent and child of each edge; of a mesh, none.
    fn edges(&self) -> Vec<(usize, usize)> {
        self.inner.edges()
    }

    fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// Why a host is out; None unless it is.
    fn loss(&self, host: usize) -> Option<String> {
        match self.inner.standing(host) {
            Standing::Lost(why) => Some(why.clone()),
            _ => None,
        }
    }
}

/// Names of the mechanisms, in the order in which equals are preferred.
#[pyfunction]
pub(crate) fn mechanisms() -> Vec<&'static str> {
    Mechanism::ALL.map(Mechanism::name).to_vec()
}
