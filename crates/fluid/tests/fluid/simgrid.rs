//! Comparison with the finish times of `SimGrid`, which `benches/fluid/run.py golden` writes.

use std::fs::File;
use std::path::Path;

use gavotte_fluid::{FlowTable, Topology, TopologyParts, Workload, simulate};

use crate::support::bps;

/// Columns `id,source,target,bytes,start_s,cap_bps` and `id,finish_s`, for hosts of 1 Gbit/s and uplinks of 1.5 Gbit/s.
fn compare(name: &str, hosts: usize, racks: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fluid/golden");
    let open = |end: &str| File::open(folder.join(format!("{name}.{end}.csv"))).expect("a golden file");
    let topology = Topology::new(TopologyParts::racks(hosts, racks, bps(1e9), bps(1.5e9))).expect("sound");
    let names: Vec<&str> = topology.parts().hosts.iter().map(|host| host.name.as_str()).collect();
    let table = FlowTable::read(open("flows"), &names).expect("a flow list");
    let outcome = simulate(&topology, &Workload::new(table.flows())).expect("sound");
    let mut golden = csv::Reader::from_reader(open("simgrid"));
    let rows: Vec<(String, f64)> = golden.deserialize().map(|row| row.expect("id and time")).collect();
    assert_eq!(rows.len(), table.id.len());
    for (flow, (id, finish_s)) in rows.iter().enumerate() {
        assert_eq!(**id, *table.id[flow]);
        let ours = outcome.finish_s[flow];
        assert!(
            (ours - finish_s).abs() <= 1e-6 * finish_s,
            "flow {id} ends at {ours}, in SimGrid at {finish_s}"
        );
    }
}

#[test]
fn random_flows_with_caps_end_as_in_simgrid() {
    compare("random", 16, 4);
}

#[test]
fn an_overload_ends_as_in_simgrid() {
    compare("overload", 32, 4);
}

#[test]
fn a_shuffle_that_starts_at_once_ends_as_in_simgrid() {
    compare("shuffle", 12, 3);
}
