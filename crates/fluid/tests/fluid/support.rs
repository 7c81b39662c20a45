//! Platforms and workloads for the tests.

use gavotte_fluid::{Flows, Machine, Switch, Topology, TopologyParts, Uplink};
use gavotte_net::{BitsPerSec, Host};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

pub(crate) const MBIT: f64 = 1e6;

pub(crate) fn bps(value: f64) -> BitsPerSec {
    BitsPerSec::new(value).expect("above zero")
}

/// Four hosts in two racks. All links have 8 Mbit/s (1 MB/s) except the racks' uplinks, which have `uplink_mbit`.
pub(crate) fn small(uplink_mbit: f64) -> Topology {
    Topology::new(TopologyParts::racks(4, 2, bps(8.0 * MBIT), bps(uplink_mbit * MBIT))).expect("a sound topology")
}

/// The columns of a workload, as owned vectors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    pub(crate) source: Vec<u32>,
    pub(crate) target: Vec<u32>,
    pub(crate) bytes: Vec<u64>,
    pub(crate) start_s: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    pub(crate) cap_bps: Vec<f64>,
    pub(crate) label: Vec<u64>,
}

impl Columns {
    /// Builds columns from rows of source, target, bytes and start.
    pub(crate) fn of(rows: &[(u32, u32, u64, f64)]) -> Self {
        let mut columns = Self::default();
        for &(source, target, bytes, start_s) in rows {
            columns.push(source, target, bytes, start_s, 1.0, f64::INFINITY);
        }
        columns
    }

    pub(crate) fn push(&mut self, source: u32, target: u32, bytes: u64, start_s: f64, weight: f64, cap_bps: f64) {
        self.label.push(self.source.len() as u64);
        self.source.push(source);
        self.target.push(target);
        self.bytes.push(bytes);
        self.start_s.push(start_s);
        self.weight.push(weight);
        self.cap_bps.push(cap_bps);
    }

    pub(crate) fn flows(&self) -> Flows<'_> {
        Flows {
            source: &self.source,
            target: &self.target,
            bytes: &self.bytes,
            start_s: &self.start_s,
            weight: Some(&self.weight),
            cap_bps: Some(&self.cap_bps),
            startup_s: None,
            label: Some(&self.label),
        }
    }

    /// Returns the same rows in the order of `rows`.
    pub(crate) fn permuted(&self, rows: &[usize]) -> Self {
        fn pick<T: Copy>(column: &[T], rows: &[usize]) -> Vec<T> {
            rows.iter().map(|&row| column[row]).collect()
        }
        Self {
            source: pick(&self.source, rows),
            target: pick(&self.target, rows),
            bytes: pick(&self.bytes, rows),
            start_s: pick(&self.start_s, rows),
            weight: pick(&self.weight, rows),
            cap_bps: pick(&self.cap_bps, rows),
            label: pick(&self.label, rows),
        }
    }
}

/// The style of random platforms and workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Few distinct rates, sizes and starts, no weights or caps: many links and events tie exactly.
    Tied,
    /// All values differ.
    Varied,
}

pub(crate) fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Hosts on machines below two layers of switches with one or several roots; some links are unlimited.
pub(crate) fn random_topology(seed: u64, style: Style) -> Topology {
    let mut rng = rng(seed);
    let rate = |rng: &mut Xoshiro256PlusPlus| match (style, rng.random_range(0..5)) {
        (_, 0) => BitsPerSec::UNLIMITED,
        (Style::Tied, n) => bps(f64::from(n.min(2)) * 8.0 * MBIT),
        (Style::Varied, _) => bps(rng.random_range(1.0..20.0) * MBIT),
    };
    let roots = rng.random_range(1..=3);
    let mut switches: Vec<Switch> = (0..roots)
        .map(|s| Switch {
            name: format!("root{s}"),
            uplinks: Vec::new(),
        })
        .collect();
    for leaf in 0..rng.random_range(1..=4) {
        let uplink = |parent| Uplink {
            parent,
            up: rate(&mut rng),
            down: rate(&mut rng),
            latency_s: 0.0,
        };
        let uplinks = (0..roots).map(uplink).collect();
        switches.push(Switch {
            name: format!("leaf{leaf}"),
            uplinks,
        });
    }
    let leaves = switches.len() - roots;
    let machine = |m| Machine {
        name: format!("m{m}"),
        switch: roots + m % leaves,
        rate: rate(&mut rng),
        machine_rate: rate(&mut rng),
    };
    let machines: Vec<Machine> = (0..6).map(machine).collect();
    let host = |h: usize| Host {
        name: format!("h{h}"),
        machine: h % machines.len(),
        egress: rate(&mut rng),
        ingress: rate(&mut rng),
    };
    let hosts = (0..10).map(host).collect();
    Topology::new(TopologyParts {
        switches,
        machines,
        hosts,
        latency_s: Vec::new(),
        seed,
    })
    .expect("a sound topology")
}

/// Flows between random hosts; a host may also send to itself.
pub(crate) fn random_flows(seed: u64, count: usize, hosts: u32, style: Style) -> Columns {
    let mut rng = rng(!seed);
    let mut columns = Columns::default();
    for _ in 0..count {
        let (source, target) = (rng.random_range(0..hosts), rng.random_range(0..hosts));
        match style {
            Style::Tied => {
                let (size, start) = (rng.random_range(0..3) * 1_000_000, f64::from(rng.random_range(0..3)));
                columns.push(source, target, size, start, 1.0, f64::INFINITY);
            }
            Style::Varied => {
                let (size, start) = (rng.random_range(0..10_000_000), rng.random_range(0.0..5.0));
                let cap = if rng.random_bool(0.3) {
                    rng.random_range(0.1..10.0) * MBIT
                } else {
                    f64::INFINITY
                };
                columns.push(source, target, size, start, rng.random_range(0.1..10.0), cap);
            }
        }
    }
    columns
}
