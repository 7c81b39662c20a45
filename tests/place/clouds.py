"""Small clouds and applications for the tests of placing."""

from __future__ import annotations

from typing import Any

from tests import builders
from tests.builders import MB, MBIT

from gavotte.formats.app import App
from gavotte.formats.network import Network


def cloud(size: int = 4, *, cpus: float = 2.0, **fields: Any) -> Network:
    """Hosts vm0, vm1, ... whose egress is 8, 16, 24, ... Mbit/s; latency 1 ms between neighbours, 2 ms to the next."""
    hosts = [{"name": f"vm{m}", "cpus": cpus, "egress_bps": 8 * MBIT * (m + 1)} for m in range(size)]
    latency_s = [[0.001 * abs(m - n) for n in range(size)] for m in range(size)]
    return builders.network(fields.pop("hosts", hosts), None, fields.pop("latency_s", latency_s), **fields)


def ring(tasks: str = "abcdef", *, cpus: float = 1.0, **constraints: Any) -> App:
    """Each task sends the next one 1 MB, 2 MB, 3 MB, ..."""
    pairs = zip(tasks, tasks[1:] + tasks[:1], strict=True)
    ways = ((a, b, MB * (i + 1)) for i, (a, b) in enumerate(pairs))
    return builders.app("ring", *ways, tasks=tasks, cpus=cpus, constraints=constraints)
