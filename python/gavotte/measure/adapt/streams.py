"""Paths that are measured by bulk TCP in a measurement by trains: UDP does not pass there, or no train found a rate."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Answer, Schedule
from gavotte.measure.adapt.results import Results
from gavotte.measure.plan.methods.bulk import bulk
from gavotte.measure.plan.methods.method import Method, Reading
from gavotte.terms import Pair

TCP_MAY_PASS = frozenset({pb.FAILURE_NO_RATE, pb.FAILURE_LATE, pb.FAILURE_RECEIVER, pb.FAILURE_BROKEN})
"""Failures of trains that leave open whether TCP reaches the peer. Others mean a lost host, a limit or a refusal."""

LEAST_FALLBACK_BYTES = 500_000
"""With fewer bytes left on a path, TCP would measure its own start: 345 segments, 5 round trips of slow start."""


class Streams:
    """Paths of one measurement on which TCP replaces trains.

    Attributes:
        method: bulk TCP that sends at most as many bytes as a train.
        blocked: pairs on which no packet of a train arrived, though TCP did.
        refused: pairs on which trains found no rate, while TCP measures them.
    """

    def __init__(self, method: Method) -> None:
        """Start without any path on which TCP replaces trains.

        Args:
            method: the method of the other paths.
        """
        self.method = bulk(max_bytes=method.bytes_per_path)
        self.blocked: set[Pair] = set()
        self.refused: set[Pair] = set()
        self._trains = method.by_udp
        self._fallback = self.method
        self._waiting: set[Pair] = set()

    def take(self, pair: Pair, answer: Answer) -> bool:
        """Note an answer. Return whether it only shows that the pair needs TCP."""
        if answer.failure != pb.FAILURE_NO_UDP:
            return False
        self.blocked.add(pair)
        self._waiting.add(pair)
        return True

    def waiting(self, rounds: list[list[Pair]]) -> list[list[Pair]]:
        """Return the pairs of some rounds that were found to need TCP since the last call, in the same rounds."""
        left = [[pair for pair in pairs if pair in self._waiting] for pairs in rounds]
        self._waiting.clear()
        return [pairs for pairs in left if pairs]

    def carries(self, pair: Pair) -> bool:
        """Return whether TCP replaces the trains of a pair now."""
        return pair in self.blocked or pair in self.refused

    def lacking(self, results: Results, snapshot: int, hosts: Collection[int]) -> list[Pair]:
        """Return the pairs of some hosts on which trains of one snapshot found no rate, though TCP may."""
        return [
            (i, j)
            for (number, i, j), path in sorted(results.paths.items())
            if self._trains
            and number == snapshot
            and path.reading.failure in TCP_MAY_PASS
            and (i, j) not in self.blocked
            and i in hosts
            and j in hosts
        ]

    @contextmanager
    def falling_back(self, pairs: Collection[Pair], size: int) -> Iterator[None]:
        """Have TCP measure some pairs, with this many bytes each. Later probes of these pairs are trains again."""
        self.refused, self._fallback = set(pairs), bulk(max_bytes=size)
        try:
            yield
        finally:
            self.refused = set()

    def instead(self, schedule: Schedule, index: dict[str, int]) -> Schedule:
        """Return a schedule in which TCP replaces the trains of blocked pairs, and of those without a rate.

        Args:
            schedule: a schedule of trains.
            index: index of each host.
        """

        def probe(pair: Pair, usual: pb.Probe) -> pb.Probe:
            if pair in self.refused:
                return self._fallback.probe
            return self.method.probe if pair in self.blocked else usual

        return [
            [step._replace(probe=probe((index[step.source], index[step.target]), step.probe)) for step in steps]
            for steps in schedule
        ]

    def read(self, pair: Pair, reply: pb.ProbeReply) -> Reading | None:
        """Return what TCP carried in place of a train; None for other pairs."""
        if not self.carries(pair) or not reply.HasField("bulk"):
            return None
        return replace(self.method.read(reply), by_tcp="refused" if pair in self.refused else "udp-blocked")
