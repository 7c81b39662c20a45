"""What a measurement will do and cost, known before the first packet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gavotte.agents import agent_pb2 as pb
from gavotte.errors import GavotteError
from gavotte.formats.rates import format_bytes
from gavotte.measure.methods import Method
from gavotte.measure.rounds import Links, Pair, apart, directed_rounds, packed

WAIT_S = 10.0
"""How long an agent waits for a peer that has not reached the round: many slow rounds."""


@dataclass(frozen=True)
class Cost:
    """What a measurement costs.

    Attributes:
        bytes: payload bytes that all hosts typically send together.
        max_bytes: what they send at most; agents refuse more.
        seconds: typical wall time.
        money: of the typical bytes at the given price; 0 without one.
    """

    bytes: int
    max_bytes: int
    seconds: float
    money: float


@dataclass(frozen=True)
class Limits:
    """What a measurement may cost. None = no limit.

    Attributes:
        bytes: payload bytes of all hosts. Each agent enforces its share.
        seconds: wall time.
        money: in the currency of the price.
        price_per_gb: of 10^9 bytes that cross the network.
    """

    bytes: int | None = None
    seconds: float | None = None
    money: float | None = None
    price_per_gb: float = 0.0

    def check(self, cost: Cost) -> None:
        """Refuses what costs more.

        Raises:
            GavotteError: naming the first limit that is too small.
        """
        if self.bytes is not None and cost.bytes > self.bytes:
            raise _over(f"about {format_bytes(cost.bytes)}", format_bytes(self.bytes))
        if self.seconds is not None and cost.seconds > self.seconds:
            raise _over(f"about {cost.seconds:.1f} s", f"{self.seconds:g} s")
        if self.money is not None and cost.money > self.money:
            raise _over(f"about {cost.money:.2f} in money", f"{self.money:g}")


def _over(cost: str, budget: str) -> GavotteError:
    return GavotteError(
        f"the measurement takes {cost}, the budget is {budget}",
        hint="raise the budget, or measure fewer hosts or snapshots",
    )


@dataclass(frozen=True)
class Plan:
    """One snapshot, or the rest of one.

    Attributes:
        names: hosts in matrix order.
        method: how each path is measured.
        rounds: (source, target) indices that are probed at the same time.
    """

    names: tuple[str, ...]
    method: Method
    rounds: tuple[tuple[Pair, ...], ...] = field(default=())

    @property
    def paths(self) -> int:
        """Directed pairs probed."""
        return sum(len(pairs) for pairs in self.rounds)

    @property
    def bytes_per_host(self) -> int:
        """Most payload bytes that one host sends in this snapshot."""
        return (len(self.names) - 1) * self.method.bytes_per_path

    def cost(self, *, snapshots: int = 1, every_s: float = 0.0, price_per_gb: float = 0.0) -> Cost:
        """What it costs to carry out, `snapshots` times."""
        size = self.paths * self.method.typical_bytes_per_path * snapshots
        most = self.paths * self.method.bytes_per_path * snapshots
        once_s = len(self.rounds) * self.method.seconds_per_round
        seconds = max(snapshots * once_s, (snapshots - 1) * every_s + once_s)
        return Cost(bytes=size, max_bytes=most, seconds=seconds, money=size / 1e9 * price_per_gb)

    @property
    def deadline_s(self) -> float:
        """When it is given up: every round may wait its full time for a dead peer."""
        return 5.0 + len(self.rounds) * (WAIT_S + 4 * self.method.seconds_per_round)

    def requests(self, run_id: str) -> dict[str, pb.MeasureRequest]:
        """The whole part of the schedule of each host that has one."""
        parts: dict[str, pb.MeasureRequest] = {}

        def part(host: int) -> pb.MeasureRequest:
            empty = pb.MeasureRequest(run_id=run_id, wait_s=WAIT_S, rounds=len(self.rounds))
            return parts.setdefault(self.names[host], empty)

        for number, pairs in enumerate(self.rounds):
            for source, target in pairs:
                probe = self.method.probe()
                probe.round = number
                probe.peer = self.names[target]
                part(source).probes.append(probe)
                part(target).receives.append(pb.Expect(round=number, peer=self.names[source]))
        return parts


def plan(names: tuple[str, ...], method: Method, *, seed: int, links: Links | None = None) -> Plan:
    """Plans one snapshot of all directed pairs.

    Args:
        names: hosts in matrix order.
        method: how each path is measured.
        seed: of the order of rounds.
        links: known shared links; two probes never meet on one.
    """
    rounds = directed_rounds(len(names), seed=seed, duplex=method.duplex)
    return Plan(names, method, tuple(tuple(pairs) for pairs in apart(rounds, links or {})))


def plan_some(
    names: tuple[str, ...], method: Method, pairs: Iterable[Pair], *, links: Links | None = None, alone: bool = False
) -> Plan:
    """Plans some pairs only: the rest of an interrupted snapshot, or pairs that are measured again (`alone`)."""
    return Plan(names, method, tuple(tuple(each) for each in packed(pairs, links or {}, alone=alone)))
