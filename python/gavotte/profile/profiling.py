"""From traffic to an App: the one place where counts of any source become transfers between tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.formats.app import FORMAT, App
from gavotte.formats.files.reading import validate
from gavotte.formats.parts.rates import format_bytes
from gavotte.profile.gathering import Request
from gavotte.profile.series import by_phase
from gavotte.profile.sources import SOURCES
from gavotte.profile.traffic import Traffic

NOISE_SHARE = 0.001
"""Pairs below this share of the largest pair are left out unless the caller says otherwise: launchers, ssh, names. A
placement's completion time hangs on its fullest link, which a thousandth of the largest transfer does not move."""

LITTLE_BYTES = 100_000
"""Below this many bytes between its tasks, an application finishes as soon on any hosts: 0.01 s at 100 Mbit/s."""


@dataclass(frozen=True)
class Profile:
    """An application as its traffic shows it.

    Attributes:
        app: tasks and transfers.
        traffic: what it was made from.
        min_bytes: the smallest transfer kept.
        dropped_pairs: pairs with fewer bytes.
        dropped_bytes: their payload.
    """

    app: App
    traffic: Traffic
    min_bytes: int
    dropped_pairs: int
    dropped_bytes: int

    @property
    def report(self) -> dict[str, int | float | bool]:
        """What the source counted, and what became of it, ready for JSON; `bytes` are those between different tasks."""
        counts = self.traffic.counts
        local_bytes = sum(count.bytes for (source, target), count in counts.items() if source == target)
        return {
            **self.traffic.seen,
            "bytes": self.traffic.attributed_bytes - local_bytes,
            "local_bytes": local_bytes,
            "foreign_bytes": self.traffic.unattributed_bytes,
            "dropped_pairs": self.dropped_pairs,
            "dropped_bytes": self.dropped_bytes,
            "min_bytes": self.min_bytes,
        }

    @property
    def warnings(self) -> list[str]:
        """Why the App may not suit a placement, one line each: too few bytes, as after a capture at the wrong time."""
        size_bytes, others_bytes = self.app.total_bytes, self.traffic.unattributed_bytes
        if size_bytes >= LITTLE_BYTES:
            return []
        others = f"; {format_bytes(others_bytes)} belong to other traffic; check that all tasks are named"
        why = others if others_bytes > size_bytes else ""
        return [f"only {format_bytes(size_bytes)} between tasks, too little for a placement{why}"]


def profile(
    source: str,
    inputs: str | Path | Sequence[str | Path] = (),
    tasks: Mapping[str, str] | None = None,
    *,
    name: str,
    cpus: float = 1.0,
    memory_bytes: int = 0,
    min_bytes: int | None = None,
    every_s: float | None = None,
) -> Profile:
    """Finds out who sends how many bytes to whom (Choreo, section 2.1), and writes it as an App.

    Args:
        source: one of `SOURCES`, as `pcap`.
        inputs: what it reads: captures, a report.
        tasks: what the source calls a task (an address, a rank) to the task's name, in the order of the tasks; see
            `read_tasks`. Every task of it is in the App, also without traffic; what is not named is unattributed. None
            makes a task of each that sends or receives.
        name: the application's name.
        cpus: cores each task needs.
        memory_bytes: memory each task needs.
        min_bytes: leaves out transfers of fewer bytes; 0 keeps all, None leaves out those below `NOISE_SHARE` of the
            largest one.
        every_s: makes the Traffic a series, with a span for each interval of this many seconds since the epoch.

    Returns:
        The App, its transfers in the order of its tasks, and the Traffic that it was made from.

    Raises:
        FormatError: when an input is not what the source reads, is damaged, or holds no payload between tasks.
        GavotteError: when the names make no sense, or no transfer has `min_bytes`.
    """
    paths = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    traffic = read_traffic(source, Request(paths, tasks, every_s))
    return app_of(traffic, name=name, cpus=cpus, memory_bytes=memory_bytes, min_bytes=min_bytes)


def read_traffic(source: str, request: Request) -> Traffic:
    """Read, receive, capture or watch what an application sends.

    Args:
        source: one of `SOURCES`, as `pcap`.
        request: what to read or to watch, and for how long.

    Raises:
        FormatError: when an input is not what the source reads, is damaged, or holds no payload between tasks.
        GavotteError: when the source cannot do what the request asks for.
    """
    if source not in SOURCES:
        raise GavotteError(f"`{source}` is not a source of traffic", hint=f"use one of {', '.join(SOURCES)}")
    reader = SOURCES[source]
    live = request.listen is not None or request.interface is not None or reader.watches
    if not request.inputs and not live:
        other = ", or where to listen" if reader.listens else ", or an interface" if reader.captures else ""
        hint = f"name at least one file{other}"
        raise GavotteError(f"nothing to read by {source}", hint=hint)
    if request.every_s is not None and not (0 < request.every_s < math.inf):
        raise GavotteError(
            f"an interval of {request.every_s} s makes no series", hint="use a positive number of seconds"
        )
    for given, takes, what in (
        (request.every_s, reader.timed, "times"),
        (request.listen, reader.listens, "exports to listen for"),
        (request.hosts, reader.watches, "hosts to watch"),
        (request.interface, reader.captures, "packets to capture"),
    ):
        if given is not None and not takes:
            raise GavotteError(f"{source} has no {what}", hint="leave that option out")
    return reader.read(request)


def app_of(
    traffic: Traffic, *, name: str, cpus: float = 1.0, memory_bytes: int = 0, min_bytes: int | None = None
) -> Profile:
    """Makes an App of Traffic, with the phases of a series. Arguments and errors are those of `profile`."""
    pairs = {pair: count.bytes for pair, count in traffic.counts.items() if pair[0] != pair[1]}
    largest = max(pairs.values(), default=0)
    least = max(math.ceil(largest * NOISE_SHARE) if min_bytes is None else min_bytes, 0)
    where = traffic.inputs[0]
    if least > largest:
        raise GavotteError(
            f"{where}: no transfer has {least} bytes or more", hint=f"lower min_bytes to {largest} or less"
        )
    kept = {pair: size for pair, size in pairs.items() if size >= max(least, 1)}
    busy = {task for pair in kept for task in pair} or set(traffic.tasks)
    content = {
        "format": FORMAT,
        "name": name,
        "task": [
            {"name": task, "cpus": cpus, "memory_bytes": memory_bytes}
            for task in traffic.tasks
            if traffic.complete or task in busy
        ],
        "transfer": [
            {"source": pair[0], "target": pair[1], "bytes": sums[pair].bytes, "phase": number}
            for number, sums in enumerate(by_phase(traffic) if len(traffic.spans) > 1 else [traffic.counts])
            for pair in kept
            if pair in sums and sums[pair].bytes
        ],
    }
    return Profile(
        app=validate(App, content, where),
        traffic=traffic,
        min_bytes=least,
        dropped_pairs=len(pairs) - len(kept),
        dropped_bytes=sum(pairs.values()) - sum(kept.values()),
    )
