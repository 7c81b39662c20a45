"""Paths that are measured by bulk TCP in a measurement by trains, because UDP does not pass there."""

from __future__ import annotations

from dataclasses import replace

from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Answer, Schedule
from gavotte.measure.methods import Method, Reading, bulk
from gavotte.terms import Pair


class Streams:
    """Paths of one measurement on which TCP replaces trains.

    Attributes:
        method: bulk TCP that sends at most as many bytes as a train.
        blocked: pairs on which no packet of a train arrived, though TCP did.
    """

    def __init__(self, method: Method) -> None:
        """Start with no such path.

        Args:
            method: the method of the other paths.
        """
        self.method = bulk(max_bytes=method.bytes_per_path)
        self.blocked: set[Pair] = set()
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

    def instead(self, schedule: Schedule, index: dict[str, int]) -> Schedule:
        """Return a schedule in which the blocked pairs send TCP.

        Args:
            schedule: a schedule of trains.
            index: index of each host.
        """
        if not self.blocked:
            return schedule
        return [
            [
                step._replace(probe=self.method.probe)
                if (index[step.source], index[step.target]) in self.blocked
                else step
                for step in steps
            ]
            for steps in schedule
        ]

    def read(self, pair: Pair, reply: pb.ProbeReply) -> Reading | None:
        """Return what TCP carried on a blocked pair; None for other pairs."""
        if pair not in self.blocked or not reply.HasField("bulk"):
            return None
        return replace(self.method.read(reply), by_tcp="udp-blocked")
