"""Clouds, hoses and flows of the simulated experiments, and rates from simulations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gavotte.formats.guarantee import FORMAT, Guarantee
from gavotte.formats.topology import FORMAT as TOPOLOGY
from gavotte.formats.topology import Topology
from gavotte.simulate import Flows, GuardedSimulation

WARM_S = 3.0
"""Time at the start of a run that does not count."""
ENDLESS = 10**13


def cloud(left: Sequence[str], right: Sequence[str], *, together: Sequence[str] = (), core: str = "1gbit") -> Topology:
    """Return hosts at 1 Gbit/s on two racks, `together` on one machine of the right one; `core` joins the racks."""
    hosts = [{"name": name, "switch": "left", "rate": "1gbit"} for name in left]
    hosts += [{"name": name, "switch": "right", "rate": "1gbit"} for name in right]
    hosts += [{"name": name, "machine": "pm"} for name in together]
    switches = [{"name": "core"}, {"name": "left", "parent": "core", "up": core}, {"name": "right", "parent": "core"}]
    machines = [{"name": "pm", "switch": "right", "rate": "1gbit"}]
    return Topology.model_validate({"format": TOPOLOGY, "switch": switches, "machine": machines, "host": hosts})


def hoses(mbps: dict[str, float]) -> Guarantee:
    """Return the same guarantee in both directions."""
    entries = [{"host": host, "egress": f"{rate}mbit", "ingress": f"{rate}mbit"} for host, rate in mbps.items()]
    return Guarantee.model_validate({"format": FORMAT, "guarantee": entries})


def flows(topology: Topology, rows: Iterable[tuple[Any, ...]]) -> Flows:
    """Rows of source, target, bytes, start and, for UDP, its rate in bit/s."""
    at = {host.name: place for place, host in enumerate(topology.host)}
    listed = [(*row, math.inf, False) if len(row) == 4 else (*row, True) for row in rows]
    source, target, size, start_s, cap_bps, udp = zip(*listed, strict=True)
    return Flows(
        np.array([at[name] for name in source]),
        np.array([at[name] for name in target]),
        np.array(size, dtype=np.uint64),
        np.array(start_s, dtype=float),
        cap_bps=np.array(cap_bps, dtype=float),
        udp=np.array(udp),
    )


def rates(done: GuardedSimulation, source: str | None, *, but: str = "") -> np.ndarray:
    """Return (W,) Mbit/s by window after the start: pairs of one source, or of all but one."""
    first, last = round(WARM_S / done.window_s), max(len(pair.rates_bps) for pair in done.pairs)
    total = np.zeros(last)
    for pair in done.pairs:
        if (source is None and pair.source != but) or pair.source == source:
            total[: len(pair.rates_bps)] += pair.rates_bps / 1e6
    return total[first:]
