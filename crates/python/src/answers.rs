//! Placement: the results of the methods of `Problem`.

use numpy::PyArray1;
use pyo3::prelude::*;

/// The duration of an assignment's transfers.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Completion {
    seconds: f64,
    penalty_s: f64,
    bottleneck: Option<Bottleneck>,
}

impl Completion {
    pub(crate) fn of(problem: &gavotte_assign::Problem, completion: &gavotte_assign::Completion) -> Self {
        let named = |worst: gavotte_assign::Bottleneck| Bottleneck {
            link: problem.network().link_name(worst.link),
            phase: worst.phase,
            bytes: worst.bytes,
            rate_bps: worst.rate_bps,
            seconds: worst.seconds,
        };
        Self {
            seconds: completion.seconds,
            penalty_s: completion.penalty_s,
            bottleneck: completion.bottleneck().map(named),
        }
    }
}

/// The link that the longest phase waits for.
#[pyclass(frozen, get_all, module = "gavotte._core")]
#[derive(Clone)]
pub(crate) struct Bottleneck {
    link: String,
    phase: u32,
    bytes: u64,
    rate_bps: f64,
    seconds: f64,
}

/// The result of a search.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Found {
    pub(crate) hosts: Py<PyArray1<u32>>,
    pub(crate) stopped: bool,
    pub(crate) interrupted: bool,
    pub(crate) steps: u64,
    pub(crate) tried_all: bool,
}

/// A bound, and the reason why the work on it ended.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Proven {
    pub(crate) seconds: f64,
    pub(crate) stopped: bool,
    pub(crate) interrupted: bool,
}

/// The load of one link in one phase.
#[pyclass(frozen, get_all, module = "gavotte._core")]
#[derive(Clone)]
pub(crate) struct LinkTime {
    link: String,
    phase: u32,
    bytes: u64,
    load_bytes: u64,
    rate_bps: f64,
    seconds: f64,
}

/// The reasons why an assignment takes as long as it does.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Explanation {
    links: Vec<LinkTime>,
    crossing: Vec<usize>,
    runner_up: Option<(Vec<(usize, usize)>, f64)>,
}

impl Explanation {
    pub(crate) fn of(problem: &gavotte_assign::Problem, assignment: &gavotte_assign::Assignment) -> Self {
        let named = |time: gavotte_assign::LinkTime| LinkTime {
            link: problem.network().link_name(time.link),
            phase: time.phase,
            bytes: time.bytes,
            load_bytes: time.load_bytes,
            rate_bps: time.rate_bps,
            seconds: time.seconds,
        };
        let bottleneck = problem.evaluate(assignment).bottleneck();
        Self {
            links: problem
                .link_times(assignment)
                .into_iter()
                .flatten()
                .map(named)
                .collect(),
            crossing: bottleneck.map_or_else(Vec::new, |worst| problem.crossing(assignment, &worst)),
            runner_up: problem.runner_up(assignment).map(|other| (other.moves, other.seconds)),
        }
    }
}

/// Tasks or units, the most hosts or zones, the zones by index, and the price of more.
pub(crate) type LimitRow = (Vec<usize>, usize, Option<usize>, Option<f64>);

/// Zones by index, needs of units, the most and the least in each zone, and the price of more.
type QuotaOfUnits = (usize, Vec<(usize, u64)>, Vec<u64>, u64, Option<f64>);

/// The problem in units of tasks that move as one.
#[pyclass(frozen, get_all, module = "gavotte._core")]
pub(crate) struct Compact {
    members: Vec<Vec<usize>>,
    unit_of: Vec<usize>,
    nano_cores: Vec<u64>,
    memory_bytes: Vec<u64>,
    storage_bytes: Vec<u64>,
    host_nano_cores: Vec<u64>,
    host_memory_bytes: Vec<u64>,
    host_storage_bytes: Vec<u64>,
    allowed: Vec<Option<Vec<usize>>>,
    edges: Vec<(usize, usize, u64, usize)>,
    apart: Vec<(usize, usize)>,
    latencies: Vec<(usize, usize, f64, Option<f64>)>,
    limits: Vec<LimitRow>,
    zonings: Vec<Vec<Option<u32>>>,
    quotas: Vec<QuotaOfUnits>,
}

impl Compact {
    pub(crate) fn of(problem: &gavotte_assign::Problem) -> Self {
        let units = problem.units();
        let listed = |mask: &Vec<bool>| (0..mask.len()).filter(|&host| mask[host]).collect();
        let pairs = |(unit, others): (usize, &Vec<usize>)| {
            let later = others.iter().copied().filter(move |&other| other >= unit);
            later.map(move |other| (unit, other)).collect::<Vec<_>>()
        };
        let offered = |room: &gavotte_assign::Capacity| gavotte_assign::Cores::offered(room.cpus).nanos();
        let zones = |row: &Vec<u32>| {
            row.iter()
                .map(|&zone| (zone != gavotte_assign::NO_ZONE).then_some(zone))
                .collect()
        };
        let rooms = || problem.capacity().iter().map(|room| room.stores);
        Self {
            members: units.members.clone(),
            unit_of: units.unit_of.clone(),
            nano_cores: units.cores.clone(),
            memory_bytes: units.stores.iter().map(|stores| stores.memory_bytes).collect(),
            storage_bytes: units.stores.iter().map(|stores| stores.storage_bytes).collect(),
            host_nano_cores: problem.capacity().iter().map(offered).collect(),
            host_memory_bytes: rooms().map(|stores| stores.memory_bytes).collect(),
            host_storage_bytes: rooms().map(|stores| stores.storage_bytes).collect(),
            allowed: units.allowed.iter().map(|mask| mask.as_ref().map(listed)).collect(),
            edges: units
                .edges
                .iter()
                .map(|edge| (edge.source, edge.target, edge.bytes, edge.phase))
                .collect(),
            apart: units.apart.iter().enumerate().flat_map(pairs).collect(),
            latencies: units.latencies().collect(),
            limits: units
                .limits
                .iter()
                .map(|limit| (limit.units.clone(), limit.most, limit.zoning, limit.price_s))
                .collect(),
            zonings: problem.rules().zonings.iter().map(zones).collect(),
            quotas: problem
                .rules()
                .quotas
                .iter()
                .zip(&units.quotas)
                .map(|(quota, needs)| {
                    (
                        quota.zoning,
                        needs.clone(),
                        quota.most.clone(),
                        quota.least,
                        quota.price_s,
                    )
                })
                .collect(),
        }
    }
}
