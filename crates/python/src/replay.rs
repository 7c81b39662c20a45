//! Replays of MPI jobs.

use std::sync::Arc;

use gavotte_replay as replay;
use gavotte_replay::{Collective, Kind, Library, Model, Op, Placed, Program, ReplayError, Replayed, Setting};
use numpy::PyReadonlyArray2;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::Error;
use crate::fluid::Platform;

impl From<ReplayError> for Error {
    fn from(error: ReplayError) -> Self {
        Self::Value(error.to_string())
    }
}

/// Operation, members of the communicator, least bytes, algorithm and bytes of a piece.
type SettingOf = (String, u32, u64, u8, u64);

fn setting((name, members, from_bytes, algorithm, segment_bytes): SettingOf) -> PyResult<Setting> {
    Ok(Setting {
        kind: kind_of(&name)?,
        members,
        from_bytes,
        algorithm,
        segment_bytes,
    })
}

/// The costs of messages at their ends.
#[derive(FromPyObject)]
struct ModelOf {
    library: String,
    settings: Vec<SettingOf>,
    eager_bytes: u64,
    socket_bytes: u64,
    overhead_s: f64,
    byte_overhead_s: f64,
    combine_s: f64,
    local_latency_s: f64,
    local_bps: f64,
    most_events: u64,
}

/// The MPI library of this name.
pub(crate) fn library_of(name: &str) -> PyResult<Library> {
    match name {
        "openmpi" => Ok(Library::OpenMpi),
        "mpich" => Ok(Library::Mpich),
        other => Err(PyValueError::new_err(format!(
            "`{other}` is no MPI library; use openmpi or mpich"
        ))),
    }
}

fn kind_of(name: &str) -> PyResult<Kind> {
    Kind::named(name).ok_or_else(|| PyValueError::new_err(format!("there is no collective operation `{name}`")))
}

/// The number of the algorithm that a library takes for an operation of `members` ranks.
#[pyfunction]
pub(crate) fn default_algorithm(library: &str, operation: &str, members: usize, size_bytes: u64) -> PyResult<u8> {
    Ok(replay::default_algorithm(
        library_of(library)?,
        kind_of(operation)?,
        members,
        size_bytes,
    ))
}

impl ModelOf {
    fn model(self) -> PyResult<Model> {
        let library = library_of(&self.library)?;
        let settings = self.settings.into_iter().map(setting).collect::<PyResult<_>>()?;
        Ok(Model {
            library,
            settings,
            eager_bytes: self.eager_bytes,
            socket_bytes: self.socket_bytes,
            overhead_s: self.overhead_s,
            byte_overhead_s: self.byte_overhead_s,
            combine_s: self.combine_s,
            local_latency_s: self.local_latency_s,
            local_bps: self.local_bps,
            most_events: self.most_events,
        })
    }
}

/// The operations of a job's ranks, checked.
#[pyclass(frozen, module = "gavotte._core")]
pub(crate) struct JobProgram {
    program: Program,
}

#[pymethods]
impl JobProgram {
    /// Each rank's operations as tuples, whose first item is the kind.
    #[new]
    #[allow(clippy::needless_pass_by_value, reason = "lists come by value")]
    fn new(ranks: Vec<Vec<Bound<'_, PyTuple>>>, communicators: Vec<Vec<u32>>) -> PyResult<Self> {
        let ranks = ranks.iter().map(|ops| Ok(read(ops)?.into())).collect::<PyResult<_>>()?;
        let program = Program { ranks, communicators };
        program.check().map_err(Error::from)?;
        Ok(Self { program })
    }

    /// Replays the job once for each seed; without one, with mean computing times.
    #[allow(clippy::needless_pass_by_value, reason = "a list and an array come by value")]
    #[pyo3(signature = (platform, hosts, model, *, seeds, cap_bps=None))]
    fn replay(
        &self,
        py: Python<'_>,
        platform: Option<&Platform>,
        hosts: Vec<u32>,
        model: ModelOf,
        seeds: Vec<Option<u64>>,
        cap_bps: Option<PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Vec<JobReplayed>> {
        let model = model.model()?;
        let placed = Placed {
            platform: platform.map(|platform| {
                let platform: &dyn gavotte_fluid::Platform = &*platform.inner;
                platform
            }),
            hosts: &hosts,
            cap_bps: cap_bps.as_ref().map(PyReadonlyArray2::as_slice).transpose()?,
        };
        let program = &self.program;
        let done: Result<Vec<Replayed>, ReplayError> = py.detach(|| {
            let runs = seeds.iter().map(|&seed| replay::replay(program, placed, &model, seed));
            runs.collect()
        });
        Ok(done.map_err(Error::from)?.into_iter().map(JobReplayed::new).collect())
    }
}

/// The result of a replay.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct JobReplayed {
    makespan_s: f64,
    /// Parts of the chain that decides the makespan: computing, the library's work, latencies, transfers.
    critical_s: (f64, f64, f64, f64),
    compute_s: Vec<f64>,
    overhead_s: Vec<f64>,
    wait_s: Vec<f64>,
    finish_s: Vec<f64>,
    events: u64,
    extrapolated_s: f64,
}

impl JobReplayed {
    fn new(done: Replayed) -> Self {
        let critical = done.critical;
        Self {
            makespan_s: done.makespan_s,
            critical_s: (
                critical.compute_s,
                critical.overhead_s,
                critical.latency_s,
                critical.transfer_s,
            ),
            compute_s: done.compute_s,
            overhead_s: done.overhead_s,
            wait_s: done.wait_s,
            finish_s: done.finish_s,
            events: done.events,
            extrapolated_s: done.extrapolated_s,
        }
    }
}

/// Reads a sequence of operations.
fn read(ops: &[Bound<'_, PyTuple>]) -> PyResult<Vec<Op>> {
    ops.iter().map(op).collect()
}

/// Reads an operation.
fn op(tuple: &Bound<'_, PyTuple>) -> PyResult<Op> {
    let kind: String = tuple.get_item(0)?.extract()?;
    let rest = tuple.get_slice(1, tuple.len());
    Ok(match kind.as_str() {
        "compute" => {
            let (mean_s, variance_s2) = rest.extract()?;
            Op::Compute { mean_s, variance_s2 }
        }
        "isend" => {
            let (peer, bytes, tag, communicator, request, synchronous) = rest.extract()?;
            Op::Isend {
                peer,
                bytes,
                tag,
                communicator,
                request,
                synchronous,
            }
        }
        "irecv" => {
            let (peer, tag, communicator, request) = rest.extract()?;
            Op::Irecv {
                peer,
                tag,
                communicator,
                request,
            }
        }
        "wait" => {
            let (requests,): (Vec<u32>,) = rest.extract()?;
            Op::Wait(requests.into())
        }
        "cancel" => {
            let (request,) = rest.extract()?;
            Op::Cancel(request)
        }
        "collective" => collective(&rest)?,
        "loop" => {
            let (count, body): (u64, Vec<Bound<'_, PyTuple>>) = rest.extract()?;
            Op::Loop {
                count,
                body: read(&body)?.into(),
            }
        }
        other => return Err(PyValueError::new_err(format!("there is no operation `{other}`"))),
    })
}

/// Kind, communicator, root, bytes, counts, sources, targets and request.
type CollectiveOf = (String, u32, u32, u64, Vec<u64>, Vec<u32>, Vec<u32>, Option<u32>);

fn collective(rest: &Bound<'_, PyTuple>) -> PyResult<Op> {
    let (name, communicator, root, bytes, counts, sources, targets, request): CollectiveOf = rest.extract()?;
    Ok(Op::Collective(Arc::new(Collective {
        kind: kind_of(&name)?,
        communicator,
        root,
        bytes,
        counts,
        sources,
        targets,
        request,
    })))
}
