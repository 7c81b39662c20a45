"""The judge of every answer, ours and the peers': written from the definition, with none of the product's own code.

The completion time (Choreo, Appendix, with `S` generalised) is the maximum over links of 8 x bytes / rate. A link is an
ordered pair of hosts, or a host's egress or ingress (under `hose`, for traffic to other machines).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from gavotte.formats.app import App
from gavotte.formats.network import Network


class Judge:
    """One application on one network as plain arrays."""

    def __init__(self, network: Network, app: App) -> None:
        index = {host.name: m for m, host in enumerate(network.hosts)}
        self.hosts, self.tasks = index, [task.name for task in app.task]
        place = {name: i for i, name in enumerate(self.tasks)}
        self.need = np.array([task.cpus for task in app.task])
        self.have = np.array([host.cpus for host in network.hosts])
        self.pair = np.array([[rate or math.inf for rate in row] for row in network.rate_bps])
        self.egress = np.array([host.egress_bps or math.inf for host in network.hosts])
        self.ingress = np.array([host.ingress_bps or math.inf for host in network.hosts])
        machine = [host.machine or f"alone-{m}" for m, host in enumerate(network.hosts)]
        self.mates = np.array([[a == b for a in machine] for b in machine])
        self.hose = network.sharing != "pipe"
        self.groups = [
            (np.array([host.name in group.members for host in network.hosts]), group.up_bps, group.down_bps)
            for group in (network.groups if network.sharing == "groups" else ())
        ]
        self.source = np.array([place[t.source] for t in app.transfer], dtype=np.intp)
        self.target = np.array([place[t.target] for t in app.transfer], dtype=np.intp)
        self.bytes = np.array([t.bytes for t in app.transfer], dtype=float)

    def of(self, assignment: Mapping[str, str]) -> float | None:
        """Return the seconds of an assignment by name; None if it leaves a task out or overbooks a host."""
        if any(assignment.get(task) not in self.hosts for task in self.tasks):
            return None
        return self.seconds(np.array([self.hosts[assignment[task]] for task in self.tasks]))

    def seconds(self, at: npt.NDArray[np.intp]) -> float | None:
        """Return the seconds of an assignment by index; None if it overbooks a host."""
        used = np.bincount(at, weights=self.need, minlength=len(self.have))
        if len(at) != len(self.need) or np.any(used > self.have + 1e-9):
            return None
        m, n = at[self.source], at[self.target]
        away = m != n
        load = np.zeros_like(self.pair)
        np.add.at(load, (m[away], n[away]), self.bytes[away])
        most = float(np.max(8 * load / self.pair, initial=0.0))
        if self.hose:
            far = np.where(self.mates, 0.0, load)
            most = max(most, float(np.max(8 * far.sum(axis=1) / self.egress)))
            most = max(most, float(np.max(8 * far.sum(axis=0) / self.ingress)))
            for inside, up_bps, down_bps in self.groups:
                most = max(most, 8 * float(far[inside][:, ~inside].sum()) / (up_bps or math.inf))
                most = max(most, 8 * float(far[~inside][:, inside].sum()) / (down_bps or math.inf))
        return most
