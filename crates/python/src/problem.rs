//! Placement: `Problem` and the results of its methods.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use gavotte_assign::{
    Assignment, Capacity, HostOffer, Load, MaxHosts, MaxLatency, MaxPrice, NO_ZONE, Parts, Quota, Rules, Search,
    Stores, Task, Transfer,
};
use gavotte_net::Seconds;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::answers::{Compact, Completion, Explanation, Found, LimitRow, Proven};
use crate::errors::Error;
use crate::network::Network;

/// How often long work lets Python handle signals.
const LOOK: Duration = Duration::from_millis(50);

/// The time limit of the polish after a search, as a share of the search's limit. The other constants are its smallest
/// and largest value in seconds.
const POLISH_SHARE: f64 = 0.1;
const LEAST_POLISH_S: f64 = 0.02;
const MOST_POLISH_S: f64 = 0.2;

/// Names of the policies that place in one pass, the best known first.
#[pyfunction]
pub(crate) fn policies() -> Vec<&'static str> {
    gavotte_assign::policies().map(gavotte_assign::Policy::name).to_vec()
}

/// Nano-cores of a host, its sending and receiving rate in bit/s, and the same for its machine.
type HostOffered = (u64, f64, f64, Option<(u64, f64, f64)>);

/// Row starts, neighbours, bytes and sizes of units, and the room of hosts.
type Rows<'py> = (
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<u32>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
);

/// Columns of the tasks.
#[derive(FromPyObject)]
struct Tasks<'py> {
    names: Vec<String>,
    cpus: PyReadonlyArray1<'py, f64>,
    memory_bytes: PyReadonlyArray1<'py, u64>,
    storage_bytes: PyReadonlyArray1<'py, u64>,
    allowed: HashMap<usize, Vec<usize>>,
}

impl Tasks<'_> {
    fn into_tasks(mut self) -> PyResult<Vec<Task>> {
        let (cpus, memory) = (self.cpus.as_array(), self.memory_bytes.as_array());
        let storage = self.storage_bytes.as_array();
        same_length("tasks", self.names.len(), &[cpus.len(), memory.len(), storage.len()])?;
        if let Some(task) = self.allowed.keys().find(|&&task| task >= self.names.len()) {
            return Err(PyValueError::new_err(format!(
                "`allowed` names task {task}, which does not exist"
            )));
        }
        let build = |(i, name)| Task {
            name,
            cpus: cpus[i],
            stores: Stores {
                memory_bytes: memory[i],
                storage_bytes: storage[i],
            },
            hosts: self.allowed.remove(&i),
        };
        Ok(self.names.into_iter().enumerate().map(build).collect())
    }
}

/// Columns of transfers between tasks, or of running transfers between hosts.
#[derive(FromPyObject)]
struct Transfers<'py> {
    source: PyReadonlyArray1<'py, u32>,
    target: PyReadonlyArray1<'py, u32>,
    bytes: PyReadonlyArray1<'py, u64>,
    phase: PyReadonlyArray1<'py, u32>,
}

impl Transfers<'_> {
    /// Calls `build` with the source, target, bytes and phase of each row, and collects the results.
    fn each<T>(&self, build: impl Fn(usize, usize, u64, u32) -> T) -> PyResult<Vec<T>> {
        let (source, target) = (self.source.as_array(), self.target.as_array());
        let (bytes, phase) = (self.bytes.as_array(), self.phase.as_array());
        same_length("transfers", source.len(), &[target.len(), bytes.len(), phase.len()])?;
        let row = |t: usize| build(source[t] as usize, target[t] as usize, bytes[t], phase[t]);
        Ok((0..source.len()).map(row).collect())
    }
}

/// Columns of the room on hosts.
#[derive(FromPyObject)]
struct RoomOf<'py> {
    cpus: PyReadonlyArray1<'py, f64>,
    memory_bytes: PyReadonlyArray1<'py, u64>,
    storage_bytes: PyReadonlyArray1<'py, u64>,
}

impl RoomOf<'_> {
    fn into_capacity(self) -> PyResult<Vec<Capacity>> {
        let (cpus, memory) = (self.cpus.as_array(), self.memory_bytes.as_array());
        let storage = self.storage_bytes.as_array();
        same_length("room", cpus.len(), &[memory.len(), storage.len()])?;
        let stores = memory
            .iter()
            .zip(storage)
            .map(|(&memory_bytes, &storage_bytes)| Stores {
                memory_bytes,
                storage_bytes,
            });
        let both = cpus.iter().zip(stores);
        Ok(both.map(|(&cpus, stores)| Capacity { cpus, stores }).collect())
    }
}

/// Constraints other than room.
#[derive(FromPyObject)]
struct RulesOf<'py> {
    apart: Vec<Vec<usize>>,
    together: Vec<Vec<usize>>,
    max_latency: Vec<(usize, usize, f64, Option<f64>)>,
    max_hosts: Vec<LimitRow>,
    max_price: Option<(Vec<f64>, PyReadonlyArray2<'py, f64>, f64)>,
    zonings: Vec<Vec<Option<u32>>>,
    quotas: Vec<QuotaRow>,
}

/// Zones, needs of tasks, the most and the least in each zone, the price of more, and the name of a resource.
type QuotaRow = (usize, Vec<(usize, u64)>, Vec<u64>, u64, Option<f64>, Option<String>);

impl From<RulesOf<'_>> for Rules {
    fn from(rules: RulesOf<'_>) -> Self {
        let near = |(source, target, seconds, price_s)| MaxLatency {
            source,
            target,
            seconds,
            price_s,
        };
        let zones = |zones: Vec<Option<u32>>| zones.into_iter().map(|zone| zone.unwrap_or(NO_ZONE)).collect();
        Self {
            apart: rules.apart,
            together: rules.together,
            max_latency: rules.max_latency.into_iter().map(near).collect(),
            max_hosts: rules
                .max_hosts
                .into_iter()
                .map(|(tasks, most, zoning, price_s)| MaxHosts {
                    tasks,
                    most,
                    zoning,
                    price_s,
                })
                .collect(),
            max_price: rules.max_price.map(|(host, per_byte, most)| MaxPrice {
                host,
                per_byte: per_byte.as_array().iter().copied().collect(),
                most,
            }),
            quotas: rules
                .quotas
                .into_iter()
                .map(|(zoning, needs, most, least, price_s, room)| Quota {
                    zoning,
                    needs,
                    most,
                    least,
                    price_s,
                    room,
                })
                .collect(),
            zonings: rules.zonings.into_iter().map(zones).collect(),
        }
    }
}

/// Tasks, hosts and the network between them, checked.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct Problem(gavotte_assign::Problem);

#[pymethods]
#[allow(clippy::needless_pass_by_value, reason = "a borrow of a Python array comes by value")]
impl Problem {
    #[new]
    #[allow(
        clippy::too_many_arguments,
        reason = "one for each part of a problem; Python names them"
    )]
    fn new(
        py: Python<'_>,
        network: &Network,
        tasks: Tasks<'_>,
        transfers: Transfers<'_>,
        room: RoomOf<'_>,
        rules: RulesOf<'_>,
        load: Transfers<'_>,
    ) -> PyResult<Self> {
        let parts = Parts {
            tasks: tasks.into_tasks()?,
            transfers: transfers.each(|source, target, bytes, phase| Transfer {
                source,
                target,
                bytes,
                phase,
            })?,
            capacity: room.into_capacity()?,
            rules: rules.into(),
            load: load.each(|source, target, bytes, phase| Load {
                source,
                target,
                bytes,
                phase,
            })?,
        };
        let network = Arc::clone(&network.0);
        let problem = py.detach(|| gavotte_assign::Problem::new(network, parts));
        Ok(Self(problem.map_err(Error::from)?))
    }

    /// Places the tasks with the policy of this name.
    fn place<'py>(&self, py: Python<'py>, policy: &str, seed: u64) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let policy = gavotte_assign::policy(policy).map_err(Error::from)?;
        let placed = py.detach(|| policy.place(&self.0, seed)).map_err(Error::from)?;
        Ok(column(placed.hosts()).into_pyarray(py))
    }

    /// Searches from the placements of greedy and of the baselines, and from other starts.
    #[allow(
        clippy::too_many_arguments,
        reason = "one for each limit of a search; Python names them"
    )]
    #[pyo3(signature = (seed, steps, threads, limit_s, starts, watch = None, *, paced = true))]
    fn search(
        &self,
        py: Python<'_>,
        seed: u64,
        steps: u64,
        threads: usize,
        limit_s: f64,
        starts: Vec<PyReadonlyArray1<'_, u32>>,
        watch: Option<Py<PyAny>>,
        paced: bool,
    ) -> PyResult<Found> {
        let starts: Vec<Vec<usize>> = starts.iter().map(indices).collect();
        if let Some(odd) = starts.iter().find(|start| start.len() != self.0.tasks().len()) {
            let message = format!("a start has {} hosts for {} tasks", odd.len(), self.0.tasks().len());
            return Err(PyValueError::new_err(message));
        }
        let (begin, ended, best_s) = (
            Instant::now(),
            AtomicBool::new(false),
            AtomicU64::new(f64::INFINITY.to_bits()),
        );
        let polish_s = (limit_s * POLISH_SHARE).clamp(LEAST_POLISH_S, MOST_POLISH_S);
        let gone = || {
            let share = begin.elapsed().as_secs_f64() / limit_s;
            match (ended.load(Ordering::Relaxed), paced) {
                (true, _) => f64::INFINITY,
                (false, true) => share,
                (false, false) => f64::from(u8::from(share >= 1.0)),
            }
        };
        let late = || ended.load(Ordering::Relaxed) || begin.elapsed().as_secs_f64() > limit_s + polish_s;
        // Times are not negative, so their bit patterns have the same order as the numbers.
        let tell = |Seconds(seconds): Seconds| {
            best_s.fetch_min(seconds.to_bits(), Ordering::Relaxed);
        };
        let search = Search {
            steps,
            threads,
            gone: &gone,
            late: &late,
            tell: &tell,
        };
        let look = |py: Python<'_>| {
            let best_s = f64::from_bits(best_s.load(Ordering::Relaxed));
            report_best(py, watch.as_ref(), best_s)
        };
        let (found, signal) = heeding(py, &ended, &look, || search.run(&self.0, seed, &starts))?;
        match (found, signal) {
            (Err(_), Some(signal)) => Err(signal),
            (Err(error), None) => Err(Error::from(error).into()),
            (Ok(found), signal) => Ok(Found {
                hosts: column(found.assignment.hosts()).into_pyarray(py).unbind(),
                stopped: found.stopped,
                interrupted: signal.is_some(),
                steps: found.steps,
                tried_all: found.tried_all,
            }),
        }
    }

    /// Searches for the placement of least latency that takes at most `most_s` seconds, from the given ones.
    #[allow(
        clippy::too_many_arguments,
        reason = "one for each limit of a search; Python names them"
    )]
    fn nearest<'py>(
        &self,
        py: Python<'py>,
        seed: u64,
        steps: u64,
        threads: usize,
        limit_s: f64,
        starts: Vec<PyReadonlyArray1<'_, u32>>,
        most_s: f64,
    ) -> PyResult<Option<Bound<'py, PyArray1<u32>>>> {
        let starts: Vec<Vec<usize>> = starts.iter().map(indices).collect();
        if starts.iter().any(|start| start.len() != self.0.tasks().len()) {
            return Err(PyValueError::new_err("a start must have one host for each task"));
        }
        let (begin, ended) = (Instant::now(), AtomicBool::new(false));
        let gone = || {
            if ended.load(Ordering::Relaxed) {
                f64::INFINITY
            } else {
                begin.elapsed().as_secs_f64() / limit_s
            }
        };
        let search = Search {
            steps,
            threads,
            gone: &gone,
            ..Search::default()
        };
        let work = || search.nearest(&self.0, seed, &starts, most_s);
        let (found, signal) = heeding(py, &ended, &|_| Ok(()), work)?;
        match (found, signal) {
            (_, Some(signal)) => Err(signal),
            (found, None) => Ok(found.map(|hosts| column(&hosts).into_pyarray(py))),
        }
    }

    /// The completion time of an assignment.
    fn evaluate(&self, py: Python<'_>, assignment: PyReadonlyArray1<'_, u32>) -> PyResult<Completion> {
        let assignment = self.checked(&assignment)?;
        Ok(Completion::of(&self.0, &py.detach(|| self.0.evaluate(&assignment))))
    }

    /// Explains why an assignment takes as long as it does.
    fn explain(&self, py: Python<'_>, assignment: PyReadonlyArray1<'_, u32>) -> PyResult<Explanation> {
        let assignment = self.checked(&assignment)?;
        Ok(py.detach(|| Explanation::of(&self.0, &assignment)))
    }

    /// The same problem over another network between the same hosts.
    fn over(&self, py: Python<'_>, network: &Network) -> PyResult<Self> {
        let network = Arc::clone(&network.0);
        Ok(Self(py.detach(|| self.0.over(network)).map_err(Error::from)?))
    }

    /// The problem in units of tasks that move as one.
    fn compact(&self) -> Compact {
        Compact::of(&self.0)
    }

    /// The number of units, and that of edges between them.
    fn unit_counts(&self) -> (usize, usize) {
        let units = self.0.units();
        (units.members.len(), units.edges.len())
    }

    /// The units as a graph in compressed rows, and the room of hosts.
    fn unit_graph<'py>(&self, py: Python<'py>) -> Rows<'py> {
        let graph = py.detach(|| self.0.unit_graph());
        (
            graph.first.into_pyarray(py),
            graph.others.into_pyarray(py),
            graph.bytes.into_pyarray(py),
            graph.size.into_pyarray(py),
            graph.room.into_pyarray(py),
        )
    }

    /// A placement of blocks of units, as many as hosts.
    fn lay_blocks<'py>(
        &self,
        py: Python<'py>,
        block_of: PyReadonlyArray1<'_, u32>,
        seed: u64,
        threads: usize,
    ) -> PyResult<Option<Bound<'py, PyArray1<u32>>>> {
        let (block_of, units, hosts) = (indices(&block_of), self.0.units().len(), self.0.capacity().len());
        if block_of.len() != units || block_of.iter().any(|&block| block >= hosts) {
            let message = format!("there must be a block below {hosts} for each of {units} units");
            return Err(PyValueError::new_err(message));
        }
        let laid = py.detach(|| self.0.lay_blocks(&block_of, seed, threads));
        Ok(laid.map(|placed| column(placed.hosts()).into_pyarray(py)))
    }

    /// A lower bound on the completion time of every assignment, in seconds.
    fn bound_s(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.0.bound_s())
    }

    /// For each host its cores, its sending and receiving rate, and the same for its machine.
    fn offers(&self, py: Python<'_>) -> Vec<HostOffered> {
        let machine = |offer: &HostOffer| {
            offer
                .machine
                .map(|mates| (mates.nano_cores, mates.leave_bps, mates.enter_bps))
        };
        let offered = |offer: HostOffer| (offer.nano_cores, offer.leave_bps, offer.enter_bps, machine(&offer));
        py.detach(|| self.0.offers()).into_iter().map(offered).collect()
    }

    /// A better lower bound if there are many tasks; `work` is the number of transfers examined.
    #[pyo3(signature = (work, limit_s, watch = None))]
    fn flows_bound_s(&self, py: Python<'_>, work: u64, limit_s: f64, watch: Option<Py<PyAny>>) -> PyResult<Proven> {
        let bound_s = |over: &dyn Fn() -> bool| self.0.flows_bound_s(work, over);
        proven(py, limit_s, watch.as_ref(), f64::INFINITY, bound_s)
    }

    /// A lower bound from the bytes that tasks exchange directly.
    fn volume_bound_s(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.0.volume_bound_s())
    }

    /// A better lower bound, which takes longer; `cap_s` is the time of a known assignment.
    #[pyo3(signature = (cap_s, rounds, work, limit_s, watch = None))]
    fn sets_bound_s(
        &self,
        py: Python<'_>,
        cap_s: f64,
        rounds: u32,
        work: u64,
        limit_s: f64,
        watch: Option<Py<PyAny>>,
    ) -> PyResult<Proven> {
        let bound_s = |over: &dyn Fn() -> bool| self.0.sets_bound_s(Seconds(cap_s), rounds, work, over);
        proven(py, limit_s, watch.as_ref(), cap_s, bound_s)
    }
}

impl Problem {
    fn checked(&self, assignment: &PyReadonlyArray1<'_, u32>) -> PyResult<Assignment> {
        Ok(self.0.assignment(indices(assignment)).map_err(Error::from)?)
    }
}

/// A bound whose computation may be stopped early by the clock or a signal; the result says whether it was.
fn proven(
    py: Python<'_>,
    limit_s: f64,
    watch: Option<&Py<PyAny>>,
    best_s: f64,
    bound_s: impl FnOnce(&dyn Fn() -> bool) -> f64 + Send,
) -> PyResult<Proven> {
    let (begin, ended, stopped) = (Instant::now(), AtomicBool::new(false), AtomicBool::new(false));
    let over = || {
        let over = ended.load(Ordering::Relaxed) || begin.elapsed().as_secs_f64() > limit_s;
        stopped.fetch_or(over, Ordering::Relaxed);
        over
    };
    let look = |py: Python<'_>| report_best(py, watch, best_s);
    let (seconds, signal) = heeding(py, &ended, &look, || bound_s(&over))?;
    Ok(Proven {
        seconds,
        stopped: stopped.load(Ordering::Relaxed),
        interrupted: signal.is_some(),
    })
}

/// Runs `work` in parallel with Python's main thread, which handles signals and calls `look` in the meantime.
///
/// The first error of either, such as one raised by a signal handler, sets `ended`. It is returned together with the
/// result of `work`.
fn heeding<T: Send>(
    py: Python<'_>,
    ended: &AtomicBool,
    look: &(dyn Fn(Python<'_>) -> PyResult<()> + Sync),
    work: impl FnOnce() -> T + Send,
) -> PyResult<(T, Option<PyErr>)> {
    let (made, signal) = py.detach(|| {
        thread::scope(|scope| {
            let (done, waiting) = mpsc::channel();
            let worker = scope.spawn(move || {
                let made = work();
                let _ = done.send(());
                made
            });
            let mut signal = None;
            let mut see = || {
                if let Err(error) = Python::attach(|py| py.check_signals().and_then(|()| look(py))) {
                    ended.store(true, Ordering::Relaxed);
                    signal.get_or_insert(error);
                }
            };
            while waiting.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                see();
            }
            // A signal that has just arrived must not discard the result.
            see();
            (worker.join(), signal)
        })
    });
    let made = made.map_err(|_| PyRuntimeError::new_err("the work panicked"))?;
    Ok((made, signal))
}

/// Calls `watch`, if there is one, with the best time so far.
fn report_best(py: Python<'_>, watch: Option<&Py<PyAny>>, best_s: f64) -> PyResult<()> {
    watch.map_or(Ok(()), |watch| watch.call1(py, (best_s,)).map(drop))
}

fn indices(column: &PyReadonlyArray1<'_, u32>) -> Vec<usize> {
    column.as_array().iter().map(|&host| host as usize).collect()
}

fn column(hosts: &[usize]) -> Vec<u32> {
    hosts.iter().map(|&host| host as u32).collect()
}

fn same_length(what: &str, expected: usize, found: &[usize]) -> PyResult<()> {
    if found.iter().all(|&length| length == expected) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "the columns of {what} have lengths {expected} and {found:?}"
    )))
}
