//! Topologies from the file formats as platforms.

use gavotte_fluid as fluid;
use gavotte_net::Host;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Error;
use crate::network::{place, places, rate};

#[derive(FromPyObject)]
struct SwitchOf {
    name: String,
    parent: Option<String>,
    uplinks: usize,
    up: Option<f64>,
    down_bps: Option<f64>,
    mean_latency_s: f64,
}

#[derive(FromPyObject)]
struct MachineOf {
    name: String,
    switch: String,
    rate: Option<f64>,
    machine_rate: Option<f64>,
}

#[derive(FromPyObject)]
struct HostOf {
    name: String,
    machine: Option<String>,
    switch: Option<String>,
    rate: Option<f64>,
    egress: Option<f64>,
    ingress: Option<f64>,
    mean_latency_s: f64,
}

/// A `gavotte.formats.topology.Topology`.
#[derive(FromPyObject)]
pub(crate) struct TopologyOf {
    switch: Vec<SwitchOf>,
    machine: Vec<MachineOf>,
    host: Vec<HostOf>,
}

impl TopologyOf {
    /// Checks it; the flows' bytes get this `share` of its rates.
    pub(crate) fn checked(self, share: f64, seed: u64) -> PyResult<fluid::Topology> {
        let rate = |name: &str, bps: Option<f64>| rate(name, bps.map(|bps| bps * share));
        let switch_at = places(self.switch.iter().map(|switch| &switch.name));
        let machine_at = places(self.machine.iter().map(|machine| &machine.name));
        let switch = |SwitchOf {
                          name,
                          parent,
                          uplinks,
                          up,
                          down_bps,
                          mean_latency_s,
                      }: SwitchOf| {
            let uplink = |parent: String| -> PyResult<fluid::Uplink> {
                let (up, down) = (rate(&name, up)?, rate(&name, down_bps)?);
                Ok(fluid::Uplink {
                    parent: place(&switch_at, &parent)?,
                    up,
                    down,
                    latency_s: mean_latency_s,
                })
            };
            let links = match parent.map(uplink).transpose()? {
                Some(link) => vec![link; uplinks],
                None => Vec::new(),
            };
            Ok(fluid::Switch { name, uplinks: links })
        };
        let machine = |MachineOf {
                           name,
                           switch,
                           rate: nic,
                           machine_rate,
                       }: MachineOf| {
            Ok(fluid::Machine {
                switch: place(&switch_at, &switch)?,
                rate: rate(&name, nic)?,
                machine_rate: rate(&name, machine_rate)?,
                name,
            })
        };
        let switches = self.switch.into_iter().map(switch).collect::<PyResult<_>>()?;
        let mut machines: Vec<fluid::Machine> = self.machine.into_iter().map(machine).collect::<PyResult<_>>()?;
        let latency_s = self.host.iter().map(|host| host.mean_latency_s).collect();
        let mut hosts = Vec::with_capacity(self.host.len());
        for host in self.host {
            let (egress, ingress) = (rate(&host.name, host.egress)?, rate(&host.name, host.ingress)?);
            let at = match (host.machine, host.switch) {
                (Some(named), _) => place(&machine_at, &named)?,
                (None, Some(switch)) => {
                    machines.push(machine(MachineOf {
                        name: host.name.clone(),
                        switch,
                        rate: host.rate,
                        machine_rate: None,
                    })?);
                    machines.len() - 1
                }
                (None, None) => {
                    let lost = format!("host `{}` is on no machine and no switch", host.name);
                    return Err(PyValueError::new_err(lost));
                }
            };
            hosts.push(Host {
                name: host.name,
                machine: at,
                egress,
                ingress,
            });
        }
        let parts = fluid::TopologyParts {
            switches,
            machines,
            hosts,
            latency_s,
            seed,
        };
        Ok(fluid::Topology::new(parts).map_err(Error::from)?)
    }
}
