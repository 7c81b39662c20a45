//! Placement: `Problem` and what its methods return.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use gavotte_assign::{
    Assignment, Group, Host, Load, MaxHosts, MaxLatency, MaxPrice, Parts, Rules, Search, Sharing, Task, Transfer,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answers::{Compact, Completion, Explanation, Found};
use crate::errors::Error;

/// Names of the policies that place in one pass, the best known first.
#[pyfunction]
pub(crate) fn policies() -> Vec<&'static str> {
    gavotte_assign::policies().map(gavotte_assign::Policy::name).to_vec()
}

/// Columns of the tasks.
#[derive(FromPyObject)]
struct Tasks<'py> {
    names: Vec<String>,
    cpus: PyReadonlyArray1<'py, f64>,
    memory_bytes: PyReadonlyArray1<'py, u64>,
    allowed: HashMap<usize, Vec<usize>>,
}

impl Tasks<'_> {
    fn into_tasks(mut self) -> PyResult<Vec<Task>> {
        let (cpus, memory) = (self.cpus.as_array(), self.memory_bytes.as_array());
        same_length("tasks", self.names.len(), &[cpus.len(), memory.len()])?;
        if let Some(task) = self.allowed.keys().find(|&&task| task >= self.names.len()) {
            return Err(PyValueError::new_err(format!(
                "`allowed` names task {task}, which does not exist"
            )));
        }
        let build = |(i, name)| Task {
            name,
            cpus: cpus[i],
            memory_bytes: memory[i],
            hosts: self.allowed.remove(&i),
        };
        Ok(self.names.into_iter().enumerate().map(build).collect())
    }
}

/// Columns of the transfers.
#[derive(FromPyObject)]
struct Transfers<'py> {
    source: PyReadonlyArray1<'py, u32>,
    target: PyReadonlyArray1<'py, u32>,
    bytes: PyReadonlyArray1<'py, u64>,
    phase: PyReadonlyArray1<'py, u32>,
}

impl Transfers<'_> {
    fn into_transfers(self) -> PyResult<Vec<Transfer>> {
        let (source, target) = (self.source.as_array(), self.target.as_array());
        let (bytes, phase) = (self.bytes.as_array(), self.phase.as_array());
        same_length("transfers", source.len(), &[target.len(), bytes.len(), phase.len()])?;
        let build = |t: usize| Transfer {
            source: source[t] as usize,
            target: target[t] as usize,
            bytes: bytes[t],
            phase: phase[t],
        };
        Ok((0..source.len()).map(build).collect())
    }
}

/// Columns of the hosts.
#[derive(FromPyObject)]
struct Hosts<'py> {
    names: Vec<String>,
    cpus: PyReadonlyArray1<'py, f64>,
    memory_bytes: PyReadonlyArray1<'py, u64>,
    machine: PyReadonlyArray1<'py, u32>,
    egress_bps: PyReadonlyArray1<'py, f64>,
    ingress_bps: PyReadonlyArray1<'py, f64>,
}

impl Hosts<'_> {
    fn into_hosts(self) -> PyResult<Vec<Host>> {
        let (cpus, memory) = (self.cpus.as_array(), self.memory_bytes.as_array());
        let (egress, ingress) = (self.egress_bps.as_array(), self.ingress_bps.as_array());
        let machine = self.machine.as_array();
        let lengths = [cpus.len(), memory.len(), egress.len(), ingress.len(), machine.len()];
        same_length("hosts", self.names.len(), &lengths)?;
        let build = |(m, name)| Host {
            name,
            cpus: cpus[m],
            memory_bytes: memory[m],
            machine: machine[m] as usize,
            egress_bps: egress[m],
            ingress_bps: ingress[m],
        };
        Ok(self.names.into_iter().enumerate().map(build).collect())
    }
}

/// One group of hosts.
#[derive(FromPyObject)]
struct GroupOf {
    name: String,
    members: Vec<usize>,
    up_bps: f64,
    down_bps: f64,
    parent: Option<usize>,
}

impl From<GroupOf> for Group {
    fn from(group: GroupOf) -> Self {
        let GroupOf {
            name,
            members,
            up_bps,
            down_bps,
            parent,
        } = group;
        Self {
            name,
            members,
            up_bps,
            down_bps,
            parent,
        }
    }
}

/// What a placement must keep besides room.
#[derive(FromPyObject)]
struct RulesOf<'py> {
    apart: Vec<Vec<usize>>,
    together: Vec<Vec<usize>>,
    max_latency: Vec<(usize, usize, f64)>,
    max_hosts: Vec<(Vec<usize>, usize)>,
    latency_s: PyReadonlyArray2<'py, f64>,
    max_price: Option<(Vec<f64>, PyReadonlyArray2<'py, f64>, f64)>,
}

impl From<RulesOf<'_>> for Rules {
    fn from(rules: RulesOf<'_>) -> Self {
        let near = |(source, target, seconds)| MaxLatency {
            source,
            target,
            seconds,
        };
        Self {
            apart: rules.apart,
            together: rules.together,
            max_latency: rules.max_latency.into_iter().map(near).collect(),
            max_hosts: rules
                .max_hosts
                .into_iter()
                .map(|(tasks, most)| MaxHosts { tasks, most })
                .collect(),
            latency_s: rules.latency_s.as_array().iter().copied().collect(),
            max_price: rules.max_price.map(|(host, per_byte, most)| MaxPrice {
                host,
                per_byte: per_byte.as_array().iter().copied().collect(),
                most,
            }),
        }
    }
}

/// Columns of what is under way already.
#[derive(FromPyObject)]
struct Loads<'py> {
    source: PyReadonlyArray1<'py, u32>,
    target: PyReadonlyArray1<'py, u32>,
    bytes: PyReadonlyArray1<'py, u64>,
    phase: PyReadonlyArray1<'py, u32>,
}

impl Loads<'_> {
    fn into_loads(self) -> PyResult<Vec<Load>> {
        let (source, target) = (self.source.as_array(), self.target.as_array());
        let (bytes, phase) = (self.bytes.as_array(), self.phase.as_array());
        same_length("loads", source.len(), &[target.len(), bytes.len(), phase.len()])?;
        let build = |l: usize| Load {
            source: source[l] as usize,
            target: target[l] as usize,
            bytes: bytes[l],
            phase: phase[l],
        };
        Ok((0..source.len()).map(build).collect())
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
        tasks: Tasks<'_>,
        transfers: Transfers<'_>,
        hosts: Hosts<'_>,
        rate_bps: PyReadonlyArray2<'_, f64>,
        groups: Vec<GroupOf>,
        sharing: &str,
        rules: RulesOf<'_>,
        load: Loads<'_>,
    ) -> PyResult<Self> {
        let sharing: Sharing = sharing.parse().map_err(Error::from)?;
        let hosts = hosts.into_hosts()?;
        let rates = rate_bps.as_array();
        if rates.dim() != (hosts.len(), hosts.len()) {
            let message = format!("the rate matrix is {:?} for {} hosts", rates.dim(), hosts.len());
            return Err(PyValueError::new_err(message));
        }
        let parts = Parts {
            tasks: tasks.into_tasks()?,
            transfers: transfers.into_transfers()?,
            hosts,
            rate_bps: rates.iter().copied().collect(),
            groups: groups.into_iter().map(Group::from).collect(),
            sharing,
            rules: rules.into(),
            load: load.into_loads()?,
        };
        Ok(Self(
            py.detach(|| gavotte_assign::Problem::new(parts)).map_err(Error::from)?,
        ))
    }

    /// Places the tasks by the policy of this name.
    fn place<'py>(&self, py: Python<'py>, policy: &str, seed: u64) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let policy = gavotte_assign::policy(policy).map_err(Error::from)?;
        let placed = py.detach(|| policy.place(&self.0, seed)).map_err(Error::from)?;
        Ok(column(placed.hosts()).into_pyarray(py))
    }

    /// Searches from greedy's placement and others on; counts its work in steps.
    fn search(
        &self,
        py: Python<'_>,
        seed: u64,
        steps: u64,
        threads: usize,
        limit_s: f64,
        starts: Vec<PyReadonlyArray1<'_, u32>>,
    ) -> PyResult<Found> {
        let starts: Vec<Vec<usize>> = starts.iter().map(indices).collect();
        if let Some(odd) = starts.iter().find(|start| start.len() != self.0.tasks().len()) {
            let message = format!("a start has {} hosts for {} tasks", odd.len(), self.0.tasks().len());
            return Err(PyValueError::new_err(message));
        }
        let limit = Duration::try_from_secs_f64(limit_s).unwrap_or(Duration::MAX);
        let found = py.detach(|| {
            let begin = Instant::now();
            let stop = || begin.elapsed() > limit;
            let search = Search {
                steps,
                threads,
                stop: &stop,
            };
            search.run(&self.0, seed, &starts)
        });
        let found = found.map_err(Error::from)?;
        Ok(Found {
            hosts: column(found.assignment.hosts()).into_pyarray(py).unbind(),
            stopped: found.stopped,
            steps: found.steps,
        })
    }

    /// The completion time of an assignment.
    fn evaluate(&self, py: Python<'_>, assignment: PyReadonlyArray1<'_, u32>) -> PyResult<Completion> {
        let assignment = self.checked(&assignment)?;
        Ok(Completion::of(&self.0, &py.detach(|| self.0.evaluate(&assignment))))
    }

    /// Why an assignment takes as long as it does.
    fn explain(&self, py: Python<'_>, assignment: PyReadonlyArray1<'_, u32>) -> PyResult<Explanation> {
        let assignment = self.checked(&assignment)?;
        Ok(py.detach(|| Explanation::of(&self.0, &assignment)))
    }

    /// The problem in units of tasks that move as one.
    fn compact(&self) -> Compact {
        Compact::of(&self.0)
    }

    /// The time that no assignment can beat.
    fn bound_s(&self, py: Python<'_>) -> f64 {
        py.detach(|| self.0.bound_s())
    }

    /// A better such time, which takes longer to find; `cap_s` is that of a known assignment.
    fn sets_bound_s(&self, py: Python<'_>, cap_s: f64, rounds: u32, work: u64) -> f64 {
        py.detach(|| self.0.sets_bound_s(cap_s, rounds, work))
    }
}

impl Problem {
    fn checked(&self, assignment: &PyReadonlyArray1<'_, u32>) -> PyResult<Assignment> {
        Ok(self.0.assignment(indices(assignment)).map_err(Error::from)?)
    }
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
