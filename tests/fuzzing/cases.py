"""The sound files that are damaged, and the commands that read them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from tests import builders
from tests.builders import MPIP_REPORT
from tests.profile import test_exports, test_logs, test_mpi_counts, test_mpi_traces
from tests.profile.test_nccl import nccl_log

from gavotte.agents.sources import from_mpi, from_ssh_config
from gavotte.errors import GavotteError
from gavotte.formats.app import read_app, write_app
from gavotte.formats.campaign import read_campaign
from gavotte.formats.collective import read_collective
from gavotte.formats.guarantee import read_guarantee
from gavotte.formats.history import History, PairHistory, read_history, write_history
from gavotte.formats.inventory import read_inventory
from gavotte.formats.network import COMPACT, Network, read_network, write_network
from gavotte.formats.parts.byte_matrix import read_byte_matrix
from gavotte.formats.parts.lengths import Lengths
from gavotte.formats.placement import read_placement, write_placement
from gavotte.formats.record import read_records, read_samples
from gavotte.formats.topology import read_topology
from gavotte.formats.trace import read_trace
from gavotte.lab.state import new_record, read_state
from gavotte.measure.adapt.results import Results
from gavotte.measure.carry.journal import Journal
from gavotte.profile import SOURCES, read_profile
from gavotte.profile.gathering import Request
from gavotte.profile.naming import read_tasks
from gavotte.simulate.flows import read_flows
from gavotte.store.csvfile import read_csv

HOSTS = ("h0", "h1", "h2", "h3")

PROFILED = {
    "e.spark": ("spark", test_logs.SPARK),
    "l.nccl": ("nccl", nccl_log(3, graph=True, tree=True).encode()),
    "d.dask.json": ("dask", (test_logs.HERE / "dask-transfers.json").read_bytes()),
    "m.prof": ("ompi", test_logs.PROF[1].read_bytes()),
    "m.pmpi": ("pmpi", test_mpi_counts.FILE.format(rank=0, other=1).encode()),
    "v.vpc": ("flows", test_logs.AWS.encode()),
    "x.sflow": ("sflow", gzip.decompress((test_exports.HERE / "pmacctd-sflow.pcap.gz").read_bytes())),
    "x.netflow": ("netflow", gzip.decompress((test_exports.HERE / "softflowd-9.pcap.gz").read_bytes())),
    "x.ipfix": ("ipfix", gzip.decompress((test_exports.HERE / "pmacctd-10.pcap.gz").read_bytes())),
}
"""By file: its source of traffic, and its content."""

COMMANDS = (
    *(f"profile {source} {name} -o out.app.toml" for name, (source, _) in PROFILED.items()),
    "profile diff a.app.toml b.app.toml",
    "profile merge a.app.toml b.app.toml --json",
    "profile predict w.json --day 4 --json",
    "place n.network.json a.app.toml --method greedy -o out.placement.json",
    "place n.network.json a.app.toml --time-limit 0.2 --json",
    "place n.network.json a.app.toml --method optimal --time-limit 0.2",
    "place g.network.json a.app.toml --sharing groups --method search --time-limit 0.1",
    "place l.network.json l.app.toml --method search --time-limit 0.2 --hosts i.hosts.toml",
    "place l.network.json l.app.toml --method greedy --json",
    "place l.network.json l.app.toml --goal price --front 3 --time-limit 0.3 --json",
    "sequence n.network.json a.app.toml b.app.toml --every 5 --migration-cost 1",
    "map n.network.json a.app.toml -o out.placement.json",
    "collective g.network.json --operation broadcast --root h0 -o out.tree.json",
    "collective n.network.json --operation allgather --json",
    "place v.network.json a.app.toml --method search --time-limit 0.1",
    "collective v.network.json --operation broadcast --bytes 1mb",
    "export p.placement.json --format openmpi -o out.ranks",
    "export p.placement.json --format slurm -o out.ranks",
    "simulate t.topology.toml f.csv -o out.csv",
    "guarantee plan g.guarantee.toml --network n.network.json",
    "simulate n.network.json f.csv --json",
    "simulate p.placement.json a.app.toml --network g.network.json",
    "simulate p.placement.json a.app.toml --network v.network.json",
    "export v.network.json --format topograph -o out.topograph",
    "model h.npz --compact -o out2.network.json",
    "model h.npz -o out.network.json",
    "model h.npz --method rpca --json",
    "model h.npz --method min",
    "model q.npz --compact",
    "compare h.npz h.npz",
    "compare h.npz n.network.json --placement p.placement.json --app a.app.toml",
    "compare n.network.json g.network.json --json",
    "compare f2.csv h.npz --all",
    "report --network g.network.json --history h.npz --placement p.placement.json --app a.app.toml -o out.html",
    "profile mpip r.mpiP -o out.app.toml",
    "profile pcap c.pcap --tasks k.txt -o out.app.toml",
    "profile trace t.trace --json",
    "profile trace t.trace --format goal -o out.goal",
    "profile trace t.trace --format smpi -o out.smpi",
    "history import h.npz --series s --store sqlite:///out.sqlite",
    "history import f2.csv --series s --store sqlite:///out2.sqlite",
    "history import r.jsonl --store sqlite:///out3.sqlite",
    "hosts list --hosts i.hosts.toml",
    "hosts list --hosts mpi:m.txt",
    "measure --hosts i.hosts.toml --network n.network.json --dry-run",
    "measure sharing h.npz --hosts i.hosts.toml --dry-run",
    "measure --hosts i.hosts.toml -o j.npz --resume",
    "schema app",
    "campaign plan c.campaign.toml --json",
    "campaign run c.campaign.toml -o s.jsonl --resume --dry-run",
    "campaign report s.jsonl -o out.html",
    "campaign report s.jsonl -o out.md",
    "campaign compare s.jsonl s.jsonl",
    "campaign export s.jsonl -o out.parquet",
    "campaign import o.osmef.json -o out.jsonl",
)
"""Each reads files of `write`; one of them is damaged."""


def write(folder: Path) -> None:
    """Write a sound file of every kind."""
    matrix = [[None if i == j else 1e8 * (1 + i + 2 * j) for j in range(4)] for i in range(4)]
    hosts = [{"name": name, "cpus": 2.0, "egress_bps": 2e8, "machine": f"pm{i // 2}"} for i, name in enumerate(HOSTS)]
    delay = [[None if i == j else 1e-4 for j in range(4)] for i in range(4)]
    write_network(folder / "n.network.json", builders.network(hosts, sharing="hose", latency_s=1e-4, rate_bps=matrix))
    labelled = [
        host | {"labels": {"zone": "ab"[i % 2]}, "resources": {"gpu": i}, "core_speed": 1.5, "price_usd": 1.0 + i}
        for i, host in enumerate(hosts)
    ]
    write_network(folder / "l.network.json", builders.network(labelled, latency_s=1e-4, rate_bps=matrix))
    rules = {
        "apart": [{"tasks": ["a", "b"], "by": "zone", "price_s": 0.1}, ["b", "c"]],
        "together": [{"tasks": ["a", "c"], "by": "machine"}],
        "spread": [{"by": "zone"}, {"tasks": ["a", "b"], "most": 1, "price_s": 2.0}],
        "labels": [{"tasks": ["a"], "key": "zone", "values": ["a", "b"]}],
        "max_latency": [{"source": "a", "target": "b", "seconds": 0.001, "price_s": 1.0}],
    }
    tasks: list[builders.Named] = [{"name": "a", "resources": {"gpu": 1}}, "b", "c"]
    write_app(folder / "l.app.toml", builders.app("rules", ("a", "b", 10**6), tasks=tasks, constraints=rules))
    groups = [{"name": "rack", "members": ["h2", "h3"], "up_bps": 1.5e8, "down_bps": 1.5e8}]
    write_network(
        folder / "g.network.json",
        builders.network(hosts, sharing="groups", latency_s=delay[0][1], rate_bps=matrix, groups=groups),
    )
    sparse = {
        "hosts": [{"name": name, "egress_bps": 2e8, "ingress_bps": 2e8, "latency_s": 1e-4} for name in HOSTS],
        "groups": [group | {"latency_s": 2e-4} for group in groups],
        "exceptions": [
            {"source": "h0", "target": "h1", "rate_bps": 1e7},
            {"source": "h1", "target": "h2", "latency_s": 0.04},
        ],
        "checked": {"pairs": 8, "off": 0, "share_at_most": 0.3, "confidence": 0.95},
    }
    write_network(folder / "v.network.json", Network.model_validate({"format": COMPACT, "sharing": "groups"} | sparse))
    app = builders.app("sort", ("a", "b", 10_000_000), ("b", "c", 5_000_000, 1), ("c", "a", 1000))
    write_app(folder / "a.app.toml", app)
    write_app(folder / "b.app.toml", builders.app("scan", ("x", "y", 10**7), arrival_s=3.0))
    placed = builders.placement({"a": "h0", "b": "h1", "c": "h2"}, "sort")
    write_placement(folder / "p.placement.json", placed)
    rng = np.random.default_rng(1)
    beta = rng.uniform(1e7, 2e7, (5, 4, 4))
    hops = np.where(np.eye(4, dtype=bool), 0, 3)
    history = builders.history(beta, hops=hops, hosts=HOSTS, method="train")
    write_history(folder / "h.npz", history)
    write_history(folder / "q.npz", in_clusters(history))
    (folder / "t.topology.toml").write_text(
        'format = "gavotte/topology/1"\n[[switch]]\nname = "core"\n'
        '[[switch]]\nname = "tor"\nparent = "core"\nup = "1gbit"\n'
        '[[machine]]\nname = "pm"\nswitch = "tor"\nrate = "1gbit"\nmachine_rate = "2gbit"\n'
        '[[host]]\nname = "h0"\nmachine = "pm"\negress = "300mbit"\nburst = "512kb"\n'
        '[[host]]\nname = "h1"\nswitch = "core"\nrate = "100mbit"\ncpus = 4.0\n[[host]]\nname = "h2"\nmachine = "pm"\n'
        '[[host]]\nname = "h3"\nswitch = "tor"\n'
    )
    (folder / "f.csv").write_text(
        "id,source,target,bytes,start_s\n0,h0,h1,1000000,0\n1,h1,h2,2000000,0.5\n2,h2,h0,5,1\n"
    )
    (folder / "g.guarantee.toml").write_text(
        'format = "gavotte/guarantee/1"\nheadroom = 0.1\nmode = "loss"\n'
        '[[guarantee]]\nhost = "h0"\negress = "45mbit"\ningress = "40mbit"\negress_limit = "80mbit"\n'
        '[[guarantee]]\nhost = "h2"\ningress = "30mbit"\n'
        '[[tenant]]\nname = "a"\nhosts = ["h0", "h2"]\ningress = "90mbit"\n'
    )
    (folder / "f2.csv").write_text(
        "time_s,source,target,alpha_s,beta_Bps\n"
        + "".join(f"{t},{a},{b},0.0001,1000000\n" for t in range(2) for a in HOSTS for b in HOSTS if a != b)
    )
    (folder / "i.hosts.toml").write_text(
        'format = "gavotte/hosts/1"\n'
        + "".join(
            f'[[host]]\nname = "{name}"\naddress = "10.0.0.{i + 1}"\nagent = "unix:/nowhere/{i}.sock"\ncpus = 2.0\n'
            for i, name in enumerate(HOSTS)
        )
    )
    (folder / "m.txt").write_text("10.0.0.1 slots=2\n10.0.0.2:4\n10.0.0.3 slots=1 max_slots=2\n# none\n")
    (folder / "k.txt").write_text("10.0.0.1 a\n10.0.0.2 b\n")
    (folder / "c.pcap").write_bytes(_capture())
    (folder / "r.mpiP").write_text(MPIP_REPORT)
    (folder / "t.trace").write_bytes(test_mpi_traces.RECORDED.read_bytes())
    for name, (_, content) in PROFILED.items():
        (folder / name).write_bytes(content)
    pairs = [{"source": "a", "target": "b", "bytes": 5, "low_bytes": 4, "high_bytes": 6}]
    series = [{"start_s": n * 1.0, "end_s": n + 1.0, "pairs": pairs} for n in range(6)]
    (folder / "w.json").write_text(json.dumps({"pairs": pairs, "series": series, "app": app.model_dump(mode="json")}))
    record = {"format": "gavotte/record/1", "kind": "run", "metric": "completion_s", "value": 1.5, "time_s": 1.0}
    (folder / "r.jsonl").write_text("".join(json.dumps(record | {"value": value}) + "\n" for value in range(3)))
    samples = [
        record
        | {
            "kind": "campaign",
            "campaign": "c",
            "scenario": "near",
            "repetition": n,
            "sample": f"near/r{n}",
            "unit": "bit/s",
        }
        | {"metric": "capacity_bps", "source": "h0", "target": "h1", "connections": 2, "connection_bps": [1.0, 2.0 + n]}
        | {"metrics": {"jain": {"value": 0.9, "unit": ""}, "distance": {"value": 2.0, "unit": "edges"}}, "low": 1.0}
        | {
            "metadata": {"before": {"h0": {"kernel": "Linux", "load_1min": 3.0, "cpus": 2}}, "after": {}},
            "value": 1e8 + n,
        }
        for n in range(3)
    ]
    (folder / "s.jsonl").write_text("".join(json.dumps(each) + "\n" for each in samples))
    (folder / "c.campaign.toml").write_text(_CAMPAIGN)
    (folder / "o.osmef.json").write_text(json.dumps(_OSMEF))
    (folder / "b.csv").write_text("source,target,bytes\nh0,h1,100\nh1,h2,200\n")
    (folder / "config.txt").write_text(
        "Host h0\n  HostName 10.0.0.1\n  Port 22\nInclude nowhere/*.conf\nHost *\n  User me\n"
    )
    (folder / "lab.json").write_text(
        json.dumps(
            new_record("abc", topology="t", session=False, agents=True, created_unix_s=1.0).as_dict()
            | {"hosts": [["h0", "10.0.0.1"]], "switches": [["core", ["10.0.0.2"]]]}
        )
    )
    stage = {
        "operation": "broadcast",
        "order": [0, 1, 2, 3],
        "parent": [0, 0, 0, 1],
        "segments": 2,
        "bytes": 1000,
        "predicted_s": 0.1,
    }
    tree = {
        "format": "gavotte/collective/1",
        "operation": "broadcast",
        "hosts": list(HOSTS),
        "bytes": 1000,
        "algorithm": "flat",
        "stages": [stage],
        "predicted_s": 0.1,
    }
    (folder / "x.tree.json").write_text(json.dumps(tree))
    head = {"format": "gavotte/measuring/1", "hosts": list(HOSTS), "method": "train", "count": 1, "seed": 0}
    reading = {"goodput_bps": 1e8, "low_bps": 9e7, "high_bps": None, "verdict": "path-limited"}
    entries = [
        head,
        {"run": "abc"},
        {"snapshot": 0, "time_s": 1.0},
        {"at": [0, 0, 1], "rtt_s": 1e-3, "hops": 3, "reading": reading, "idle_s": 1.0},
    ]
    (folder / "j.npz.partial").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def in_clusters(history: History) -> PairHistory:
    """Return the same as pairs, with path lengths as clusters."""
    pairs = history.in_pairs()
    lengths = Lengths(len(pairs.hosts))
    lengths.join(range(2), 2)
    lengths.join(range(len(pairs.hosts)), 3)
    return replace(pairs, lengths=lengths, values={key: array for key, array in pairs.values.items() if key != "hops"})


def _capture() -> bytes:
    """Return two TCP segments of Ethernet, as tcpdump writes them."""
    import struct

    def frame(source: int, target: int, size: int) -> bytes:
        ip = struct.pack(">BBHHHBBH4B4B", 0x45, 0, 40 + size, 1, 0, 64, 6, 0, 10, 0, 0, source, 10, 0, 0, target)
        tcp = struct.pack(">HHIIBBHHH", 80, 5000, 1, 1, 0x50, 0x10, 100, 0, 0)
        return bytes(12) + b"\x08\x00" + ip + tcp + bytes(size)

    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for second, data in enumerate((frame(1, 2, 100), frame(2, 1, 50))):
        parts += [struct.pack("<IIII", second, 0, len(data), len(data)), data]
    return b"".join(parts)


_CAMPAIGN = """format = "gavotte/campaign/1"
name = "c"
seed = 1
order = "blocked"
repetitions = 2
seconds = 0.5
[driver]
kind = "lab"
topology = "t.topology.toml"
tenants = { red = ["h0"], blue = ["h2"] }
[[flavour]]
name = "half"
cpus = 0.5
[[scenario]]
name = "near"
kind = "pair"
source = ["h0"]
target = ["h1", "h2"]
connections = [1, 10]
flavours = ["half"]
background = [{ source = "h3", target = "h0", connections = 2 }]
[[scenario]]
name = "all"
kind = "all-to-all"
source = ["h0", "h1", "h2"]
engine = "iperf3"
[stop]
relative_half_width = 0.05
most_repetitions = 4
[budget]
seconds = 5000
bytes = "1000gb"
"""

_OSMEF = {
    "btc": {
        "conn_1": {"rx": {"rate_Mbps": "941.4", "cpu": "5%"}, "tx": {"retrans": "0", "rtt_ms": "0.2", "cpu": "4%"}}
    },
    "time": 1374580149.1,
    "senders": "me@10.0.0.1",
    "receiver": "me@10.0.0.2",
    "state_sender": {"kernel_version": "3.2", "load_1": "0.08"},
}


def _traffic(source: str, path: str) -> object:
    return SOURCES[source].read(Request([path], every_s=60.0 if SOURCES[source].timed else None))


def _samples(path: str) -> object:
    from gavotte.campaign.journal import sound_bytes

    sound_bytes(path)
    return read_samples(path)


def _osmef(path: str) -> object:
    from gavotte.campaign import read_osmef

    return read_osmef([path])


def reader_of(name: str) -> Callable[[str], object]:
    """Return the reader of a file that `write` made."""
    return next(reader for ending, reader in _READERS.items() if name.endswith(ending))


def _journal(path: str) -> object:
    inventory = read_inventory(Path("../sound/i.hosts.toml"))
    with Journal(Path(path), Results(inventory, "train", 1), seed=0, resume=True) as journal:
        journal.close()
        raise GavotteError("read")


_READERS: dict[str, Callable[[str], object]] = {
    ".network.json": read_network,
    ".app.toml": read_app,
    ".placement.json": read_placement,
    ".topology.toml": read_topology,
    ".hosts.toml": read_inventory,
    ".guarantee.toml": read_guarantee,
    ".partial": _journal,
    ".tree.json": read_collective,
    "s.jsonl": _samples,
    ".jsonl": read_records,
    ".campaign.toml": read_campaign,
    ".osmef.json": _osmef,
    "m.txt": from_mpi,
    "k.txt": read_tasks,
    "config.txt": lambda path: from_ssh_config("*", file=path),
    "lab.json": lambda _: read_state(Path()),
    "f.csv": lambda path: read_flows(path, HOSTS),
    "f2.csv": lambda path: list(read_csv(path)),
    "b.csv": read_byte_matrix,
    ".npz": read_history,
    "w.json": read_profile,
    ".trace": read_trace,
    ".pcap": lambda path: SOURCES["pcap"].read(Request([path])),
    ".mpiP": lambda path: SOURCES["mpip"].read(Request([path])),
    **{name: partial(_traffic, source) for name, (source, _) in PROFILED.items()},
}
