"""This machine's own TCP counters, with no capture at all: what its processes send and receive while they are watched.

The kernel counts acknowledged and received bytes of every connection. They are read again and again, and once more as a
connection ends, which the kernel tells those who may administer the network; without that right, what a connection
moved between the last look and its end is missing (`closed_unseen`), and short ones are seen only by chance. Whose a
connection shorter than a look was, only its addresses tell. A user's
own processes need no right at all; of others' sockets, the addresses are known and not the process. UDP has no such
counters.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import FormatError, GavotteError
from gavotte.profile.gathering import Gathering, Request
from gavotte.profile.sockets import Connection, Owner, Sockets, owners
from gavotte.profile.traffic import Count, Traffic

LOOK_S = 0.1
"""Ten looks a second cost 1 % of a core with a hundred connections."""
DEFAULT_S = 10.0


@dataclass
class _Way:
    """One direction of a connection."""

    base: int | None
    bytes: int = 0
    told: int = 0


def read_live(request: Request) -> Traffic:
    """Watches for a while.

    Inputs are the processes to watch, by name or number; none means all. A task is a process, known as `pid:NUMBER`,
    `NAME` (as `ps -o comm` has it), `container:ID` or `cgroup:PATH`, or an address, alone or with a port; the first of
    these that is named holds. Without given tasks, a process is `NAME-NUMBER`, and whoever is elsewhere an address.

    Returns:
        The Traffic. It has `seen` `connections`, `looks`, `closed_unseen`, `tells_ends`, `span_s`, and `processor_s`,
        the time that watching took.

    Raises:
        FormatError: when nothing was sent between tasks.
        UnsupportedError: when the kernel has no such counters.
    """
    for_s = DEFAULT_S if request.for_s is None else request.for_s
    watch = _Watch(request)
    start_s, cpu_s = time.time(), time.process_time()
    end = time.monotonic() + for_s
    try:
        watch.look(first=True)
        if request.ready is not None:
            request.ready(f"this machine's connections for {for_s:g} s")
        while (left_s := end - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))
            watch.look()
    except KeyboardInterrupt:  # how a user ends it
        watch.look()
    finally:
        watch.sockets.close()
    stop_s = time.time()
    seen = {**watch.seen, "span_s": stop_s - start_s, "processor_s": time.process_time() - cpu_s}
    traffic = watch.gathering.traffic(seen, whole_s=(start_s, stop_s))
    if not traffic.attributed_bytes:
        hint = "watch while the application runs, or name other tasks"
        raise FormatError("live", "", "saw nothing sent between tasks", hint)
    return traffic


class _Watch:
    """What has been seen so far."""

    def __init__(self, request: Request) -> None:
        for each in map(str, request.inputs):
            if each.isdigit() and not _runs(int(each)):
                raise GavotteError(f"no process {each} runs", hint="name one that does")
        self.sockets = Sockets()
        self.gathering = Gathering(request)
        self._request = request
        self._tasks = dict(request.tasks or {})
        self._wanted = {str(each) for each in request.inputs}
        self._owners: dict[int, Owner] = {}
        self._ends: dict[str, Owner] = {}
        self._ways: dict[tuple[str, str], _Way] = {}
        self._open: set[str] = set()
        self._looks = self._closed = 0

    @property
    def seen(self) -> dict[str, int | float | bool]:
        return {
            "connections": len({tuple(sorted(way)) for way in self._ways}),
            "looks": self._looks,
            "closed_unseen": self._closed,
            "tells_ends": self.sockets.tells_ends,
        }

    def look(self, *, first: bool = False) -> None:
        """Reads all counters once."""
        now_s = time.time()
        ended = list(self.sockets.ended())
        current = list(self.sockets.now())
        unknown = [each for each in current if each.inode and each.inode not in self._owners]
        if unknown:
            self._owners |= owners()
            for each in unknown:  # another user's: do not ask again
                self._owners.setdefault(each.inode, Owner(0, "", ""))
        for each in current:
            if (owner := self._owners.get(each.inode)) is not None and owner.pid:
                self._ends[each.here] = owner
        for each in [*ended, *current]:
            self._count(each, now_s, first=first)
        here = {each.here + " " + each.there for each in current}
        told = {each.here + " " + each.there for each in ended}
        self._closed += len(self._open - here - told)
        self._open = here
        self._looks += 1

    def _count(self, each: Connection, now_s: float, *, first: bool) -> None:
        for way, size in (((each.here, each.there), each.sent_bytes), ((each.there, each.here), each.received_bytes)):
            known = self._ways.get(way)
            if known is None:
                known = self._ways[way] = _Way(size if first else 0)
            # Both ends of a connection within this machine count its bytes; a port that is used again starts anew.
            if size < known.told // 2:
                known.base, known.told, known.bytes = 0, 0, 0
            known.told = max(known.told, size)
            fresh = known.told - (known.base or 0) - known.bytes
            if fresh > 0 and self._is_wanted(way):
                known.bytes += fresh
                source, target = self._name(way[0]), self._name(way[1])
                self.gathering.add(source, target, Count.exact(fresh), self.gathering.at(now_s))

    def _is_wanted(self, way: tuple[str, str]) -> bool:
        if not self._wanted:
            return True
        held = [owner for end in way if (owner := self._ends.get(end)) is not None]
        return any(owner.name in self._wanted or str(owner.pid) in self._wanted for owner in held)

    def _name(self, end: str) -> str:
        """The end by the first of its names that is a task's; else by that it goes by."""
        owner = self._ends.get(end)
        host, _, port = end.rpartition(":")
        address = host.removeprefix("[").removesuffix("]")
        names = [end, f"*:{port}", address]
        if owner is not None:
            names[:0] = [f"pid:{owner.pid}", owner.name, f"container:{owner.container}", f"cgroup:{owner.cgroup}"]
        for each in names:
            if each in self._tasks:
                return each
        return f"{owner.name}-{owner.pid}" if owner is not None else address


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").is_dir()
