//! Trees and rings for collective operations, and mappings of tasks, on the hosts of a network.

use std::sync::Arc;

use gavotte_collective as collective;
use gavotte_collective::{Eager, Message, Ring, RingOperation, Tree, TreeError, TreeOperation};
use gavotte_net::Volume;
use gavotte_replay::Kind;
use numpy::{IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;
use crate::network::Network;

impl From<TreeError> for Error {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::UnknownPair(source, target) => Self::UnknownPair(source, target),
            other => Self::Value(other.to_string()),
        }
    }
}

/// A matrix of seconds.
type Matrix<'py> = Bound<'py, PyArray2<f64>>;

/// Parents, order, segments and seconds.
type FoundTree = (Vec<usize>, Vec<usize>, u32, f64);

/// Parents, order, members, segments and seconds.
type FoundRing = (Vec<usize>, Vec<usize>, usize, u32, f64);

/// Ranks on hosts of a network.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct Ranks(collective::Ranks);

#[pymethods]
#[allow(clippy::needless_pass_by_value, reason = "arrays and lists come by value")]
#[allow(clippy::too_many_arguments, reason = "keywords on the Python side")]
impl Ranks {
    #[new]
    fn new(network: &Network, hosts: Vec<usize>) -> PyResult<Self> {
        let ranks = collective::Ranks::new(Arc::clone(&network.0), hosts);
        Ok(Self(ranks.map_err(Error::from)?))
    }

    /// Ranks on a network like `network`, but with other rates and latencies of the pairs.
    #[staticmethod]
    fn at(
        network: &Network,
        hosts: Vec<usize>,
        rate_bps: PyReadonlyArray2<'_, f64>,
        latency_s: PyReadonlyArray2<'_, f64>,
    ) -> PyResult<Self> {
        let (rate_bps, latency_s) = (rate_bps.as_slice()?.to_vec(), latency_s.as_slice()?.to_vec());
        let ranks = collective::Ranks::at(&network.0, hosts, rate_bps, latency_s);
        Ok(Self(ranks.map_err(Error::from)?))
    }

    #[getter]
    fn count(&self) -> usize {
        self.0.count()
    }

    /// The cost of a message between each two ranks: a fixed part, and a part per byte.
    fn alpha_beta<'py>(&self, py: Python<'py>) -> PyResult<(Matrix<'py>, Matrix<'py>)> {
        let (costs, count) = (self.0.costs(false), self.0.count());
        let pairs = || (0..count * count).map(|at| (at / count, at % count));
        let alpha_s: Vec<f64> = pairs().map(|(m, n)| costs.seconds(m, n, Volume(0.0))).collect();
        let beta = pairs().map(|(m, n)| costs.per_byte_s(m, n)).collect::<Vec<f64>>();
        let square = |values: Vec<f64>| values.into_pyarray(py).reshape([count, count]);
        Ok((square(alpha_s)?, square(beta)?))
    }

    /// Makes a tree.
    #[pyo3(signature = (*, algorithm, root, size_bytes, segments, scatter, back, steps, seed))]
    fn tree(
        &self,
        py: Python<'_>,
        algorithm: &str,
        root: usize,
        size_bytes: f64,
        segments: u32,
        scatter: bool,
        back: bool,
        steps: u64,
        seed: u64,
    ) -> PyResult<FoundTree> {
        let ranks = &self.0;
        let operation = TreeOperation {
            bytes: size_bytes,
            segments,
            scatter,
        };
        let piece = Volume(size_bytes / f64::from(segments.max(1)));
        let tree = py.detach(|| -> Result<FoundTree, TreeError> {
            let eager = |look_ahead, most_children| Eager {
                look_ahead,
                most_children,
            };
            let early = |eager| ranks.built(root, back, |costs, root| collective::ecef(costs, root, piece, eager));
            let tree = match algorithm {
                "flat" => Tree::flat(ranks.count(), root)?,
                "binomial" => collective::binomial(ranks.count(), root)?,
                "fnf" => ranks.built(root, back, |costs, root| collective::fnf(costs, root, piece))?,
                "ecef" => early(eager(false, usize::MAX))?,
                "look-ahead" => early(eager(true, usize::MAX))?,
                "chain" => early(eager(false, 1))?,
                _ => {
                    let best = ranks.search(root, operation, back, steps, seed)?;
                    return Ok((best.tree.parents(), best.tree.order(), best.segments, best.seconds));
                }
            };
            let seconds = ranks.tree_s(&tree, operation, back)?;
            Ok((tree.parents(), tree.order(), segments.max(1), seconds))
        });
        Ok(tree.map_err(Error::from)?)
    }

    /// The duration of a tree.
    #[pyo3(signature = (*, parent, order, size_bytes, segments, scatter, back))]
    fn tree_s(
        &self,
        py: Python<'_>,
        parent: Vec<usize>,
        order: Vec<usize>,
        size_bytes: f64,
        segments: u32,
        scatter: bool,
        back: bool,
    ) -> PyResult<f64> {
        let root = order.first().copied().unwrap_or_default();
        let operation = TreeOperation {
            bytes: size_bytes,
            segments,
            scatter,
        };
        let seconds = py.detach(|| {
            let tree = Tree::from_parents(root, &parent, &order)?;
            self.0.tree_s(&tree, operation, back)
        });
        Ok(seconds.map_err(Error::from)?)
    }

    /// Makes a ring.
    #[pyo3(signature = (*, by_rank, size_bytes, segments, reduce, steps, seed))]
    fn ring(
        &self,
        py: Python<'_>,
        by_rank: bool,
        size_bytes: f64,
        segments: u32,
        reduce: bool,
        steps: u64,
        seed: u64,
    ) -> PyResult<FoundRing> {
        let operation = RingOperation {
            bytes: size_bytes,
            segments,
            reduce,
        };
        let ring = py.detach(|| -> Result<FoundRing, TreeError> {
            if by_rank {
                let ring = Ring::by_rank(self.0.count())?;
                let seconds = self.0.ring_s(
                    &ring,
                    RingOperation {
                        segments: 1,
                        ..operation
                    },
                )?;
                return Ok((ring.parents(), ring.order(), ring.hosts(), 1, seconds));
            }
            let best = self.0.search_ring(operation, steps, seed)?;
            let ring = best.ring;
            let members = ring.members().len();
            Ok((ring.parents(), ring.order(), members, best.segments, best.seconds))
        });
        Ok(ring.map_err(Error::from)?)
    }

    /// The duration of a ring.
    #[pyo3(signature = (*, parent, order, members, size_bytes, segments, reduce))]
    fn ring_s(
        &self,
        py: Python<'_>,
        parent: Vec<usize>,
        order: Vec<usize>,
        members: usize,
        size_bytes: f64,
        segments: u32,
        reduce: bool,
    ) -> PyResult<f64> {
        let operation = RingOperation {
            bytes: size_bytes,
            segments,
            reduce,
        };
        let seconds = py.detach(|| {
            let ring = Ring::from_parents(&parent, &order, members)?;
            self.0.ring_s(&ring, operation)
        });
        Ok(seconds.map_err(Error::from)?)
    }

    /// The duration of an MPI library's own operation.
    #[pyo3(signature = (*, library, operation, root, size_bytes))]
    fn library_s(&self, py: Python<'_>, library: &str, operation: &str, root: usize, size_bytes: f64) -> PyResult<f64> {
        let library = crate::replay::library_of(library)?;
        let kind = match operation {
            "broadcast" => Some(Kind::Bcast),
            other => Kind::named(other),
        };
        let kind = kind.ok_or_else(|| PyValueError::new_err(format!("there is no operation `{operation}`")))?;
        let seconds = py.detach(|| self.0.library_s(library, kind, root, Volume(size_bytes)));
        Ok(seconds.map_err(Error::from)?)
    }

    /// The duration of messages that are sent at the same time, each after its start, and the link that limits the last one.
    #[pyo3(signature = (*, source, target, size_bytes, start_s=vec![]))]
    fn messages_s(
        &self,
        py: Python<'_>,
        source: Vec<usize>,
        target: Vec<usize>,
        size_bytes: Vec<f64>,
        start_s: Vec<f64>,
    ) -> PyResult<(f64, String)> {
        let messages = messages(source, target, size_bytes);
        let seconds = py.detach(|| self.0.messages_s(&messages, &start_s));
        Ok(seconds.map_err(Error::from)?)
    }

    /// Exchanges tasks between hosts; `hosts` has the rank of each task.
    #[pyo3(signature = (*, source, target, size_bytes, hosts, most))]
    fn exchanged(
        &self,
        py: Python<'_>,
        source: Vec<usize>,
        target: Vec<usize>,
        size_bytes: Vec<f64>,
        hosts: Vec<usize>,
        most: usize,
    ) -> PyResult<Vec<usize>> {
        let messages = messages(source, target, size_bytes);
        let exchanged = py.detach(|| collective::exchange(&self.0, &messages, hosts, most));
        Ok(exchanged.map_err(Error::from)?)
    }
}

fn messages(source: Vec<usize>, target: Vec<usize>, size_bytes: Vec<f64>) -> Vec<Message> {
    let ends = source.into_iter().zip(target).zip(size_bytes);
    ends.map(|((source, target), bytes)| Message { source, target, bytes })
        .collect()
}
