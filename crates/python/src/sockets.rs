//! The traffic of this machine's sockets.

use gavotte_sockets::{Moved, Owner};
use pyo3::prelude::*;

/// Own end, other end, whether UDP, bytes sent, bytes received.
type Row = (String, String, bool, u64, u64);
/// Own end, process, its name, cgroup and rank.
type Held = (String, u32, String, String, Option<u32>);

/// The sockets of this network namespace.
#[pyclass(module = "gavotte._core", name = "SocketWatch")]
pub(crate) struct SocketWatch(gavotte_sockets::Watch);

#[pymethods]
impl SocketWatch {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self(py.detach(gavotte_sockets::Watch::begin)?))
    }

    /// Reads all counters.
    fn look(&mut self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.0.look())?)
    }

    /// The traffic since the last call, and the processes that own the ends.
    fn report(&mut self) -> (Vec<Row>, Vec<Held>) {
        let report = self.0.report();
        let row = |each: Moved| {
            let (here, there) = (each.here.to_string(), each.there.to_string());
            (here, there, each.datagrams, each.sent_bytes, each.received_bytes)
        };
        let held = |(here, owner): (std::net::SocketAddr, Owner)| {
            (here.to_string(), owner.pid, owner.name, owner.cgroup, owner.rank)
        };
        (
            report.moved.into_iter().map(row).collect(),
            report.owners.into_iter().map(held).collect(),
        )
    }

    /// Counters of the watch itself, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters().to_vec()
    }

    /// The reason why UDP is not counted; `None` if it is.
    fn without_datagrams(&self) -> Option<&str> {
        self.0.without_datagrams()
    }
}
