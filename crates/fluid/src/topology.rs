//! A described network: hosts on machines on switches (the Topology of the file formats).

use gavotte_net::{BitsPerSec, Host, check_index};

use crate::error::FluidError;
use crate::platform::{LinkId, Platform};
use crate::switches::{Hop, Switches, mix};

/// A link from a switch to the one above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uplink {
    /// Index of the switch above.
    pub parent: usize,
    /// Rate towards it.
    pub up: BitsPerSec,
    /// Rate from it.
    pub down: BitsPerSec,
}

/// A switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// For messages.
    pub name: String,
    /// Links upwards: none for a root, one in a tree, several in a multi-rooted tree.
    pub uplinks: Vec<Uplink>,
}

/// A physical machine, whose hosts share its NIC.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// For messages.
    pub name: String,
    /// Index of its switch.
    pub switch: usize,
    /// Rate of the NIC, each way.
    pub rate: BitsPerSec,
    /// Rate from each host to each other inside the machine.
    pub machine_rate: BitsPerSec,
}

/// A description of a network, unchecked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyParts {
    /// Switches.
    pub switches: Vec<Switch>,
    /// Machines.
    pub machines: Vec<Machine>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Decides which of several equal paths each flow takes.
    pub seed: u64,
}

/// A network as described: traffic between machines loads both hosts' caps, both NICs and the switch links on the way;
/// inside a machine it has the rate `machine_rate` for each ordered pair of hosts.
///
/// Of several equally short ways up and down again, a flow takes one by a hash of source, target, label and seed, one
/// choice at each switch, as ECMP does.
#[derive(Clone, Debug)]
pub struct Topology {
    parts: TopologyParts,
    switches: Switches,
    /// By number of the uplink: its switch and its place there.
    edges: Vec<(usize, usize)>,
}

/// What a link is.
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

/// How many links of a kind there are, and the kind.
type Run = (usize, fn(usize) -> Kind);

impl TopologyParts {
    /// Hosts numbered from zero, split evenly and in order over racks, each rack with an uplink to one core switch.
    ///
    /// Every host has a machine of its own. `host_rate` and `uplink_rate` are full duplex.
    pub fn racks(hosts: usize, racks: usize, host_rate: BitsPerSec, uplink_rate: BitsPerSec) -> Self {
        let rack = |r: usize| Switch {
            name: format!("rack{r}"),
            uplinks: vec![Uplink {
                parent: racks,
                up: uplink_rate,
                down: uplink_rate,
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
            seed: 0,
        }
    }
}

impl Topology {
    /// Checks a description.
    ///
    /// # Errors
    /// [`FluidError`] if there is no host, an index points nowhere, switches form a circle, or two machines have no
    /// way between them.
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
        let flow = mix(mix(mix(self.parts.seed, source as u64), target as u64), label);
        let switch = |machine: usize| self.parts.machines[machine].switch;
        self.switches.path(switch(from), switch(to), flow, |hop| {
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

    /// Zero: a topology says nothing of latency.
    fn latency_s(&self, _source: usize, _target: usize) -> f64 {
        0.0
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
