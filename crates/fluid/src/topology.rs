//! A described network: hosts on machines on switches (the Topology of the file formats).

use gavotte_net::{BitsPerSec, Host, InputError, Seconds, check_index};

use crate::checks::check_latency;
use crate::error::FluidError;
use crate::platform::{LinkId, Platform};
use crate::switches::{Hop, Switches, mix};

/// A link from a switch to the switch above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uplink {
    /// Index of the switch above.
    pub parent: usize,
    /// Rate towards it.
    pub up: BitsPerSec,
    /// Rate from it.
    pub down: BitsPerSec,
    /// Latency that it adds to every path over it, in each direction.
    pub latency_s: f64,
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// The name in messages.
    pub name: String,
    /// Links to switches above: none for a root, one in a tree, several in a multi-rooted tree.
    pub uplinks: Vec<Uplink>,
}

/// A physical machine, whose hosts share its NIC.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The name in messages.
    pub name: String,
    /// Index of its switch.
    pub switch: usize,
    /// Rate of the NIC in each direction.
    pub rate: BitsPerSec,
    /// Rate from each host to each other inside the machine.
    pub machine_rate: BitsPerSec,
}

/// An unchecked description of a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyParts {
    /// Switches.
    pub switches: Vec<Switch>,
    /// Machines.
    pub machines: Vec<Machine>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// By host, the latency that it adds to its paths to and from other machines, in each direction; empty = none.
    pub latency_s: Vec<f64>,
    /// Seed of the choice among several equal paths.
    pub seed: u64,
}

/// A described network. Traffic between machines loads both hosts' caps, both NICs and the switch links on the path.
/// Inside a machine, each ordered pair of hosts has the rate `machine_rate`.
///
/// Among several equally short paths, a flow chooses one as in ECMP: by a hash of source, target, label and seed, one
/// choice at each switch.
#[derive(Clone, Debug)]
pub struct Topology {
    parts: TopologyParts,
    switches: Switches,
    /// By number of the uplink: its switch, and its index there.
    edges: Vec<(usize, usize)>,
}

/// The kind of a link.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Egress(usize),
    Ingress(usize),
    NicUp(usize),
    NicDown(usize),
    Up(usize),
    Down(usize),
    Inside(usize, usize),
}

/// The number of links of a kind, and the kind.
type Run = (usize, fn(usize) -> Kind);

impl TopologyParts {
    /// Hosts numbered from zero, split evenly and in order over racks, each rack with an uplink to one core switch.
    ///
    /// Every host has its own machine. `host_rate` and `uplink_rate` are full duplex.
    pub fn racks(hosts: usize, racks: usize, host_rate: BitsPerSec, uplink_rate: BitsPerSec) -> Self {
        let rack = |r: usize| Switch {
            name: format!("rack{r}"),
            uplinks: vec![Uplink {
                parent: racks,
                up: uplink_rate,
                down: uplink_rate,
                latency_s: 0.0,
            }],
        };
        let core = Switch {
            name: "core".into(),
            uplinks: Vec::new(),
        };
        let machine = |h: usize| Machine {
            name: format!("m{h}"),
            switch: h * racks / hosts,
            rate: host_rate,
            machine_rate: BitsPerSec::UNLIMITED,
        };
        let host = |h: usize| Host {
            name: format!("h{h}"),
            machine: h,
            egress: BitsPerSec::UNLIMITED,
            ingress: BitsPerSec::UNLIMITED,
        };
        Self {
            switches: (0..racks).map(rack).chain([core]).collect(),
            machines: (0..hosts).map(machine).collect(),
            hosts: (0..hosts).map(host).collect(),
            latency_s: Vec::new(),
            seed: 0,
        }
    }
}

impl Topology {
    /// Checks a description.
    ///
    /// # Errors
    /// [`FluidError`] if there is no host, a latency is invalid, an index is out of range, switches form a cycle, or no
    /// path connects two machines.
    pub fn new(parts: TopologyParts) -> Result<Self, FluidError> {
        if parts.hosts.is_empty() {
            return Err(FluidError::NoHosts);
        }
        let parents: Vec<Vec<usize>> = parts
            .switches
            .iter()
            .map(|switch| switch.uplinks.iter().map(|uplink| uplink.parent).collect())
            .collect();
        let switches = Switches::new(&parents, |switch| parts.switches[switch].name.clone())?;
        for machine in &parts.machines {
            check_index(
                || format!("the switch of machine `{}`", machine.name),
                machine.switch,
                parents.len(),
            )?;
        }
        for host in &parts.hosts {
            check_index(
                || format!("the machine of host `{}`", host.name),
                host.machine,
                parts.machines.len(),
            )?;
        }
        for (switch, edge) in parts
            .switches
            .iter()
            .flat_map(|switch| switch.uplinks.iter().map(move |edge| (switch, edge)))
        {
            check_latency(
                || format!("the latency of switch `{}`", switch.name),
                Seconds(edge.latency_s),
            )?;
        }
        if !parts.latency_s.is_empty() && parts.latency_s.len() != parts.hosts.len() {
            let (found, expected) = (parts.latency_s.len(), parts.hosts.len());
            let what = "the list of latencies";
            return Err(InputError::Length { what, found, expected }.into());
        }
        for (host, &latency_s) in parts.hosts.iter().zip(&parts.latency_s) {
            check_latency(|| format!("the latency of host `{}`", host.name), Seconds(latency_s))?;
        }
        let mut used: Vec<usize> = parts
            .hosts
            .iter()
            .map(|host| parts.machines[host.machine].switch)
            .collect();
        used.sort_unstable();
        used.dedup();
        for (place, &a) in used.iter().enumerate() {
            if let Some(&b) = used[place..].iter().find(|&&b| !switches.reaches(a, b)) {
                let name = |switch: usize| parts.switches[switch].name.clone();
                return Err(FluidError::Unreachable {
                    source_switch: name(a),
                    target_switch: name(b),
                });
            }
        }
        let edges = parents
            .iter()
            .enumerate()
            .flat_map(|(switch, list)| (0..list.len()).map(move |n| (switch, n)));
        Ok(Self {
            edges: edges.collect(),
            parts,
            switches,
        })
    }

    /// The description.
    pub fn parts(&self) -> &TopologyParts {
        &self.parts
    }

    /// The number of a link: egresses first, then ingresses, NICs up and down, uplinks up and down, pairs in machines.
    fn id(&self, kind: Kind) -> LinkId {
        let (hosts, machines, edges) = (self.parts.hosts.len(), self.parts.machines.len(), self.edges.len());
        let number = match kind {
            Kind::Egress(host) => host,
            Kind::Ingress(host) => hosts + host,
            Kind::NicUp(machine) => 2 * hosts + machine,
            Kind::NicDown(machine) => 2 * hosts + machines + machine,
            Kind::Up(edge) => 2 * (hosts + machines) + edge,
            Kind::Down(edge) => 2 * (hosts + machines) + edges + edge,
            Kind::Inside(source, target) => 2 * (hosts + machines + edges) + source * hosts + target,
        };
        LinkId(number as u64)
    }

    fn kind(&self, link: LinkId) -> Kind {
        let (hosts, machines, edges) = (self.parts.hosts.len(), self.parts.machines.len(), self.edges.len());
        let runs: [Run; 6] = [
            (hosts, Kind::Egress),
            (hosts, Kind::Ingress),
            (machines, Kind::NicUp),
            (machines, Kind::NicDown),
            (edges, Kind::Up),
            (edges, Kind::Down),
        ];
        let mut place = link.0 as usize;
        for (count, kind) in runs {
            if place < count {
                return kind(place);
            }
            place -= count;
        }
        Kind::Inside(place / hosts, place % hosts)
    }

    /// Calls `visit` with the switch links of the path that a flow takes.
    fn switch_path(&self, source: usize, target: usize, label: u64, visit: impl FnMut(Hop)) {
        let flow = mix(mix(mix(self.parts.seed, source as u64), target as u64), label);
        let switch = |host: usize| self.parts.machines[self.parts.hosts[host].machine].switch;
        self.switches.path(switch(source), switch(target), flow, visit);
    }

    fn uplink(&self, edge: usize) -> &Uplink {
        let (switch, place) = self.edges[edge];
        &self.parts.switches[switch].uplinks[place]
    }
}

impl Platform for Topology {
    fn host_count(&self) -> usize {
        self.parts.hosts.len()
    }

    fn route(&self, source: usize, target: usize, label: u64, path: &mut Vec<LinkId>) {
        if source == target {
            return;
        }
        let (from, to) = (self.parts.hosts[source].machine, self.parts.hosts[target].machine);
        if from == to {
            path.push(self.id(Kind::Inside(source, target)));
            return;
        }
        path.push(self.id(Kind::Egress(source)));
        path.push(self.id(Kind::NicUp(from)));
        self.switch_path(source, target, label, |hop| {
            path.push(match hop {
                Hop::Up(edge) => self.id(Kind::Up(edge as usize)),
                Hop::Down(edge) => self.id(Kind::Down(edge as usize)),
            });
        });
        path.push(self.id(Kind::NicDown(to)));
        path.push(self.id(Kind::Ingress(target)));
    }

    fn rate(&self, link: LinkId) -> BitsPerSec {
        match self.kind(link) {
            Kind::Egress(host) => self.parts.hosts[host].egress,
            Kind::Ingress(host) => self.parts.hosts[host].ingress,
            Kind::NicUp(machine) | Kind::NicDown(machine) => self.parts.machines[machine].rate,
            Kind::Up(edge) => self.uplink(edge).up,
            Kind::Down(edge) => self.uplink(edge).down,
            Kind::Inside(source, _) => self.parts.machines[self.parts.hosts[source].machine].machine_rate,
        }
    }

    /// The sum over the path of a flow with label 0; equal paths are expected to have equal latencies.
    fn latency_s(&self, source: usize, target: usize) -> f64 {
        let (from, to) = (self.parts.hosts[source].machine, self.parts.hosts[target].machine);
        if from == to {
            return 0.0;
        }
        let of_host = |host: usize| self.parts.latency_s.get(host).copied().unwrap_or(0.0);
        let mut sum_s = of_host(source) + of_host(target);
        self.switch_path(source, target, 0, |hop| {
            let (Hop::Up(edge) | Hop::Down(edge)) = hop;
            sum_s += self.uplink(edge as usize).latency_s;
        });
        sum_s
    }

    fn link_name(&self, link: LinkId) -> String {
        let host = |host: usize| &self.parts.hosts[host].name;
        let machine = |machine: usize| &self.parts.machines[machine].name;
        let ends = |edge: usize| {
            let parent = self.uplink(edge).parent;
            (
                &self.parts.switches[self.edges[edge].0].name,
                &self.parts.switches[parent].name,
            )
        };
        match self.kind(link) {
            Kind::Egress(at) => format!("egress of {}", host(at)),
            Kind::Ingress(at) => format!("ingress of {}", host(at)),
            Kind::NicUp(at) => format!("NIC of {}, sending", machine(at)),
            Kind::NicDown(at) => format!("NIC of {}, receiving", machine(at)),
            Kind::Up(edge) => format!("link from {} up to {}", ends(edge).0, ends(edge).1),
            Kind::Down(edge) => format!("link from {} down to {}", ends(edge).1, ends(edge).0),
            Kind::Inside(source, target) => format!("path from {} to {}", host(source), host(target)),
        }
    }
}
