"""The judge of every answer, ours and the peers': written from the definition, with none of the product's own code.

The completion time (Choreo, Appendix, with `S` generalised) is the maximum over links of 8 x bytes / rate. A link is an
ordered pair of hosts, or a host's egress or ingress (under `hose`, for traffic to other machines).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

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
        """Rates of pairs; empty if no pair has one."""
        self.egress = np.array([host.egress_bps or math.inf for host in network.hosts])
        self.ingress = np.array([host.ingress_bps or math.inf for host in network.hosts])
        names = [host.machine or f"alone-{m}" for m, host in enumerate(network.hosts)]
        self.machine = np.unique(names, return_inverse=True)[1]
        self.hose = network.sharing != "pipe"
        self.groups = [
            (np.array([host.name in group.members for host in network.hosts]), group.up_bps, group.down_bps)
            for group in (network.groups if network.sharing == "groups" else ())
        ]
        self.source = np.array([place[t.source] for t in app.transfer], dtype=np.intp)
        self.target = np.array([place[t.target] for t in app.transfer], dtype=np.intp)
        self.bytes = np.array([t.bytes for t in app.transfer], dtype=float)

    @cached_property
    def mates(self) -> npt.NDArray[np.bool_]:
        """Whether two hosts are on one machine."""
        return np.asarray(self.machine[:, None] == self.machine[None, :])

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
        most, count = 0.0, len(self.have)
        if len(self.pair):
            away = m != n
            load = np.bincount(m[away] * count + n[away], weights=self.bytes[away], minlength=count * count)
            most = float(np.max(8 * load.reshape(count, count) / self.pair, initial=0.0))
        if self.hose:
            far = self.machine[m] != self.machine[n]
            sources, targets, sent = m[far], n[far], self.bytes[far]
            most = max(most, float(np.max(8 * np.bincount(sources, sent, count) / self.egress)))
            most = max(most, float(np.max(8 * np.bincount(targets, sent, count) / self.ingress)))
            for inside, up_bps, down_bps in self.groups:
                leaves, enters = inside[sources] & ~inside[targets], ~inside[sources] & inside[targets]
                most = max(most, 8 * float(sent[leaves].sum()) / (up_bps or math.inf))
                most = max(most, 8 * float(sent[enters].sum()) / (down_bps or math.inf))
        return most
