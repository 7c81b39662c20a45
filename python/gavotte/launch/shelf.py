"""The store as a launch uses it: whatever happens to the store, the program runs. Each failure is a warning."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gavotte.errors import FormatError, GavotteError, UnsupportedError
from gavotte.formats.app import App
from gavotte.formats.history import History
from gavotte.formats.record import LAUNCH, WALL_S, Record
from gavotte.formats.trace import MpiTrace, parse_trace
from gavotte.launch.jobs import Job

if TYPE_CHECKING:
    from gavotte.store import Store

MOST_SNAPSHOTS = 10
"""Most snapshots of a series that make a Network."""
WAIT_S = 10.0
"""How long to wait for another writer of the store, in seconds."""

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    """A measurement that the store has.

    Attributes:
        series: name of its series.
        history: its newest snapshots, between the wanted hosts.
        age_s: seconds since the newest snapshot.
    """

    series: str
    history: History
    age_s: float


class Shelf:
    """What a store keeps for launches.

    Args:
        url: the store; None = the user's own.
        complain: called with a warning when the store fails.
        create: whether to make the store if it is missing. Nothing is written otherwise.
    """

    def __init__(self, url: str | None, complain: Callable[[str], None], *, create: bool) -> None:
        self._url, self._complain, self._create = url, complain, create
        self._missing = False

    def measurement(self, hosts: Sequence[str], since_s: float) -> Known | None:
        """Return the newest whole measurement between these hosts; None = none is newer than a Unix time."""
        return self._with(lambda store: _newest(store, hosts, since_s), None)

    def app(self, job: str) -> App | None:
        """Return the App of a job; None = the store has none."""
        stored = self._with(lambda store: store.app(job), None)
        return None if stored is None else stored.app

    def trace(self, job: str) -> MpiTrace | None:
        """Return the trace of the run whose messages the App of a job has; None = the store has none.

        A trace that cannot be read is a warning.
        """
        content = self._with(lambda store: store.trace(job), None)
        try:
            return None if content is None else parse_trace(content, f"trace of job {job}")
        except FormatError as error:
            self._complain(f"this run does without the trace: {error}")
            return None

    def runs(self, job: str | None = None) -> list[Record]:
        """Return the Records of launches, of all jobs or of one, in time order."""
        labels = {} if job is None else {"job": job}
        return self._with(lambda store: store.records(LAUNCH, metric=WALL_S, labels=labels), [])

    def keep_measurement(self, history: History) -> None:
        """Keep a new measurement in a series of its own for these hosts."""
        digest = hashlib.sha256("\n".join(sorted(history.hosts)).encode()).hexdigest()[:8]
        self._write(lambda store: store.add(f"{LAUNCH}-{digest}", history, skip_existing=True))

    def keep_app(self, job: Job, app: App) -> bool:
        """Keep the App of a job. Return whether the store has it."""

        def keep(store: Store) -> None:
            from gavotte.store import StoredApp

            store.keep_app(StoredApp(job.key, app, job.text, time.time()))

        return self._write(keep)

    def keep_trace(self, job: Job, content: bytes) -> bool:
        """Keep the trace of a job's run, as the bytes of a file. Return whether the store has it."""
        return self._write(lambda store: store.keep_trace(job.key, content))

    def keep_run(self, record: Record) -> None:
        """Keep the Record of a run."""
        self._write(lambda store: store.add_records([record]))

    def _write(self, work: Callable[[Store], object]) -> bool:
        """Write to the store, unless nothing is to be written. Return whether that succeeded."""

        def written(store: Store) -> bool:
            work(store)
            return True

        return self._create and self._with(written, False)

    def _with(self, work: Callable[[Store], T], without: T) -> T:
        """Return what a function makes of the store; `without` if the store fails, or is missing and not to be made."""
        if self._missing:
            return without
        try:
            from gavotte.store import StoreError, locate, open_store
        except UnsupportedError as error:
            self._give_up(error)
            return without
        try:
            place = locate(self._url)
            if not self._create and place.kind == "sqlite" and not Path(place.path).exists():
                return without
            with open_store(self._url, create=self._create, wait_s=WAIT_S) as store:
                return work(store)
        except StoreError as error:
            self._give_up(error)
            return without

    def _give_up(self, error: GavotteError) -> None:
        """Warn of a store that cannot be used. One warning is enough, so it is not tried again."""
        self._missing = True
        self._complain(f"this run does without the store: {error}")


def _newest(store: Store, hosts: Sequence[str], since_s: float) -> Known | None:
    """Return the newest snapshots that have a rate for each pair of these hosts."""
    from gavotte.store import Span

    candidates = [each for each in store.series() if each.last_s >= since_s and set(hosts) <= set(each.hosts)]
    for each in sorted(candidates, key=lambda each: -each.last_s):
        span = Span(since_s=since_s, last=MOST_SNAPSHOTS)
        with suppress(GavotteError):
            history = store.load(each.name, span, hosts=hosts)
            if history.answered == len(hosts) * (len(hosts) - 1):
                return Known(each.name, history, max(0.0, time.time() - each.last_s))
    return None
