"""Recognize probes during which a host kept its agent from running, so that they show the host and not the path.

1. A proven rate stays: its packets waited in a queue whenever they count. A train of an agent with a twentieth of a
   processor measures 200 Mbit/s within 2 %, as tests/lab/test_quota.py checks.
2. Steal spoils a proven rate, too: packets wait for the receiver's processor as they would in a queue.
3. Any other rate is a lower bound. The probe is repeated, after a pause in which the quota becomes full again.
4. An average, as of bulk TCP, is lower by up to the share of time that was withheld.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gavotte.agents import agent_pb2 as pb
from gavotte.measure.plan.methods.method import RateVerdict, Reading

MOST_SHARE = 0.1
"""A probe is no evidence if a processor was withheld for a larger share of its time."""

MOST_AVERAGED = 0.02
"""The same for a quota and a rate that is an average. At 0.05, bulk TCP read 187 of 192 Mbit/s."""

MOST_TICKS_S = 0.015
"""Steal is counted in ticks of 10 ms. A single one may be mostly the agent's own time."""

REPEATS = 2
"""Number of times that a probe without evidence is repeated."""

FRESH_S = 0.12
"""Pause before a repeated train: a quota becomes full again every 0.1 s, unless the administrator changes that."""

HOST_MARK = "!"
"""Mark after rates that may be higher, because a host kept its agent from running."""

Cause = Literal["throttled", "stolen"]


@dataclass(frozen=True)
class Gap:
    """Time in which a host kept its agent from running.

    Attributes:
        host: the host's name.
        cause: `throttled` by the quota of a cgroup, or `stolen` by the hypervisor.
        seconds: how long.
        of_s: duration of the probe.
        quota_cpus: quota in processors; 0 = none.
    """

    host: str
    cause: Cause
    seconds: float
    of_s: float
    quota_cpus: float = 0.0

    @property
    def share(self) -> float:
        """Share of the probe's time, 0 to 1."""
        return self.seconds / self.of_s

    def __str__(self) -> str:
        lasted = f"for {1e3 * self.seconds:.0f} ms of {1e3 * self.of_s:.0f} ms"
        if self.cause == "throttled":
            return f"{self.host} was throttled by its cgroup's quota {lasted} ({self.quota_cpus:g} of a processor)"
        return f"the hypervisor took a processor from {self.host} {lasted}"


def find_gap(source: str, target: str, reply: pb.ProbeReply, verdict: RateVerdict) -> Gap | None:
    """Return the largest gap that keeps a probe from being evidence of its path; None = there is none.

    Args:
        source: host that sent.
        target: host that received.
        reply: the agent's reply.
        verdict: meaning of the probe's rate.
    """
    gaps: list[Gap] = []
    averaged = MOST_AVERAGED if verdict == "unproven" else MOST_SHARE
    for host, withheld in ((source, reply.sender_withheld), (target, reply.receiver_withheld)):
        if withheld.throttled_s > averaged * withheld.seconds and verdict != "path-limited":
            gaps.append(Gap(host, "throttled", withheld.throttled_s, withheld.seconds, withheld.quota_cpus))
        if withheld.stolen_s > max(MOST_SHARE * withheld.seconds, MOST_TICKS_S):
            gaps.append(Gap(host, "stolen", withheld.stolen_s, withheld.seconds))
    return max(gaps, key=lambda gap: gap.share, default=None)


def limited_by_host(reading: Reading, gap: Gap) -> Reading:
    """Return a reading as a lower bound, or a refusal with the gap as a further reason."""
    if reading.refusal:
        no_rate = reading.failure == pb.FAILURE_NO_RATE
        return replace(reading, refusal=f"{reading.refusal}; {gap}") if no_rate else reading
    return replace(reading, verdict="host-limited", low_bps=reading.goodput_bps, high_bps=math.inf)


def withheld_s(reply: pb.ProbeReply) -> float:
    """Return for how long a probe may have had to wait for its hosts' processors, in seconds."""
    return sum(max(each.throttled_s, each.stolen_s) for each in (reply.sender_withheld, reply.receiver_withheld))


def waited_share(withheld: pb.Withheld) -> float:
    """Return the share of a probe's time in which a thread of the agent was ready but had no core; NaN = unknown."""
    return withheld.waited_s / withheld.seconds if withheld.seconds > 0 else math.nan


def gaps_of_hosts(gaps: Mapping[tuple[str, str], Gap]) -> dict[str, list[tuple[str, str]]]:
    """Return the paths of each host that was kept from running, those of the host with the largest gap first.

    Args:
        gaps: gaps by (source, target).
    """
    paths: dict[str, list[tuple[str, str]]] = {}
    for path in sorted(gaps, key=lambda path: -gaps[path].share):
        paths.setdefault(gaps[path].host, []).append(path)
    return paths
