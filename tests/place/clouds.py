"""Small clouds and applications for the tests of placing."""

from __future__ import annotations

from typing import Any

from gavotte.formats.app import App
from gavotte.formats.network import Network

MBIT = 1e6
MB = 1_000_000


def cloud(size: int = 4, *, cpus: float = 2.0, **fields: Any) -> Network:
    """Hosts vm0, vm1, ... whose egress is 8, 16, 24, ... Mbit/s; latency 1 ms between neighbours, 2 ms to the next."""
    hosts = [{"name": f"vm{m}", "cpus": cpus, "egress_bps": 8 * MBIT * (m + 1)} for m in range(size)]
    free = [[None] * size for _ in range(size)]
    latency = [[None if m == n else 0.001 * abs(m - n) for n in range(size)] for m in range(size)]
    document = {"format": "gavotte/network/1", "hosts": hosts, "rate_bps": free, "latency_s": latency}
    return Network.model_validate(document | fields)


def ring(tasks: str = "abcdef", *, cpus: float = 1.0, **constraints: Any) -> App:
    """Each task sends the next one 1 MB, 2 MB, 3 MB, ..."""
    pairs = zip(tasks, tasks[1:] + tasks[:1], strict=True)
    return App.model_validate(
        {
            "format": "gavotte/app/1",
            "name": "ring",
            "task": [{"name": task, "cpus": cpus} for task in tasks],
            "transfer": [{"source": a, "target": b, "bytes": MB * (i + 1)} for i, (a, b) in enumerate(pairs)],
            "constraints": constraints,
        }
    )
