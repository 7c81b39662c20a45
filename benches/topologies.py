"""Small clouds for benchmarks, as topologies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gavotte.formats.topology import FORMAT, Topology


def star(egress: Sequence[str], *, both: bool = False, burst: str = "32kb", queue: str | None = None) -> Topology:
    """Return hosts `h0`, `h1`, ... behind one switch, each with its own egress cap; `both`: the same for its ingress."""
    return Topology.model_validate(
        {
            "format": FORMAT,
            "switch": [{"name": "core"}],
            "host": [
                {"name": f"h{i}", "switch": "core", "egress": rate, "burst": burst, "cpus": 4.0}
                | ({"ingress": rate} if both else {})
                | ({} if queue is None else {"queue": queue})
                for i, rate in enumerate(egress)
            ],
        }
    )


def racks(egress: Sequence[str], *, hosts_per_rack: int, burst: str = "32kb") -> Topology:
    """Return hosts `h0`, `h1`, ... in racks of one size under one core, uplinks unlimited."""
    names = [f"tor{r}" for r in range(-(-len(egress) // hosts_per_rack))]
    hosts: list[dict[str, Any]] = [
        {"name": f"h{i}", "switch": names[i // hosts_per_rack], "egress": rate, "burst": burst, "cpus": 4.0}
        for i, rate in enumerate(egress)
    ]
    switches = [{"name": "core"}, *({"name": name, "parent": "core"} for name in names)]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})
