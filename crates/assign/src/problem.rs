//! The placement problem: tasks and transfers on one side, hosts and what joins them on the other.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::ProblemError;
use crate::room::Cores;
use crate::rules::{MaxPrice, Rules};
use crate::units::Units;

/// Memory of a host for which no limit is known.
pub const UNLIMITED_MEMORY: u64 = u64::MAX;

/// A task to be placed on exactly one host.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// What messages call it.
    pub name: String,
    /// CPU cores it needs, fractions allowed.
    pub cpus: f64,
    /// Memory it needs, in bytes.
    pub memory_bytes: u64,
    /// The only hosts it may be placed on; `None` allows all of them.
    pub hosts: Option<Vec<usize>>,
}

/// Data that one task sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the sending task.
    pub source: usize,
    /// Index of the receiving task.
    pub target: usize,
    /// Amount in bytes.
    pub bytes: u64,
    /// Transfers of one phase run together; a phase starts when the one before it has ended.
    pub phase: u32,
}

/// A host that can run tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// What messages call it.
    pub name: String,
    /// CPU cores it offers.
    pub cpus: f64,
    /// Memory it offers in bytes, or [`UNLIMITED_MEMORY`].
    pub memory_bytes: u64,
    /// Hosts with the same number are virtual machines of one physical machine.
    pub machine: usize,
    /// The most it can send to other machines, in bit/s.
    pub egress_bps: f64,
    /// The most it can receive from other machines, in bit/s.
    pub ingress_bps: f64,
}

/// Hosts behind a shared up and down link, such as a rack.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What messages call it.
    pub name: String,
    /// Indices of the hosts in it; those of its child groups need not be repeated.
    pub members: Vec<usize>,
    /// The most that can leave it, in bit/s.
    pub up_bps: f64,
    /// The most that can enter it, in bit/s.
    pub down_bps: f64,
    /// Index of the group that this one is part of.
    pub parent: Option<usize>,
}

/// Which links transfers are thought to share (Choreo, section 4.4 and Appendix).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each ordered pair of hosts has a link of its own, and nothing else is shared.
    Pipe,
    /// Besides, each host's egress and ingress are shared by all it sends and receives.
    Hose,
    /// Besides, each group's up and down link are shared by all that leaves and enters it.
    Groups,
}

impl FromStr for Sharing {
    type Err = ProblemError;

    fn from_str(text: &str) -> Result<Self, ProblemError> {
        match text {
            "pipe" => Ok(Self::Pipe),
            "hose" => Ok(Self::Hose),
            "groups" => Ok(Self::Groups),
            _ => Err(ProblemError::UnknownSharing(text.to_owned())),
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipe => "pipe",
            Self::Hose => "hose",
            Self::Groups => "groups",
        })
    }
}

/// Data that an application placed earlier still sends from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Index of the sending host.
    pub source: usize,
    /// Index of the receiving host.
    pub target: usize,
    /// Amount in bytes.
    pub bytes: u64,
    /// The phase in which it is under way.
    pub phase: u32,
}

/// All that [`Problem::new`] needs.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The tasks to place.
    pub tasks: Vec<Task>,
    /// Who sends how much to whom.
    pub transfers: Vec<Transfer>,
    /// Where tasks can be placed.
    pub hosts: Vec<Host>,
    /// Rate from host `m` to host `n` in bit/s at `m * hosts.len() + n`; the diagonal is not read.
    pub rate_bps: Vec<f64>,
    /// Shared links; read under [`Sharing::Groups`] only, but always checked.
    pub groups: Vec<Group>,
    /// Which links transfers share.
    pub sharing: Sharing,
    /// What a placement must keep besides room.
    pub rules: Rules,
    /// What is under way already. It delays transfers on the links that both use.
    pub load: Vec<Load>,
}

/// A checked problem: every index is in range, every rate is positive, every task may be placed somewhere.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) tasks: Vec<Task>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) rate_bps: Vec<f64>,
    pub(crate) groups: Vec<Group>,
    pub(crate) sharing: Sharing,
    /// `allowed[i][m]`, or `None` where task `i` may go anywhere.
    pub(crate) allowed: Vec<Option<Vec<bool>>>,
    /// CPU need of each task, as counted in [`crate::Room`].
    pub(crate) cores: Vec<Cores>,
    /// Transfers ordered by phase, and within one as given.
    pub(crate) by_phase: Vec<usize>,
    /// Each phase that occurs, in ascending order, with its part of `by_phase`.
    pub(crate) phases: Vec<(u32, Range<usize>)>,
    /// `inside[g][m]`: host `m` is in group `g` or in a group below it.
    pub(crate) inside: Vec<Vec<bool>>,
    /// The groups around each host.
    pub(crate) around: Vec<Vec<usize>>,
    pub(crate) rules: Rules,
    pub(crate) load: Vec<Load>,
    /// `load` by links: position of the phase, index of the link, bytes; ascending.
    pub(crate) base: Vec<(usize, usize, u64)>,
    /// Tasks that move as one.
    pub(crate) units: Units,
}

impl Problem {
    /// Checks `parts` and builds the problem.
    ///
    /// # Errors
    /// [`ProblemError`] names the first part that makes no sense, for instance a rate of zero or a transfer to a task
    /// that does not exist. A task too large for every host is no such error: it is found when placing.
    pub fn new(parts: Parts) -> Result<Self, ProblemError> {
        parts.check()?;
        let Parts {
            tasks,
            transfers,
            hosts,
            rate_bps,
            groups,
            sharing,
            rules,
            load,
        } = parts;
        let allowed = tasks
            .iter()
            .map(|task| task.hosts.as_ref().map(|only| mask(hosts.len(), only)))
            .collect();
        let cores = tasks.iter().map(|task| Cores::needed(task.cpus)).collect();
        let (by_phase, phases) = split_phases(&transfers);
        let inside = insides(hosts.len(), &groups);
        let around = (0..hosts.len())
            .map(|m| (0..groups.len()).filter(|&g| inside[g][m]).collect())
            .collect();
        let mut problem = Self {
            tasks,
            transfers,
            hosts,
            rate_bps,
            groups,
            sharing,
            allowed,
            cores,
            by_phase,
            phases,
            inside,
            around,
            rules,
            load,
            base: Vec::new(),
            units: Units::default(),
        };
        problem.base = problem.base_loads();
        problem.units = Units::of_tasks(&problem);
        Ok(problem)
    }

    /// The tasks that move as one, and what they exchange.
    pub fn units(&self) -> &Units {
        &self.units
    }

    /// Bytes of `load` on each link, in the phases that occur.
    fn base_loads(&self) -> Vec<(usize, usize, u64)> {
        let mut sums = BTreeMap::new();
        for load in &self.load {
            let Some(phase) = self.phases.iter().position(|(phase, _)| *phase == load.phase) else {
                continue;
            };
            self.for_each_link(load.source, load.target, |link| {
                let bytes: &mut u64 = sums.entry((phase, self.link_index(link))).or_default();
                *bytes = bytes.saturating_add(load.bytes);
            });
        }
        sums.into_iter()
            .map(|((phase, link), bytes)| (phase, link, bytes))
            .collect()
    }

    /// Bytes that others have on a link in the phase at this position.
    pub(crate) fn base_on(&self, phase: usize, link: usize) -> u64 {
        let found = self
            .base
            .binary_search_by_key(&(phase, link), |&(phase, link, _)| (phase, link));
        found.map_or(0, |at| self.base[at].2)
    }

    /// The tasks, in the order given.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The transfers, in the order given.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The hosts, in the order given.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The groups, in the order given.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What a placement must keep besides room.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// What is under way already.
    pub fn load(&self) -> &[Load] {
        &self.load
    }

    /// What the hosts and bytes of an assignment cost, with the bound on it; `None` where there is none.
    pub(crate) fn price(&self, host_of: &[usize]) -> Option<(f64, &MaxPrice)> {
        let bound = self.rules.max_price.as_ref()?;
        let mut used = vec![false; self.hosts.len()];
        for &host in host_of {
            used[host] = true;
        }
        let hosts: f64 = (0..used.len())
            .filter(|&host| used[host])
            .map(|host| bound.host[host])
            .sum();
        let sent = self.transfers.iter().map(|transfer| {
            let (m, n) = (host_of[transfer.source], host_of[transfer.target]);
            let per_byte = if m == n {
                0.0
            } else {
                bound.per_byte[m * self.hosts.len() + n]
            };
            per_byte * transfer.bytes as f64
        });
        Some((hosts + sent.sum::<f64>(), bound))
    }

    /// Which links transfers share.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Whether the constraints let `task` run on `host`, whatever room is left there.
    pub fn allows(&self, task: usize, host: usize) -> bool {
        self.allowed[task].as_ref().is_none_or(|mask| mask[host])
    }

    /// The only host that `task` may use, if there is only one.
    pub fn pin(&self, task: usize) -> Option<usize> {
        let only = self.tasks[task].hosts.as_ref()?;
        only.iter().all(|&host| host == only[0]).then_some(only[0])
    }

    /// Whether `m` and `n` are one host, or two on one physical machine.
    pub fn colocated(&self, m: usize, n: usize) -> bool {
        self.hosts[m].machine == self.hosts[n].machine
    }
}

/// A host for each task. Only [`Problem::assignment`] makes one, so it is known to be feasible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment(pub(crate) Vec<usize>);

impl Assignment {
    /// The index of each task's host, in task order.
    pub fn hosts(&self) -> &[usize] {
        &self.0
    }

    /// The same, owned.
    pub fn into_hosts(self) -> Vec<usize> {
        self.0
    }
}

fn mask(len: usize, set: &[usize]) -> Vec<bool> {
    let mut mask = vec![false; len];
    for &index in set {
        mask[index] = true;
    }
    mask
}

fn split_phases(transfers: &[Transfer]) -> (Vec<usize>, Vec<(u32, Range<usize>)>) {
    let mut order: Vec<usize> = (0..transfers.len()).collect();
    order.sort_by_key(|&t| transfers[t].phase);
    let mut phases: Vec<(u32, Range<usize>)> = Vec::new();
    for (place, &t) in order.iter().enumerate() {
        match phases.last_mut() {
            Some((phase, range)) if *phase == transfers[t].phase => range.end = place + 1,
            _ => phases.push((transfers[t].phase, place..place + 1)),
        }
    }
    (order, phases)
}

/// Members of each group with those of the groups below it; parents are known to form no circle.
fn insides(hosts: usize, groups: &[Group]) -> Vec<Vec<bool>> {
    let mut inside = vec![vec![false; hosts]; groups.len()];
    for (start, group) in groups.iter().enumerate() {
        let mut above = Some(start);
        while let Some(g) = above {
            for &m in &group.members {
                inside[g][m] = true;
            }
            above = groups[g].parent;
        }
    }
    inside
}
