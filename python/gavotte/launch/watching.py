"""Count what the ranks of a run send each other by the sockets of their processes, which the hosts' agents watch.

This needs no MPI. A task of the App is a host of the job: what its ranks send to ranks of another host.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.inventory import Inventory
from gavotte.profile import Request, Traffic, app_of, read_traffic

READY_S = 60.0
"""Longest time until all agents watch, in seconds."""
WATCH_S = 3000.0
"""Longest watch, in seconds. By default, agents hold no run for more than an hour."""
COLLECT_S = 60.0
"""Longest time for the last reports of all agents, in seconds."""
MOST_RANKS = 64
"""Most ranks on a host whose own hardware decides how many."""
MOST_NAMES = 1 << 20


def names_of_ranks(hosts: Sequence[str], per_host: int | None) -> dict[str, str]:
    """Return the task of each rank on each host, as `gavotte profile live` takes them: `HOST/rank:NUMBER`.

    Args:
        hosts: host of each task.
        per_host: number of ranks on each host; None = unknown, so that any rank may be on any host.

    Raises:
        GavotteError: when there are too many.
    """
    if per_host is not None:
        ranks = [range(node * per_host, (node + 1) * per_host) for node in range(len(hosts))]
    else:
        ranks = [range(len(hosts) * MOST_RANKS)] * len(hosts)
    if sum(map(len, ranks)) > MOST_NAMES:
        raise GavotteError("too many ranks to watch", hint="give their number on each host as a number")
    return {f"{host}/rank:{rank}": f"host{node}" for node, host in enumerate(hosts) for rank in ranks[node]}


class SocketCounts:
    """The sockets of a job's ranks, watched in another thread."""

    def __init__(self, inventory: Inventory, tasks: dict[str, str]) -> None:
        self._ready, self._over = threading.Event(), threading.Event()
        self._traffic: Traffic | None = None
        self._error: BaseException | None = None
        self._request = Request(
            [],
            tasks,
            for_s=WATCH_S,
            hosts=inventory,
            ready=lambda _: self._ready.set(),
            ended=self._over.is_set,
        )
        self._thread = threading.Thread(target=self._watch, daemon=True, name="count")

    def begin(self) -> None:
        """Watch from now on.

        Raises:
            GavotteError: when the hosts cannot be watched.
        """
        self._thread.start()
        if not self._ready.wait(READY_S) and self._thread.is_alive():
            raise GavotteError(f"the agents do not watch their sockets within {READY_S:.0f} s")
        self._check()

    def end(self) -> None:
        """Stop watching. Returns at once."""
        self._over.set()

    def collect(self, name: str) -> tuple[App, Sequence[str]]:
        """Return the App of what was counted, and what may be wrong with the counts.

        Raises:
            GavotteError: when a host could not be watched, or its ranks sent nothing.
        """
        partial = not self._thread.is_alive()
        self.end()
        self._thread.join(COLLECT_S)
        self._check()
        if self._traffic is None:
            raise GavotteError(f"the agents sent no counts within {COLLECT_S:.0f} s")
        made = app_of(self._traffic, name=name)
        doubts = [f"messages were counted for the first {WATCH_S / 60:.0f} min only"] if partial else []
        return made.app, [*doubts, *self._traffic.warnings]

    def _watch(self) -> None:
        try:
            self._traffic = read_traffic("live", self._request)
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    def _check(self) -> None:
        if isinstance(self._error, GavotteError):
            raise self._error
        if self._error is not None:
            raise GavotteError(f"the sockets cannot be watched: {self._error}") from self._error


@contextmanager
def watching(inventory: Inventory, tasks: dict[str, str]) -> Iterator[SocketCounts]:
    """Watch the sockets of a job's ranks until the block ends.

    Raises:
        GavotteError: when the hosts cannot be watched.
    """
    counts = SocketCounts(inventory, tasks)
    try:
        counts.begin()
        yield counts
    finally:
        counts.end()
