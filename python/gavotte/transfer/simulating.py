"""Simulate coflow traces under policies, to learn when each coflow is done."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.files.reading import write_bytes
from gavotte.formats.network import Network
from gavotte.tables import Tabular
from gavotte.terms import Progress
from gavotte.transfer.traces import Trace

Floats = npt.NDArray[np.float64]

PORT_BPS = 1e9
"""Default rate of each port, as in the evaluations of Varys, Aalo and Sincronia."""

EXACT_FLOWS = 50_000
"""Larger traces are simulated in steps of `STEP_S`. This takes seconds where every event would take minutes."""

STEP_S = 2.0

Admission = Literal["refuse", "demote", "open"]
"""Treatment of coflows whose deadline cannot be promised; with `open`, none is promised."""

DEADLINE_S = 0.2
"""Shortest deadline that `with_deadlines` sets, as in Varys' evaluation."""

ON_TIME = 1e-6
"""A coflow that takes longer than its deadline by this share has met it: the difference is a rounding error."""


@dataclass(frozen=True)
class TransferSimulation(Tabular):
    """Result of C coflows under a policy.

    Attributes:
        policy: its name.
        names: names of the coflows.
        arrival_s: (C,) when each arrived.
        finish_s: (C,) when its last byte was sent; NaN for a coflow that was refused.
        alone_s: (C,) its lower bound: how long it would take alone.
        step_s: how long the share of a flow that ended may have idled; 0 = not at all.
        reckonings: how often rates were computed.
        most_flows: the most flows that ran at the same time.
        deadline_s: (C,) how long after its arrival each coflow has to finish; inf = no deadline.
        guaranteed: (C,) whether each was promised its deadline.
    """

    policy: str
    names: list[str]
    arrival_s: Floats
    finish_s: Floats
    alone_s: Floats
    step_s: float
    reckonings: int
    most_flows: int
    deadline_s: Floats
    guaranteed: npt.NDArray[np.bool_]

    @property
    def completion_s(self) -> Floats:
        """Completion time of each coflow in seconds, from arrival to finish, shape (C,); NaN if it was refused."""
        return self.finish_s - self.arrival_s

    @property
    def met(self) -> npt.NDArray[np.bool_]:
        """Whether each coflow met its deadline, shape (C,); False without a deadline."""
        within = self.completion_s <= self.deadline_s * (1 + ON_TIME)
        return within & np.isfinite(self.deadline_s)

    @property
    def met_share(self) -> float:
        """Share of the coflows with a deadline that met it, 0 to 1; NaN without any."""
        due = np.isfinite(self.deadline_s)
        return float(self.met[due].mean()) if due.any() else float("nan")

    @property
    def refused(self) -> int:
        """Number of coflows that were refused."""
        return int(np.isnan(self.finish_s).sum())

    @property
    def average_s(self) -> float:
        """Mean completion time of the coflows that ran, in seconds; 0 without any."""
        return float(self._ran_s.mean()) if len(self._ran_s) else 0.0

    @property
    def p95_s(self) -> float:
        """Completion time in seconds that 95 % of the coflows that ran do not exceed, interpolated; 0 without any."""
        return float(np.quantile(self._ran_s, 0.95)) if len(self._ran_s) else 0.0

    @property
    def max_s(self) -> float:
        """Longest completion time in seconds; 0 if no coflow ran."""
        return float(self._ran_s.max(initial=0.0))

    @property
    def _ran_s(self) -> Floats:
        return self.completion_s[np.isfinite(self.finish_s)]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per coflow: its name, times, deadline, and whether that was promised and met."""
        columns = (
            self.arrival_s,
            self.finish_s,
            self.completion_s,
            self.alone_s,
            self.deadline_s,
            self.guaranteed,
            self.met,
        )
        rows = zip(self.names, *(column.tolist() for column in columns), strict=True)
        keys = ("coflow", "arrival_s", "finish_s", "completion_s", "alone_s", "deadline_s", "guaranteed", "met")
        return [dict(zip(keys, row, strict=True)) for row in rows]


def simulate_transfers(
    trace: Trace,
    policy: str,
    *,
    port_bps: float | None = None,
    network: Network | None = None,
    step_s: float | None = None,
    admission: Admission = "refuse",
    progress: Progress | None = None,
) -> TransferSimulation:
    """Run the coflows of a trace under a policy, as fluids, from event to event.

    Rates are computed again in these cases:

    1. A coflow arrives or is done, or the policy requests it.
    2. A flow ends before its coflow: at once or, with steps, within `step_s`. Until then its share idles.

    Args:
        trace: what is to be sent, and when.
        policy: one of `POLICIES`.
        port_bps: the rate of every port, out and in, on a switch that never blocks; None = 1 Gbit/s. What a port sends
            to itself loads it too, as in the papers' simulators, where a port stands for a rack.
        network: instead, hosts that the ports are named after, and all links between them.
        step_s: see above; None = 0 (exact) up to `EXACT_FLOWS` flows, else `STEP_S`.
        admission: treatment of coflows with deadlines, by Varys' rule: a coflow is promised its deadline if it can keep
            it at constant rates that no earlier promise needs. Without deadlines nothing changes.
        progress: called now and then with the coflows done and all.

    Raises:
        GavotteError: for an unknown policy, a port that is not a host, or both a rate and a Network.
    """
    if step_s is None:
        step_s = STEP_S if trace.flow_count > EXACT_FLOWS else 0.0
    if not 0 <= step_s < np.inf:
        raise GavotteError(f"the step {step_s} s is out of range", hint="use 0 for exact events, or some seconds")
    over = _over(trace, port_bps, network)
    try:
        finish_s, guaranteed, reckonings, most_flows = trace.core.simulate(
            policy, admission, over, step_s, progress or _nothing
        )
    except ValueError as error:
        raise GavotteError(str(error)) from None
    return TransferSimulation(
        policy=policy,
        names=trace.names,
        arrival_s=trace.arrival_s,
        finish_s=finish_s,
        alone_s=trace.core.bounds_s(over),
        step_s=step_s,
        reckonings=reckonings,
        most_flows=most_flows,
        deadline_s=trace.deadline_s,
        guaranteed=guaranteed,
    )


def with_deadlines(
    trace: Trace,
    slack: float,
    *,
    seed: int = 0,
    port_bps: float | None = None,
    network: Network | None = None,
) -> Trace:
    """Return the trace with a random deadline for each coflow, as in Varys' evaluation.

    A coflow's deadline is the time that it takes alone, times 1 + U(0, `slack`), and at least `DEADLINE_S`.

    Args:
        trace: the coflows.
        slack: largest extra time, as a multiple of the time that a coflow takes alone.
        seed: decides the deadlines.
        port_bps: as for `simulate_transfers`.
        network: as for `simulate_transfers`.

    Raises:
        GavotteError: for a slack below 0, and as `simulate_transfers`.
    """
    if not 0 <= slack < np.inf:
        raise GavotteError(f"the slack {slack} is out of range", hint="use 0 or more, such as 1")
    try:
        alone_s = trace.core.bounds_s(_over(trace, port_bps, network))
    except ValueError as error:
        raise GavotteError(str(error)) from None
    random = np.random.default_rng(seed).uniform(0, slack, len(alone_s))
    return Trace(trace.core.due(np.maximum(alone_s * (1 + random), DEADLINE_S)), trace.path)


def write_completions(path: str | Path, done: TransferSimulation) -> None:
    """Write `coflow,finish_s,completion_s`, whole or not at all. Both are empty for a coflow that was refused.

    Args:
        path: the CSV file.
        done: the simulation.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["coflow", "finish_s", "completion_s"])
    rows = zip(done.names, done.finish_s.tolist(), done.completion_s.tolist(), strict=True)
    writer.writerows((name, *("" if math.isnan(each) else each for each in times)) for name, *times in rows)
    write_bytes(path, text.getvalue().encode())


def _over(trace: Trace, port_bps: float | None, network: Network | None) -> float | tuple[_core.Network, list[int]]:
    if network is None:
        return PORT_BPS if port_bps is None else float(port_bps)
    if port_bps is not None:
        raise GavotteError("a port rate and a Network exclude each other", hint="give one of them")
    at = {name: index for index, name in enumerate(network.names)}
    missing = next((port for port in trace.ports if port not in at), None)
    if missing is not None:
        where = f"{trace.path}: " if trace.path else ""
        raise GavotteError(f"{where}port `{missing}` is not a host of the Network", hint="name ports after its hosts")
    places = [at[port] for port in trace.ports]
    network.check_pairs(product(places, places))
    return _core.Network(network.cautious()), places


def _nothing(_done: int, _all: int) -> None:
    pass
