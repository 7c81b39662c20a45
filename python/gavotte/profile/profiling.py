"""Make an App from the traffic that any source reports. Only this module turns counts into transfers between tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError
from gavotte.formats.app import FORMAT, App
from gavotte.formats.files.reading import validate
from gavotte.formats.parts.rates import format_bytes
from gavotte.profile.attending import attend
from gavotte.profile.gathering import COLLECTIVES, Request
from gavotte.profile.series import by_phase
from gavotte.profile.sources import SOURCES
from gavotte.profile.traffic import Traffic

NOISE_SHARE = 0.001
"""Share of the largest pair's bytes, 0 to 1, below which a pair is dropped by default: launchers, ssh, name lookups. A
placement's completion time depends on its fullest link, which a thousandth of the largest transfer does not change."""

LITTLE_BYTES = 100_000
"""Least bytes between tasks for which a placement matters. Fewer take about 0.01 s at 100 Mbit/s on any hosts."""


@dataclass(frozen=True)
class Profile:
    """Result of profiling an application: its App, and the traffic from which the App was made.

    Attributes:
        app: the application's tasks and transfers.
        traffic: the Traffic from which the App was made.
        min_bytes: fewest bytes of a pair whose transfers were kept.
        dropped_pairs: number of pairs with fewer bytes.
        dropped_bytes: payload of the dropped pairs.
    """

    app: App
    traffic: Traffic
    min_bytes: int
    dropped_pairs: int
    dropped_bytes: int

    @property
    def report(self) -> dict[str, int | float | bool]:
        """Counters of the source and of the App, ready for JSON; `bytes` are those between different tasks."""
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
        """Reasons not to place this App, one line each: too few bytes, as after a capture at the wrong time."""
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
    """Make an App from an application's traffic: the bytes that each task sends to each other (Choreo, section 2.1).

    Args:
        source: name of a source in `SOURCES`, as `pcap`.
        inputs: files for the source, as captures or a report.
        tasks: name of each task by the source's identifier (an address, a rank), in the order of the tasks; see
            `read_tasks`. The App has all these tasks, also those without traffic. Bytes of other ends are unattributed.
            None makes a task of each end that sends or receives.
        name: the application's name.
        cpus: cores each task needs.
        memory_bytes: memory each task needs.
        min_bytes: leaves out transfers of fewer bytes; 0 keeps all, None leaves out those below `NOISE_SHARE` of the
            largest one.
        every_s: makes the Traffic a series, with a span for each interval of this many seconds since the epoch.

    Returns:
        The App, its transfers in the order of its tasks, and the Traffic from which it was made.

    Raises:
        FormatError: when an input is not what the source reads, is damaged, or holds no payload between tasks.
        GavotteError: when `tasks` has an invalid identifier, or no transfer has `min_bytes`.
    """
    paths = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    traffic = read_traffic(source, Request(paths, tasks, every_s))
    return app_of(traffic, name=name, cpus=cpus, memory_bytes=memory_bytes, min_bytes=min_bytes)


def read_traffic(source: str, request: Request) -> Traffic:
    """Return the traffic of an application that a source reads, receives, captures or watches.

    Args:
        source: name of a source in `SOURCES`, as `pcap`.
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
    if request.collectives not in COLLECTIVES:
        raise GavotteError(
            f"`{request.collectives}` is no way to attribute collectives", hint=f"use {' or '.join(COLLECTIVES)}"
        )
    for given, takes, what in (
        (request.every_s, reader.timed, "times"),
        (request.listen, reader.listens, "exports to listen for"),
        (request.hosts, reader.watches, "hosts to watch"),
        (request.interface, reader.captures, "packets to capture"),
        (None if request.collectives == "wire" else request.collectives, reader.counts_calls, "calls of collectives"),
    ):
        if given is not None and not takes:
            raise GavotteError(f"{source} has no {what}", hint="leave that option out")
    if request.waiting is None or live:
        return reader.read(request)
    return attend(lambda: reader.read(request), [str(each) for each in request.inputs], request.waiting)


def app_of(
    traffic: Traffic, *, name: str, cpus: float = 1.0, memory_bytes: int = 0, min_bytes: int | None = None
) -> Profile:
    """Make an App from Traffic; a series is split into phases. Arguments and errors are those of `profile`."""
    pairs = {pair: count.bytes for pair, count in traffic.counts.items() if pair[0] != pair[1] and count.bytes}
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
