//! The checks behind [`crate::Problem::new`].

use gavotte_net::{Network, check_index, check_length};

use crate::error::ProblemError;
use crate::problem::cores::MOST_CPUS;
use crate::problem::parts::Parts;

impl Parts {
    /// Returns an error for the first invalid part.
    pub(crate) fn check(&self, network: &Network) -> Result<(), ProblemError> {
        check_length("the capacity of hosts", self.capacity.len(), network.hosts().len())?;
        for (host, room) in network.hosts().iter().zip(&self.capacity) {
            check_cpus(room.cpus, || format!("host `{}`", host.name))?;
        }
        self.check_tasks()?;
        self.check_transfers()?;
        self.rules.check(self.tasks.len(), self.capacity.len())
    }

    fn check_tasks(&self) -> Result<(), ProblemError> {
        for task in &self.tasks {
            check_cpus(task.cpus, || format!("task `{}`", task.name))?;
            if let Some(only) = &task.hosts {
                if only.is_empty() {
                    return Err(ProblemError::NowhereAllowed(task.name.clone()));
                }
                for &host in only {
                    let what = || format!("an allowed host of task `{}`", task.name);
                    check_index(what, host, self.capacity.len())?;
                }
            }
        }
        Ok(())
    }

    fn check_transfers(&self) -> Result<(), ProblemError> {
        let mut total = 0_u64;
        for (t, transfer) in self.transfers.iter().enumerate() {
            check_index(
                || format!("the source of transfer {t}"),
                transfer.source,
                self.tasks.len(),
            )?;
            check_index(
                || format!("the target of transfer {t}"),
                transfer.target,
                self.tasks.len(),
            )?;
            if transfer.source == transfer.target {
                let task = self.tasks[transfer.source].name.clone();
                return Err(ProblemError::SelfTransfer { transfer: t, task });
            }
            total = total.checked_add(transfer.bytes).ok_or(ProblemError::TooManyBytes)?;
        }
        for (l, load) in self.load.iter().enumerate() {
            check_index(|| format!("the source of load {l}"), load.source, self.capacity.len())?;
            check_index(|| format!("the target of load {l}"), load.target, self.capacity.len())?;
            total = total.checked_add(load.bytes).ok_or(ProblemError::TooManyBytes)?;
        }
        Ok(())
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
