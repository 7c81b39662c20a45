"""Replay one collective operation of an MPI library on a Network, by its own or another algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as
from gavotte.simulate.jobs import MessageCosts, replay_platform
from gavotte.terms.algorithms import Setting


class CollectiveReplay:
    """Ranks on the hosts of a Network that carry out one collective operation at a time.

    Args:
        network: the hosts. Pairs of unknown rate count as `Network.cautious` says.
        hosts: (R,) host of each rank.
        costs: the MPI library, and costs of messages in addition to the Network's.

    Raises:
        GavotteError: when a host is unknown.
    """

    def __init__(self, network: Network, hosts: Sequence[str], costs: MessageCosts) -> None:
        at = {name: index for index, name in enumerate(network.names)}
        places = [at.get(known_as(name, at)) for name in hosts]
        if None in places:
            raise GavotteError(f"the network has no host `{hosts[places.index(None)]}`", hint="measure it")
        self.hosts = [place for place in places if place is not None]
        network.check_pairs((m, n) for m in set(self.hosts) for n in set(self.hosts))
        self._costs = costs
        self._cap_bps, self._platform = replay_platform(network)
        self._programs: dict[tuple[str, int, int], _core.JobProgram] = {}

    def seconds(self, operation: str, size_bytes: int, root: int, setting: Setting | None) -> float:
        """Return the time until the last rank is done, if all begin at the same time.

        Args:
            operation: as MPI calls it: `bcast`.
            size_bytes: bytes of the vector, or of one rank's block.
            root: the root's rank; ignored by operations without a root.
            setting: the algorithm; None = the library's own choice.

        Raises:
            GavotteError: for an unknown operation.
        """
        settings = () if setting is None else (setting,)
        try:
            program = self._program(operation, size_bytes, root)
            done = program.replay(
                self._platform,
                self.hosts,
                replace(self._costs, settings=settings),
                seeds=[None],
                cap_bps=self._cap_bps,
            )
        except ValueError as error:
            raise GavotteError(str(error), hint="use an operation and a root of MPI") from None
        return done[0].makespan_s

    def _program(self, operation: str, size_bytes: int, root: int) -> _core.JobProgram:
        """Return the operation as a job of its own."""
        key = (operation, size_bytes, root)
        if key not in self._programs:
            ranks = len(self.hosts)
            empty: list[int] = []
            call = ("collective", operation, 0, root, size_bytes, empty, empty, empty, None)
            self._programs[key] = _core.JobProgram([[call]] * ranks, [list(range(ranks))])
        return self._programs[key]
