//! The checks behind [`crate::Problem::new`].

use crate::error::ProblemError;
use crate::problem::{Group, Parts};
use crate::room::MOST_CPUS;

impl Parts {
    /// Returns the first thing that makes no sense.
    pub(crate) fn check(&self) -> Result<(), ProblemError> {
        self.check_hosts()?;
        self.check_tasks()?;
        self.check_transfers()?;
        self.check_rates()?;
        self.check_groups()?;
        self.rules.check(self)
    }

    fn check_hosts(&self) -> Result<(), ProblemError> {
        if self.hosts.is_empty() {
            return Err(ProblemError::NoHosts);
        }
        for host in &self.hosts {
            check_cpus(host.cpus, || format!("host `{}`", host.name))?;
            check_rate(host.egress_bps, || format!("the egress of host `{}`", host.name))?;
            check_rate(host.ingress_bps, || format!("the ingress of host `{}`", host.name))?;
        }
        Ok(())
    }

    fn check_tasks(&self) -> Result<(), ProblemError> {
        for task in &self.tasks {
            check_cpus(task.cpus, || format!("task `{}`", task.name))?;
            if let Some(only) = &task.hosts {
                if only.is_empty() {
                    return Err(ProblemError::NowhereAllowed(task.name.clone()));
                }
                for &host in only {
                    check_index(host, self.hosts.len(), || {
                        format!("an allowed host of task `{}`", task.name)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn check_transfers(&self) -> Result<(), ProblemError> {
        let mut total = 0_u64;
        for (t, transfer) in self.transfers.iter().enumerate() {
            check_index(transfer.source, self.tasks.len(), || {
                format!("the source of transfer {t}")
            })?;
            check_index(transfer.target, self.tasks.len(), || {
                format!("the target of transfer {t}")
            })?;
            if transfer.source == transfer.target {
                let task = self.tasks[transfer.source].name.clone();
                return Err(ProblemError::SelfTransfer { transfer: t, task });
            }
            total = total.checked_add(transfer.bytes).ok_or(ProblemError::TooManyBytes)?;
        }
        for (l, load) in self.load.iter().enumerate() {
            check_index(load.source, self.hosts.len(), || format!("the source of load {l}"))?;
            check_index(load.target, self.hosts.len(), || format!("the target of load {l}"))?;
            total = total.checked_add(load.bytes).ok_or(ProblemError::TooManyBytes)?;
        }
        Ok(())
    }

    fn check_rates(&self) -> Result<(), ProblemError> {
        let hosts = self.hosts.len();
        if self.rate_bps.len() != hosts * hosts {
            return Err(ProblemError::RateShape {
                found: self.rate_bps.len(),
                hosts,
            });
        }
        for (m, from) in self.hosts.iter().enumerate() {
            for (n, to) in self.hosts.iter().enumerate() {
                if m != n {
                    check_rate(self.rate_bps[m * hosts + n], || {
                        format!("the rate from `{}` to `{}`", from.name, to.name)
                    })?;
                }
            }
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), ProblemError> {
        for group in &self.groups {
            check_rate(group.up_bps, || format!("the up link of group `{}`", group.name))?;
            check_rate(group.down_bps, || format!("the down link of group `{}`", group.name))?;
            for &member in &group.members {
                check_index(member, self.hosts.len(), || {
                    format!("a member of group `{}`", group.name)
                })?;
            }
            if let Some(parent) = group.parent {
                check_index(parent, self.groups.len(), || {
                    format!("the parent of group `{}`", group.name)
                })?;
            }
        }
        self.groups
            .iter()
            .try_for_each(|group| check_circle(&self.groups, group))
    }
}

fn check_circle(groups: &[Group], start: &Group) -> Result<(), ProblemError> {
    let mut above = start.parent;
    for _ in groups {
        let Some(g) = above else { return Ok(()) };
        above = groups[g].parent;
    }
    if above.is_none() {
        Ok(())
    } else {
        Err(ProblemError::GroupCircle(start.name.clone()))
    }
}

fn check_cpus(value: f64, what: impl FnOnce() -> String) -> Result<(), ProblemError> {
    if (0.0..=MOST_CPUS).contains(&value) {
        return Ok(());
    }
    Err(ProblemError::Cpus {
        what: what(),
        value,
        most: MOST_CPUS,
    })
}

fn check_rate(value: f64, what: impl FnOnce() -> String) -> Result<(), ProblemError> {
    if value > 0.0 {
        return Ok(());
    }
    Err(ProblemError::Rate { what: what(), value })
}

fn check_index(index: usize, count: usize, what: impl FnOnce() -> String) -> Result<(), ProblemError> {
    if index < count {
        return Ok(());
    }
    Err(ProblemError::Index {
        what: what(),
        index,
        count,
    })
}
