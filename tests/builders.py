"""Short ways to make each noun in tests: missing values are plain, unlimited or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gavotte.formats.app import FORMAT as APP
from gavotte.formats.app import App
from gavotte.formats.history import Floats, History, Ints
from gavotte.formats.inventory import FORMAT as HOSTS
from gavotte.formats.inventory import Inventory
from gavotte.formats.network import FORMAT as NETWORK
from gavotte.formats.network import Network
from gavotte.formats.placement import Placement
from gavotte.formats.topology import FORMAT as TOPOLOGY
from gavotte.formats.topology import Topology

MBIT = 1e6
MB = 1_000_000

Named = str | Mapping[str, Any]
Pairs = float | Sequence[Sequence[float | None]] | Floats | None


def network(hosts: int | Iterable[Named], rate_bps: Pairs = None, latency_s: Pairs = None, **fields: Any) -> Network:
    """Return a Network of hosts by number (vm0, vm1, ...), name or keys; one value for all pairs, or a row a source.

    Fields of hosts (`cpus`, `egress_bps`, ...) apply to each of them, the others to the Network.
    """
    named = [f"vm{m}" for m in range(hosts)] if isinstance(hosts, int) else hosts
    each = {key: fields.pop(key) for key in ("cpus", "egress_bps", "ingress_bps") if key in fields}
    listed = [each | keys(name) for name in named]
    matrices = {"rate_bps": pairs(len(listed), rate_bps), "latency_s": pairs(len(listed), latency_s)}
    return Network.model_validate({"format": NETWORK, "hosts": listed, **matrices, **fields})


def app(name: str, *transfers: Sequence[Any], tasks: Iterable[Named] = (), cpus: float = 1.0, **fields: Any) -> App:
    """Return an App of transfers of source, target, bytes and, unless 0, phase; by default its tasks are their ends."""
    ways = [dict(zip(("source", "target", "bytes", "phase"), transfer, strict=False)) for transfer in transfers]
    named = tasks or dict.fromkeys(end for way in ways for end in (way["source"], way["target"]))
    listed = [{"cpus": cpus} | keys(task) for task in named]
    return App.model_validate({"format": APP, "name": name, "task": listed, "transfer": ways, **fields})


def placement(assignment: Mapping[str, str], *apps: str, **fields: Any) -> Placement:
    """Return a Placement of tasks on hosts, as if greedy had found it in no time."""
    plain = {
        "method": "greedy",
        "completion_s": 1.0,
        "bound_s": 0.0,
        "optimal": False,
        "bottleneck": "",
        "elapsed_s": 0.0,
    }
    return Placement.model_validate({"apps": apps or ["app"], "assignment": assignment, "seed": 0, **plain, **fields})


def inventory(names: Iterable[str]) -> Inventory:
    """Return hosts whose agents are unreachable."""
    hosts = [
        {"name": name, "address": f"127.0.0.{number}", "agent": f"unix:/nonexistent/{name}.sock"}
        for number, name in enumerate(names, start=1)
    ]
    return Inventory.model_validate({"format": HOSTS, "host": hosts})


def topology(hosts: Sequence[Named], *, switches: Sequence[Named] = ("core",), **fields: Any) -> Topology:
    """Return a Topology: hosts are at the first switch by default, and switches below the first."""
    root = keys(switches[0])["name"]
    listed = [keys(host) for host in hosts]
    placed = [host if {"machine", "switch"} & host.keys() else host | {"switch": root} for host in listed]
    tree = [keys(switches[0]), *({"parent": root} | keys(switch) for switch in switches[1:])]
    return Topology.model_validate({"format": TOPOLOGY, "switch": tree, "host": placed, **fields})


def history(
    beta_Bps: Floats,  # noqa: N803
    alpha_s: float | Floats = 1e-4,
    *,
    hops: Sequence[Sequence[int]] | Ints | None = None,
    every_s: float = 1.0,
    **fields: Any,
) -> History:
    """Return a History of (n, N, N) rates, and latencies that broadcast to them; hosts h0, h1, ..."""
    size = beta_Bps.shape[1]
    beta = np.where(np.eye(size, dtype=bool), np.nan, beta_Bps)
    plain: dict[str, Any] = {
        "alpha_s": np.where(np.isnan(beta), np.nan, alpha_s),
        "time_s": np.arange(len(beta), dtype=np.float64) * every_s,
        "hosts": tuple(f"h{i}" for i in range(size)),
        "hops": np.zeros((size, size), dtype=np.int64) if hops is None else np.array(hops),
        "cpus": np.full(size, 4.0),
        "memory_bytes": np.zeros(size, dtype=np.int64),
    }
    return History(beta_Bps=beta, **plain | fields)


def keys(named: Named) -> dict[str, Any]:
    """Return a table of a file from a name alone, or as given."""
    return {"name": named} if isinstance(named, str) else dict(named)


def pairs(size: int, value: Pairs) -> list[list[float | None]]:
    """Return a matrix as Networks have it: nothing on the diagonal."""
    rows = np.broadcast_to(np.array(np.nan if value is None else value, dtype=np.float64), (size, size))
    return [
        [None if i == j or np.isnan(rate) else float(rate) for j, rate in enumerate(row)] for i, row in enumerate(rows)
    ]


MPIP_REPORT = """@ mpiP
@ Command : ./ring
@ MPI Task Assignment      : 0 a
@ MPI Task Assignment      : 1 b
@ MPI Task Assignment      : 2 b
------- Start Communication Matrix -------------

Statistics of rank: 0

Source\tTarget\tTotal Amount\tTotal Count
0\t0\t5000004\t3
0\t1\t5000000\t2
0\t2\t4\t1
Statistics of rank: 1
1\t2\t7000\t9
2\t0\t6000\t9

------- End Communication Matrix -------------
"""
"""mpiP's report of a ring of three ranks."""
