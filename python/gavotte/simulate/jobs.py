"""Replay the trace of an MPI job on a Network: how long the job takes under any order of hosts, and on what.

1. Ranks compute as in the traced run. Computing that varied is drawn again: several seeded draws give an interval.
2. Messages take the Network's latency and their share of its links, and the MPI library's protocol.
3. Collectives become the messages that the library would send.

The model and its limits are in docs/concepts/replay.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as
from gavotte.simulate.latencies import steady_latencies
from gavotte.simulate.operations import program_of
from gavotte.simulate.platform import build_platform
from gavotte.terms.algorithms import Setting
from gavotte.terms.credit import has_credit
from gavotte.terms.loss import with_loss

if TYPE_CHECKING:
    from gavotte.formats.trace import MpiTrace

DRAWS = 8
"""Default number of draws of the computing times."""
_T_95 = 1.96
"""Standard deviations on each side of a 95 % interval."""


@dataclass(frozen=True)
class MessageCosts:
    """Costs of messages in addition to the Network's: those of an MPI library over TCP, on servers of today.

    Attributes:
        library: the MPI library, which decides the algorithms of collectives.
        eager_bytes: largest message that is sent without waiting for the receiver.
        socket_bytes: bytes that a sender's socket takes ahead of the wire, and that move on while it computes.
        overhead_s: processor time of a message at each end.
        byte_overhead_s: processor time of each byte at each end.
        combine_s: time for combining one byte of a reduction.
        local_latency_s: latency between two ranks of one host.
        local_bps: rate between two ranks of one host.
        most_events: most events of one draw, and of all draws of a prediction together.
        settings: algorithms of collectives that are set in place of the library's own choices.
    """

    library: Literal["openmpi", "mpich"] = "openmpi"
    eager_bytes: int = 65_536
    socket_bytes: int = 262_144
    overhead_s: float = 4e-6
    byte_overhead_s: float = 0.0
    combine_s: float = 0.25e-9
    local_latency_s: float = 5e-6
    local_bps: float = 2e10
    most_events: int = 100_000_000
    settings: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class JobTime:
    """Predicted time of a job from the end of MPI_Init to MPI_Finalize, in seconds.

    Attributes:
        predicted_s: mean of all draws.
        low_s: lower end of the 95 % interval of one run.
        high_s: upper end.
        compute_s: computing on the critical path.
        overhead_s: the MPI library's work on it.
        latency_s: latencies on it.
        transfer_s: bytes on the wire on it. The four add up to `predicted_s`.
        waiting: share of all ranks' time that they wait for others or for the Network, 0 to 1.
        extrapolated: share of the time that was extrapolated from loops in a steady state, 0 to 1.
        events: number of events of all draws.
        seed: seed of the first draw.
    """

    predicted_s: float
    low_s: float
    high_s: float
    compute_s: float
    overhead_s: float
    latency_s: float
    transfer_s: float
    waiting: float
    extrapolated: float
    events: int
    seed: int


class JobReplay:
    """A traced job on a Network, to be replayed under any order of hosts.

    Args:
        network: the hosts. Pairs of unknown rate count as `Network.cautious` says, and latencies as `steady_latencies`.
        trace: the job's trace, one section for each rank.
        costs: costs of messages in addition to the Network's.
        seed: seed of the computing times.

    Raises:
        GavotteError: when the trace contradicts itself.
    """

    def __init__(self, network: Network, trace: MpiTrace, costs: MessageCosts | None = None, seed: int = 0) -> None:
        self._network, self._costs, self.seed = network, costs or MessageCosts(), seed
        self.ranks = len(trace.ranks)
        self.warnings = list(trace.warnings)
        if any(has_credit(host) for host in network.hosts):
            self.warnings.append("the replay knows no credits: hosts send at their lasting rate")
        self._at = {name: index for index, name in enumerate(network.names)}
        self._program = program_of(trace)
        self._cap_bps, self._platform = replay_platform(steady_latencies(network))

    def with_settings(self, settings: Sequence[Setting]) -> JobReplay:
        """Return the same job, with algorithms of collectives that are set in place of the library's own choices."""
        other = copy(self)
        other._costs = replace(self._costs, settings=tuple(settings))
        other.__dict__.pop("least_s", None)
        return other

    def seconds(self, hosts: Sequence[str]) -> float:
        """Return the time of the job with mean computing times.

        Args:
            hosts: (R,) host of each rank.

        Raises:
            GavotteError: when a host is unknown, or the replay cannot go on.
        """
        return self._replay(hosts, [None])[0].makespan_s

    def predict(self, hosts: Sequence[str], draws: int = DRAWS) -> JobTime:
        """Predict the time of the job from draws of its computing times.

        Args:
            hosts: (R,) host of each rank.
            draws: most draws. Fewer are made where all of them would take more than `MessageCosts.most_events`.

        Raises:
            GavotteError: when a host is unknown, or the replay cannot go on.
        """
        done = self._draw(draws, lambda seeds: self._replay(hosts, seeds))
        draws = len(done)
        times_s = [each.makespan_s for each in done]
        mean_s = fmean(times_s)
        half_s = _T_95 * stdev(times_s) * math.sqrt(1 + 1 / draws) if draws > 1 else 0.0
        parts = [fmean(each.critical_s[part] for each in done) for part in range(4)]
        waited_s = sum(sum(each.wait_s) for each in done)
        total_s = sum(sum(each.finish_s) for each in done)
        return JobTime(
            predicted_s=mean_s,
            low_s=max(mean_s - half_s, 0.0),
            high_s=mean_s + half_s,
            compute_s=parts[0],
            overhead_s=parts[1],
            latency_s=parts[2],
            transfer_s=parts[3],
            waiting=waited_s / total_s if total_s > 0 else 0.0,
            extrapolated=fmean(each.extrapolated_s for each in done) / mean_s if mean_s > 0 else 0.0,
            events=sum(each.events for each in done),
            seed=self.seed,
        )

    @cached_property
    def least_s(self) -> float:
        """Time of the job if messages took no time outside of the processors. No order of hosts is faster.

        Raises:
            GavotteError: when the replay cannot go on.
        """
        done = self._draw(DRAWS, lambda seeds: self._run(None, [0] * self.ranks, seeds))
        return fmean(each.makespan_s for each in done)

    def _draw(
        self, draws: int, replay: Callable[[list[int | None]], list[_core.JobReplayed]]
    ) -> list[_core.JobReplayed]:
        """Return one replay for each draw, as many as `MessageCosts.most_events` allows, at least one."""
        seeds: list[int | None] = [(self.seed + draw) % 2**64 for draw in range(draws)]
        first = replay(seeds[:1])
        affordable = self._costs.most_events // max(first[0].events, 1)
        return first + replay(seeds[1 : max(affordable, 1)])

    def _replay(self, hosts: Sequence[str], seeds: list[int | None]) -> list[_core.JobReplayed]:
        numbers = [self._at.get(known_as(name, self._at)) for name in hosts]
        if None in numbers:
            raise GavotteError(f"the network has no host `{hosts[numbers.index(None)]}`", hint="measure it")
        places = [number for number in numbers if number is not None]
        self._network.check_pairs((m, n) for m in set(places) for n in set(places))
        return self._run(self._platform, places, seeds)

    def _run(
        self, platform: _core.Platform | None, hosts: Sequence[int], seeds: list[int | None]
    ) -> list[_core.JobReplayed]:
        cap_bps = None if platform is None else self._cap_bps
        try:
            return self._program.replay(platform, hosts, self._costs, seeds=seeds, cap_bps=cap_bps)
        except ValueError as error:
            raise GavotteError(str(error), hint="trace the job again") from None


def replay_platform(network: Network) -> tuple[npt.NDArray[np.float64] | None, _core.Platform]:
    """Return the highest rates of one connection if several carry more, and the Network for the replay."""
    network = with_loss(network)
    if not network.several_differ:
        return None, build_platform(network, 1.0, 0)
    shared, size = network.shared(), range(len(network.hosts))
    one_bps = [[(shared.pair_bps(m, n) if m != n else None) or math.inf for n in size] for m in size]
    return np.array(one_bps), build_platform(network.at_several(), 1.0, 0)
