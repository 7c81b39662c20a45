"""Count the bytes that sockets send and receive, without a capture: on this machine, or on all hosts through agents.

* TCP: the kernel's counters of each connection, read repeatedly and a last time when a connection ends. If the kernel
  does not announce ends, bytes between the last look and the end are missing (`closed_unseen`), and short connections
  are seen only by chance.
* UDP: BPF programs count all datagrams that sockets send and receive, if the kernel lets this user load them
  (`counts_datagrams`).

Watching a user's own processes needs no rights. For other users' sockets only the addresses are known, not the process.
The same holds for a connection that is shorter than the time between two looks.
"""

from __future__ import annotations

import ipaddress
import time
from collections import defaultdict
from pathlib import Path

from gavotte.errors import FormatError, GavotteError
from gavotte.profile.gathering import Gathering, Request
from gavotte.profile.sockets import Owner, Report, watch_here, watch_hosts
from gavotte.profile.traffic import Count, Traffic
from gavotte.terms.unix_clock import UnixClock

DEFAULT_S = 10.0
NAMING_S = 5.0
"""Time that bytes wait for the names of their owners, which come from the other end's host."""

Way = tuple[str, str, bool]
"""Source, target, whether UDP."""


def read_live(request: Request) -> Traffic:
    """Watch the sockets of running processes for a while, here or on hosts.

    Inputs are the processes to watch, by name or number; none means all. A task is named by the first of these that the
    user gave:

    1. `pid:NUMBER`: a process.
    2. `rank:NUMBER`: a rank of an MPI job, or of torchrun.
    3. `NAME`: processes of this name, as `ps -o comm` has it.
    4. `container:ID` or `cgroup:PATH`.
    5. An address, alone or with a port.

    With hosts, `HOST/` can precede each. Without given tasks, a process is `NAME-NUMBER`, or `HOST-NAME-NUMBER` with
    hosts. A peer outside the watched hosts is its address.

    Returns:
        The Traffic. Its `seen` has `hosts`, `connections`, `looks`, `closed_unseen`, `tells_ends`, `counts_datagrams`,
        `uncounted_datagrams`, `span_s`, and `processor_s`, the time that watching took on all hosts.

    Raises:
        FormatError: when nothing was sent between tasks.
        AgentError: when a host cannot be watched.
        UnsupportedError: when the kernel has no such counters.
    """
    for_s = DEFAULT_S if request.for_s is None else request.for_s
    clock = UnixClock()
    merging = _Merging(request, clock)
    start_s = clock()

    def ready() -> None:
        if request.ready is not None:
            where = "this machine's" if request.hosts is None else f"{len(request.hosts.host)} hosts'"
            request.ready(f"{where} connections for {for_s:g} s")

    if request.hosts is None:
        for each in map(str, request.inputs):
            if each.isdigit() and not Path(f"/proc/{each}").is_dir():
                raise GavotteError(f"no process {each} runs", hint="name one that does")
        reports = watch_here(for_s, ready, request.ended)
    else:
        reports = watch_hosts(request.hosts, for_s, ready, request.ended)
    for report in reports:
        merging.take(report)
    stop_s = clock()
    merging.name_all()
    traffic = merging.gathering.traffic({**merging.seen(), "span_s": stop_s - start_s}, whole_s=(start_s, stop_s))
    if not traffic.attributed_bytes:
        hint = "watch while the application runs, or name other tasks"
        raise FormatError("live", "", "saw nothing sent between tasks", hint)
    return traffic


class _Merging:
    """Merger of the hosts' reports. Both ends of a connection may report it, but its bytes count once."""

    def __init__(self, request: Request, clock: UnixClock) -> None:
        self.gathering = Gathering(request)
        self._clock = clock
        self._tasks = dict(request.tasks or {})
        self._wanted = {str(each) for each in request.inputs}
        self._owners: dict[str, tuple[str, Owner]] = {}
        self._views: defaultdict[Way, dict[tuple[str, str], int]] = defaultdict(dict)
        self._counted: dict[Way, int] = {}
        self._cells: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._named_s = time.monotonic()
        self._counters: dict[str, Report] = {}

    def take(self, report: Report) -> None:
        """Add the owners, bytes and counters of a host's report."""
        self._counters[report.host] = report
        for owner in report.owners:
            self._owners[_scoped(owner.here, report.host)] = report.host, owner
        interval = self.gathering.at(self._clock())
        for each in report.moved:
            local, remote = _scoped(each.here, report.host), _scoped(each.peer, report.host)
            for source, target, size, view in (
                (local, remote, each.sent_bytes, "sent"),
                (remote, local, each.received_bytes, "received"),
            ):
                if not size:
                    continue
                way = source, target, each.datagrams
                views = self._views[way]
                views[report.host, view] = views.get((report.host, view), 0) + size
                most = max(views.values())
                self._cells[source, target, interval] += most - self._counted.get(way, 0)
                self._counted[way] = most
        if time.monotonic() > self._named_s + NAMING_S:
            self.name_all()

    def name_all(self) -> None:
        """Move the bytes counted up to now to `gathering`, under the names of their ends."""
        for (source, target, interval), size in self._cells.items():
            if size and self._is_wanted(source, target):
                self.gathering.add(self._name(source), self._name(target), Count.exact(size), interval)
        self._cells.clear()
        self._named_s = time.monotonic()

    def seen(self) -> dict[str, int | float | bool]:
        """Return the counters of all hosts, merged into one set."""
        counters = [each.counters for each in self._counters.values()]
        sums = ("connections", "closed_unseen", "uncounted_datagrams", "processor_s")
        return {
            "hosts": len(counters),
            "looks": max((int(each["looks"]) for each in counters), default=0),
            **{name: sum(each[name] for each in counters) for name in sums},
            **{name: all(each[name] for each in counters) for name in ("tells_ends", "counts_datagrams")},
        }

    def _is_wanted(self, *ends: str) -> bool:
        if not self._wanted:
            return True
        held = [self._owners[end][1] for end in ends if end in self._owners]
        return any(owner.name in self._wanted or str(owner.pid) in self._wanted for owner in held)

    def _name(self, end: str) -> str:
        """Return the first name of an end under which the user gave a task; without one, the end's default name."""
        host, owner = self._owners.get(end, ("", None))
        scope, _, bare = end.rpartition("/")
        address, _, port = bare.rpartition(":")
        address = address.removeprefix("[").removesuffix("]")
        names = [bare, f"*:{port}", address]
        if owner is not None:
            rank = [] if owner.rank is None else [f"rank:{owner.rank}"]
            groups = [f"container:{owner.container}", f"cgroup:{owner.cgroup}"]
            names[:0] = [f"pid:{owner.pid}", *rank, owner.name, *groups]
        for each in names:
            for name in (f"{host or scope}/{each}", each):
                if name in self._tasks:
                    return name
        if owner is None:
            return f"{scope}-{address}" if scope else address
        return "-".join(filter(None, (host, owner.name, str(owner.pid))))


def _scoped(end: str, host: str) -> str:
    """Return an end, with `HOST/` before a loopback address, which other hosts have, too."""
    address = end.rpartition(":")[0].removeprefix("[").removesuffix("]").partition("%")[0]
    return f"{host}/{end}" if host and ipaddress.ip_address(address).is_loopback else end
