//! The hosts of a job's ranks.

use gavotte_fluid::Platform;

use crate::error::ReplayError;

/// Where the ranks are.
#[derive(Clone, Copy)]
pub struct Placed<'a> {
    /// The network; `None` = messages take no time outside of the processors, which no placement beats.
    pub platform: Option<&'a dyn Platform>,
    /// The host of each rank.
    pub hosts: &'a [u32],
    /// Highest rate of one connection from each host to each other in bit/s, by source; `None` = no caps.
    pub cap_bps: Option<&'a [f64]>,
}

impl Placed<'_> {
    pub(crate) fn check(&self, ranks: usize) -> Result<(), ReplayError> {
        if self.hosts.len() != ranks {
            return Err(ReplayError::Input(format!(
                "{} hosts for {ranks} ranks; name one for each",
                self.hosts.len()
            )));
        }
        let Some(platform) = self.platform else {
            return Ok(());
        };
        let count = platform.host_count();
        if let Some(host) = self.hosts.iter().find(|&&host| host as usize >= count) {
            return Err(ReplayError::Input(format!("there is no host {host} among {count}")));
        }
        match self.cap_bps {
            Some(caps) if caps.len() != count * count => Err(ReplayError::Input(format!(
                "{} caps for {count} hosts; give one for each pair",
                caps.len()
            ))),
            _ => Ok(()),
        }
    }
}
