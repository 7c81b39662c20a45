"""Measure some pairs of an inventory whose hosts come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from gavotte.agents import reaching, resolve_hosts
from gavotte.errors import BusyError, GavotteError
from gavotte.measure import METHODS, MeasureQuestion, MeasureSession, carry_out, plan_measurement
from gavotte.model import transfer_times
from gavotte.watch.detect import Edge

if TYPE_CHECKING:
    from gavotte.agents import Reach
    from gavotte.formats.inventory import Inventory


class Probe:
    """Repeated measurement of pairs of an inventory, which may change between two calls.

    Connections to the agents stay open from one call to the next while all agents answer: over SSH, opening them takes
    longer than measuring. The agents are held only during a call, so that other runs can use them in between.
    """

    def __init__(
        self, source: str, method: str, known: Collection[str], complain: Callable[[str], None], *, seed: int = 0
    ) -> None:
        """Read the inventory; connect to no agent yet.

        Args:
            source: inventory of the hosts, as `agents.resolve_hosts` takes it.
            method: one of `measure.METHODS`.
            known: hosts of the Network; others are reported and left out.
            complain: called with a line about each problem.
            seed: seed of every random choice.

        Raises:
            GavotteError: when there is no such method, or the inventory cannot be read.
        """
        if method not in METHODS:
            raise GavotteError(f"unknown method `{method}`", hint=f"use one of {', '.join(METHODS)}")
        self._source = source
        self._method = method
        self._seed = seed
        self._known = set(known)
        self._complain = complain
        self._reported: set[str] = set()
        self._inventory = resolve_hosts(source)
        self._roads = ExitStack()
        self._reach: tuple[Inventory, Reach] | None = None

    def close(self) -> None:
        """Close the connections to the agents; the next measurement opens them again."""
        self._reach = None
        self._roads.close()

    def _open(self) -> Reach:
        if self._reach is None or self._reach[0] != self._inventory:
            self.close()
            self._reach = (self._inventory, self._roads.enter_context(reaching(self._inventory)))
        return self._reach[1]

    def hosts(self) -> list[str]:
        """Read the inventory again, and return its hosts that are in the Network. If unreadable, keep the last one."""
        try:
            self._inventory = resolve_hosts(self._source)
        except GavotteError as error:
            self._complain(str(error))
        listed = set(self._inventory.names)
        if new := sorted(listed - self._known - self._reported):
            self._complain(f"not in the Network: {', '.join(new)}; measure and model again to use them")
            self._reported |= set(new)
        return sorted(listed & self._known)

    def measure(self, pairs: Collection[Edge]) -> Mapping[Edge, float]:
        """Measure the seconds of one transfer on each pair; pairs that do not answer are left out.

        Raises:
            BusyError: when another run holds the agents. Their hosts may be reachable all the same.
        """
        listed = set(self._inventory.names)
        asked = [(source, target) for source, target in pairs if source in listed and target in listed]
        if not asked:
            return {}
        self._seed += 1
        try:
            question = MeasureQuestion(self._inventory, self._method, seed=self._seed, again=False, pairs=asked)
            measured = carry_out(plan_measurement(question), MeasureSession(reach=self._open()))
        except BusyError:
            raise
        except GavotteError as error:  # no agent is reachable at present
            self.close()
            self._complain(str(error))
            return {}
        if measured.missing or measured.lost:
            self.close()
        history = measured.history
        times = transfer_times(history)[0]
        at = {name: number for number, name in enumerate(history.hosts)}
        took = {(s, t): float(times[at[s], at[t]]) for s, t in asked}
        return {edge: seconds for edge, seconds in took.items() if np.isfinite(seconds)}
