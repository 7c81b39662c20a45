"""OSMeF's study in a lab, with shorter transfers: loopback (Fig. 2), distance (Fig. 3), fairness, tunnels, engines.

    make bench-campaign [ARGS="--repetitions 5 --seconds 1 --seed 1 --part fig2 fig3 engines -o bench.jsonl"]

The benchmark runs and reads one campaign file as `gavotte campaign` does. The paper's figures are from 6 minutes a
transfer on servers of 16 cores and links of 1 Gbit/s. In the lab a link is 300 Mbit/s, which two cores can carry. The
tables compare coefficients of variation, and capacities, with those of iperf3 and nuttcp on the same path.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benches.machine import machine
from benches.recorded import write_figure
from tests.campaign.studies import machines_of, scenario_text

from gavotte import lab
from gavotte.campaign import CampaignPlan, plan, run
from gavotte.campaign.comparing import value_of
from gavotte.campaign.drivers import Endpoints
from gavotte.campaign.drivers.lab import in_lab
from gavotte.campaign.engines import send
from gavotte.campaign.jobs import Job
from gavotte.campaign.programs import read_iperf3, read_nuttcp
from gavotte.campaign.statistics import variation
from gavotte.formats.campaign import read_campaign
from gavotte.formats.record import Sample, read_samples

AGREEMENT = 0.03
"""Allowed difference between engines on one path."""

PROCESSES = 10
"""Number that send at once on loopback, compared with one process that has as many connections."""

BLOCKS_KIB = (64, 128, 256)
"""Sizes of blocks: nuttcp's own is the first, iperf3's the second."""

HOSTS = {"vm1": "pm0", "vm2": "pm0", "vm3": "pm0", "vm4": "pm1", "vm5": "pm1"}
RATE = "300mbit"
HEAD = """format = "gavotte/campaign/1"
name = "osmef"
seed = {seed}
order = "random"
repetitions = {repetitions}
seconds = {seconds}
[driver]
kind = "lab"
topology = "cloud.topology.toml"
tenants = {{ red = ["vm1", "vm2", "vm4"], blue = ["vm3", "vm5"] }}
[[flavour]]
name = "quarter-CPU"
cpus = 0.25
[[flavour]]
name = "half-CPU"
cpus = 0.5
[[flavour]]
name = "1-CPU"
cores = 1
[[flavour]]
name = "2-CPUs"
cores = 2
"""
FLAVOURS = ("quarter-CPU", "half-CPU", "1-CPU", "2-CPUs")
MANY = [1, 10, 30, 50]
PATHS = (
    *("other-host-same-tenant", "other-host-other-tenant", "host-to-host", "through-VXLAN", "beside-another"),
    *("VM-to-host", "host-to-VM", "incast", "all-to-all", "host-to-host-GRE", "veth", "OVS"),
)
PATH_METRICS = ("jain", "hops", "receiver_softirq")
PARTS = {
    "fig2": scenario_text(
        "loopback", "loopback", "vm1", connections=[1, 2, 5, 10, 20, 30, 50], flavours=list(FLAVOURS)
    ),
    "fig3": scenario_text("same-host-same-tenant", "pair", "vm1", "vm2", connections=MANY)
    + scenario_text("other-host-same-tenant", "pair", "vm1", "vm4", connections=MANY)
    + scenario_text("same-host-other-tenant", "pair", "vm1", "vm3", connections=MANY)
    + scenario_text("other-host-other-tenant", "pair", "vm1", "vm5", connections=MANY)
    + scenario_text("host-to-host", "pair", "pm0", "pm1")
    + scenario_text("VM-to-host", "pair", "vm1", "pm0")
    + scenario_text("host-to-VM", "pair", "pm0", "vm1")
    + scenario_text("through-VXLAN", "tunnel", "vm1", "vm4")
    + scenario_text("host-to-host-GRE", "gre", "pm0", "pm1")
    + scenario_text("veth", "veth", "vm1", "vm4")
    + (scenario_text("OVS", "ovs", "vm1", "vm4") if shutil.which("ovs-vswitchd") else "")
    + scenario_text("beside-another", "pair", "vm1", "vm4")
    + 'background = [{ source = "vm2", target = "vm4" }]\n'
    + scenario_text("all-to-all", "all-to-all", "vm1 vm2 vm4")
    + scenario_text("incast", "incast", "vm1 vm2 vm5", "vm4"),
    "engines": "".join(
        scenario_text(f"{name}-by-{engine}", kind, "vm1", target, connections=[1, 10], engine=engine)
        + "seconds = {longer}\n"
        for engine in ("own", "iperf3", "nuttcp")
        for name, kind, target in (("path", "pair", "vm4"), ("loopback", "loopback", ""))
    ),
}


def study(folder: Path, parts: Sequence[str], *, seed: int, repetitions: int, seconds: float) -> CampaignPlan:
    """Write the file and its topology, and plan it."""
    (folder / "cloud.topology.toml").write_text(machines_of(HOSTS, rate=RATE))
    text = HEAD.format(seed=seed, repetitions=repetitions, seconds=seconds)
    text += "".join(PARTS[part] for part in parts).replace("{longer}", f"{max(2.0, seconds):g}")
    path = folder / "osmef.campaign.toml"
    path.write_text(text)
    return plan(read_campaign(path))


def main() -> None:
    """Run the study and print a table for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--blocks", action="store_true", help="also compare programs by the size of their system calls")
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    parser.add_argument("-o", "--output", type=Path, help="keep the Records here")
    arguments = parser.parse_args()
    about = machine()
    print(f"machine: {about}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planned = study(
            folder,
            arguments.part,
            seed=arguments.seed,
            repetitions=arguments.repetitions,
            seconds=arguments.seconds,
        )
        print(f"seed: {arguments.seed}, {len(planned.samples)} samples of {arguments.seconds:g} s", flush=True)
        records = folder / "osmef.jsonl"
        done = run(planned, records, lambda topology: lab.session(topology, source="bench-campaign"), report=print)
        samples = read_samples(records)
        apart = one_each(planned, arguments.repetitions) if "engines" in arguments.part else []
        if arguments.output:
            shutil.copy(records, arguments.output)
        if arguments.blocks:
            print(f"\n{blocks.__doc__}")
            sizes = blocks(planned, arguments.repetitions)
            if arguments.record:
                write_figure(
                    arguments.record / "osmef-blocks.json",
                    title="One loopback connection by the bytes of a system call",
                    command=f'make bench-campaign ARGS="--part engines --blocks --repetitions {arguments.repetitions}"',
                    about=about,
                    seed=str(arguments.seed),
                    samples=f"median of {arguments.repetitions} of each",
                    plot={"kind": "bars", "columns": [1], "unit": "Gbit/s of TCP payload"},
                    columns=["program, block", "Gbit/s", "cv", "to iperf3, 128 KiB"],
                    rows=sizes,
                )
    print(f"{done.taken} samples in {done.seconds:.0f} s, {len(done.failed)} failed")
    for part, show in (("fig2", fig2), ("fig3", fig3), ("engines", engines)):
        if part in arguments.part:
            print(f"\n{show.__doc__}")
            show(samples)
            if part == "engines":
                rates = ", ".join(f"{rate / 1e9:.1f}" for rate in apart)
                print(
                    f"  loopback, {PROCESSES} iperf3 with a connection each: {rates} Gbit/s, cv {100 * variation(apart):.1f} %"
                )
            if arguments.record:
                for figure in (part, "paths") if part == "fig3" else (part,):
                    record(arguments, figure, samples, about, apart)


def one_each(planned: CampaignPlan, repetitions: int) -> list[float]:
    """Return the loopback capacity of one iperf3 for each connection, bit/s: the sum of programs that share no thread."""
    # They start some 10 ms apart, which is little compared with 6 s.
    job = Job([("vm1", "vm1")] * PROCESSES, 1, 6.0, planned.campaign.congestion, planned.campaign.copy_received)
    with in_lab(planned.campaign, lambda topology: lab.session(topology, source="bench-campaign")) as endpoints:
        return [send(endpoints, "iperf3", job).capacity_bps for _ in range(repetitions)]


def blocks(planned: CampaignPlan, repetitions: int) -> list[list[str]]:
    """Print loopback capacity of one connection by the bytes of a system call: why programs differ where nothing else limits.

    Each repetition takes all of them in turn, so that what else the machine does affects all alike.
    """
    rates: dict[str, list[float]] = defaultdict(list)
    job = Job([("vm1", "vm1")], 1, 2.0, planned.campaign.congestion, planned.campaign.copy_received)
    with in_lab(planned.campaign, lambda topology: lab.session(topology, source="bench-campaign")) as endpoints:
        for _ in range(repetitions):
            rates["own, writes of 256 KiB, reads of 128"].append(send(endpoints, "own", job).capacity_bps)
            for program in ("iperf3", "nuttcp"):
                for kib in BLOCKS_KIB:
                    rates[f"{program}, {kib} KiB"].append(_of_blocks(endpoints, program, kib))
    best = statistics.median(rates["iperf3, 128 KiB"])
    rows = []
    for name, values in rates.items():
        middle = statistics.median(values)
        print(
            f"  {name:36s} {middle / 1e9:6.1f} Gbit/s, cv {100 * variation(values):4.1f} %, {100 * (middle / best - 1):+5.1f} %"
        )
        rows.append([name, f"{middle / 1e9:.1f}", f"{variation(values):.1%}", f"{middle / best - 1:+.1%}"])
    return rows


def _of_blocks(endpoints: Endpoints, program: str, kib: int) -> float:
    """Return the rate of one loopback connection of a program that reads and writes blocks of some KiB, bit/s."""
    if program == "iperf3":
        server, client = ["iperf3", "-s", "-1", "-p", "20050"], ["iperf3", "-c", "127.0.0.1", "-p", "20050", "-t", "2"]
        client += ["-l", f"{kib}K", "-J"]
    else:
        server = ["nuttcp", "-1", "--nofork", "-P", "20050", "-p", "20051"]
        client = ["nuttcp", "-t", "-P", "20050", "-p", "20051", "-T2", f"-l{kib}k", "-fparse", "-v", "127.0.0.1"]
    serving = endpoints.start("vm1", server)
    time.sleep(0.3)
    out, err = endpoints.start("vm1", client).communicate(timeout=30)
    serving.terminate()
    serving.communicate()
    return (read_iperf3 if program == "iperf3" else read_nuttcp)(out, err).capacity_bps


def grouped(samples: Sequence[Sample]) -> dict[tuple[str, int, str], list[Sample]]:
    result: dict[tuple[str, int, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        result[sample.scenario, sample.connections, sample.flavour].append(sample)
    return dict(result)


def mean(samples: Sequence[Sample], metric: str) -> float:
    known = [value for sample in samples if (value := value_of(sample, metric)) is not None]
    return statistics.fmean(known) if known else math.nan


def record(given: argparse.Namespace, part: str, samples: Sequence[Sample], about: str, apart: Sequence[float]) -> None:
    """Write the numbers for docs/results: one figure for each part, and for fig3 also its single paths."""
    cells = grouped(samples)

    def cell(
        scenario: str, connections: int, flavour: str = "", metric: str = "capacity_bps", unit: float = 1e9
    ) -> str:
        values = [value_of(each, metric) for each in cells.get((scenario, connections, flavour), [])]
        return shown([value / unit for value in values if value is not None])

    def shown(known: Sequence[float]) -> str:
        return f"{statistics.fmean(known):.2f} ± {statistics.pstdev(known):.2f}" if known else "-"

    if part == "fig2":
        title, unit, kind = "Loopback capacity by connections", "Gbit/s of TCP payload", "lines"
        columns = ["connections", *FLAVOURS]
        rows = [[str(p), *(cell("loopback", p, each) for each in FLAVOURS)] for p in (1, 2, 5, 10, 20, 30, 50)]
    elif part == "fig3":
        title, unit, kind = "Capacity of a connection by distance", "Mbit/s of TCP payload, each connection", "lines"
        columns = ["distance", *(f"p = {p}" for p in MANY), "Jain's index, p = 50"]
        where = {0: "same-host-same-tenant", 2: "other-host-same-tenant", 4: "same-host-other-tenant"}
        rows = [
            [
                str(distance),
                *(cell(name, p, metric="connection_bps", unit=1e6) for p in MANY),
                cell(name, 50, metric="jain", unit=1.0),
            ]
            for distance, name in where.items()
        ]
    elif part == "paths":
        title, unit, kind = "Paths, one connection of each pair", "Mbit/s of TCP payload, in sum", "bars"
        columns = ["path", "in sum", "Jain's index", "hops", "softirq, receiver"]
        rows = [
            [name, cell(name, 1, unit=1e6), *(cell(name, 1, metric=each, unit=1.0) for each in PATH_METRICS)]
            for name in PATHS
        ]
    else:
        title, unit, kind = "Engines on the same path", "Mbit/s of TCP payload", "bars"
        columns = ["path", "Gavotte's agents", "iperf3", "nuttcp"]
        rows = [
            [f"{where}, p = {p}", *(cell(f"{where}-by-{each}", p, unit=1e6) for each in ("own", "iperf3", "nuttcp"))]
            for where in ("path", "loopback")
            for p in (1, 10)
        ]
        rows.append([f"loopback, {PROCESSES} processes", "-", shown([rate / 1e6 for rate in apart]), "-"])
    words = (
        f"--part {'fig3' if part == 'paths' else part} --repetitions {given.repetitions} --seconds {given.seconds:g}"
    )
    most = {"fig3": len(MANY), "paths": 1}.get(part, len(columns) - 1)
    plot: dict[str, object] = {"kind": kind, "columns": list(range(1, most + 1)), "unit": unit}
    write_figure(
        given.record / f"osmef-{part}.json",
        title=title,
        command=f'make bench-campaign ARGS="{words}"',
        about=about,
        seed=str(given.seed),
        samples=f"{given.repetitions} of each, mean ± standard deviation",
        plot={**plot, "scale": "log"} if part != "fig2" else plot,
        columns=columns,
        rows=rows,
    )


def fig2(samples: Sequence[Sample]) -> None:
    """Print Fig. 2: loopback capacity of all connections, Gbit/s (cv over repetitions; Jain)."""
    cells = {key: each for key, each in grouped(samples).items() if key[0] == "loopback"}
    counts = sorted({connections for _, connections, _ in cells})
    for flavour in FLAVOURS:
        row = []
        for connections in counts:
            each = cells["loopback", connections, flavour]
            spread = variation([sample.value for sample in each])
            rate, fair = mean(each, "capacity_bps") / 1e9, mean(each, "jain")
            row.append(f"p={connections}: {rate:.1f} ({100 * spread:.0f} %; {fair:.3f})")
        print(f"  {flavour:12s} {', '.join(row)}")


def fig3(samples: Sequence[Sample]) -> None:
    """Print Fig. 3: capacity of each connection by distance, Mbit/s; Jain's index; hops; tunnel and incast."""
    for (scenario, connections, flavour), each in sorted(grouped(samples).items()):
        if flavour or "-by-" in scenario:
            continue
        spread = variation([sample.value for sample in each])
        print(
            f"  {scenario:24s} p={connections:<3d} distance {mean(each, 'distance'):.0f}, hops {mean(each, 'hops'):.0f}: "
            f"{mean(each, 'connection_bps') / 1e6:9.2f} each, {mean(each, 'capacity_bps') / 1e6:9.1f} in sum "
            f"(cv {100 * spread:.1f} %), Jain {mean(each, 'jain'):.3f}, RTT loaded {1e3 * mean(each, 'rtt_loaded_s'):.1f} ms"
        )
    cells = grouped(samples)
    for name, without, tunnel, size in (
        ("VXLAN", "other-host-same-tenant", "through-VXLAN", 50),
        ("GRE", "host-to-host", "host-to-host-GRE", 24),
    ):
        plain, inside = cells.get((without, 1, "")), cells.get((tunnel, 1, ""))
        if plain and inside:
            lost = 1 - mean(inside, "capacity_bps") / mean(plain, "capacity_bps")
            busy = [
                max(mean(each, "sender_machine_cpu"), mean(each, "receiver_machine_cpu")) for each in (plain, inside)
            ]
            print(
                f"  {name} costs {100 * lost:.1f} % of the rate (the paper's GRE: 2 %; headers alone: {100 * size / 1500:.1f} %), "
                f"and the machine's processors are busy for {100 * busy[1]:.1f} % instead of {100 * busy[0]:.1f} % (the "
                f"paper's GRE: 15 % more)"
            )


def engines(samples: Sequence[Sample]) -> None:
    """Print engines on the same path: capacity, coefficient of variation over repetitions, difference from ours."""
    cells = grouped(samples)
    for where in ("path", "loopback"):
        for connections in (1, 10):
            own = cells.get((f"{where}-by-own", connections, ""))
            if not own:
                continue
            for engine in ("own", "iperf3", "nuttcp"):
                each = cells.get((f"{where}-by-{engine}", connections, ""), [])
                if not each:
                    print(f"  {where}, p={connections}, {engine}: not measured")
                    continue
                rate, spread = mean(each, "capacity_bps"), variation([sample.value for sample in each])
                apart = mean(own, "capacity_bps") / rate - 1
                verdict = "" if engine == "own" else f", ours {100 * apart:+.1f} %: "
                verdict += (
                    "" if engine == "own" else "within 3 %" if abs(apart) <= AGREEMENT else "MISSED: more than 3 %"
                )
                print(
                    f"  {where:9s} p={connections:<3d} {engine:7s} {rate / 1e6:9.1f} Mbit/s, cv {100 * spread:.2f} %{verdict}"
                )


if __name__ == "__main__":
    main()
