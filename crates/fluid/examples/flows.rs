//! Finish times of a flow list on racks of hosts: the counterpart of `benches/fluid/simgrid_flows.cpp`.
//!
//! usage: `flows FLOWS.csv RACKS HOST_BIT_PER_S UPLINK_BIT_PER_S [HOSTS [ACCURACY]] > FINISH.csv`

use std::error::Error;
use std::fs::File;
use std::io;

use gavotte_fluid::{FlowTable, Topology, TopologyParts, Workload, simulate, write_finish};
use gavotte_net::BitsPerSec;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, racks, host_bps, uplink_bps, rest @ ..] = &arguments[..] else {
        return Err("usage: flows FLOWS.csv RACKS HOST_BIT_PER_S UPLINK_BIT_PER_S [HOSTS [ACCURACY]]".into());
    };
    let hosts = rest.first().map_or(Ok(1024), |hosts| hosts.parse())?;
    let accuracy = rest.get(1).map_or(Ok(0.0), |share| share.parse())?;
    let rate = |text: &str| BitsPerSec::new(text.parse().unwrap_or(0.0)).ok_or("a rate must be above zero bit/s");
    let parts = TopologyParts::racks(hosts, racks.parse()?, rate(host_bps)?, rate(uplink_bps)?);
    let topology = Topology::new(parts)?;
    let names: Vec<&str> = topology.parts().hosts.iter().map(|host| host.name.as_str()).collect();
    let table = FlowTable::read(File::open(path)?, &names)?;
    let outcome = simulate(
        &topology,
        &Workload {
            accuracy,
            ..Workload::new(table.flows())
        },
    )?;
    let rows = table.id.iter().map(AsRef::as_ref).zip(outcome.finish_s);
    write_finish(io::stdout().lock(), rows)?;

    // The peak of memory, for the benchmark.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        eprintln!("{line}");
    }
    Ok(())
}
