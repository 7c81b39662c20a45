"""What sockets send and receive, as the kernels of this machine or of an inventory's hosts count it."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gavotte import agents
from gavotte._core import SocketWatch
from gavotte.agents import Budget
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, UnsupportedError
from gavotte.formats.inventory import Inventory

LOOK_S = 0.1
"""Ten looks a second cost 1 % of a core with a hundred connections."""
REPORT_S = 0.5
"""How often agents tell what moved."""
SLACK_S = 30.0
"""What a watch through agents may last beyond its own time."""
_CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


class Moved(NamedTuple):
    """Payload between one socket and another end, since the last report.

    Attributes:
        here: the socket's own address, with the port as `canonical_address` writes it.
        peer: the other end's.
        datagrams: UDP, and not TCP.
        sent_bytes: from here to the peer.
        received_bytes: and back.
    """

    here: str
    peer: str
    datagrams: bool
    sent_bytes: int
    received_bytes: int


class Owner(NamedTuple):
    """The process that holds a socket.

    Attributes:
        here: the socket's end.
        pid: its number.
        name: as `ps -o comm` has it.
        cgroup: its path.
        rank: its rank, where an MPI launcher started it.
    """

    here: str
    pid: int
    name: str
    cgroup: str
    rank: int | None

    @property
    def container(self) -> str:
        """The first twelve digits of the container's ID that its cgroup has in it; empty without one."""
        digits = _CONTAINER.search(self.cgroup)
        return digits[1] if digits else ""


class Report(NamedTuple):
    """What one host tells.

    Attributes:
        host: its name; empty for this machine.
        moved: since its last report.
        owners: of ends that were not known before.
        counters: of the watch itself, from its begin.
    """

    host: str
    moved: Sequence[Moved]
    owners: Sequence[Owner]
    counters: Mapping[str, int | float | bool]


def watch_here(for_s: float, ready: Callable[[], None]) -> Iterator[Report]:
    """Watches this machine's network namespace, until the time is up or Ctrl-C.

    Raises:
        UnsupportedError: when the kernel has no such counters.
    """
    cpu_s = time.process_time()
    try:
        watch = SocketWatch()
    except OSError as error:
        raise UnsupportedError(
            f"this kernel gives no information on sockets: {error.strerror}", hint="use another source, e.g. pcap"
        ) from None

    def report() -> Report:
        moved, owners = watch.report()
        counters = {**dict(watch.counters()), "processor_s": time.process_time() - cpu_s}
        return Report("", [Moved(*each) for each in moved], [Owner(*each) for each in owners], counters)

    end_s = time.monotonic() + for_s
    ready()
    yield report()
    try:
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left_s))
            watch.look()
            yield report()
    except KeyboardInterrupt:  # how a user ends it
        watch.look()
        yield report()


def watch_hosts(inventory: Inventory, for_s: float, ready: Callable[[], None]) -> Iterator[Report]:
    """Watch the hosts of an inventory through their agents, until the time is up or Ctrl-C.

    Other runs may use the hosts at the same time.

    Raises:
        AgentError: when an agent cannot be reached, does not watch, or falls silent.
    """
    budget = Budget(max_bytes=1, max_seconds=for_s + SLACK_S)
    with agents.enrolled(inventory, budget, purpose="profile", shared=True, direct=True) as fleet:
        for name, reason in fleet.missing.items():
            raise AgentError(f"{name}: {reason}", hint="leave it out of --hosts to profile without it")
        request = pb.WatchRequest(run_id=fleet.run_id, look_s=LOOK_S, report_s=REPORT_S)
        requests = {host.name: request for host in fleet.hosts}
        arrivals: queue.SimpleQueue[tuple[str, pb.WatchReply | AgentError]] = queue.SimpleQueue()
        over = threading.Event()

        def drain() -> None:
            for each in fleet.watch(requests, deadline_s=for_s + SLACK_S, silence_s=lambda: SLACK_S):
                arrivals.put(each)
                if over.is_set():
                    break

        threading.Thread(target=drain, daemon=True, name="watch").start()
        try:
            yield from _until(arrivals, set(requests), for_s, ready)
        finally:
            over.set()


def _until(
    arrivals: queue.SimpleQueue[tuple[str, pb.WatchReply | AgentError]],
    hosts: set[str],
    for_s: float,
    ready: Callable[[], None],
) -> Iterator[Report]:
    """Reports of all hosts, up to the first of each that covers the whole time."""
    silent = set(hosts)
    end_s, left = float("inf"), set(hosts)
    while left:
        try:
            name, reply = arrivals.get(timeout=SLACK_S + REPORT_S)
        except KeyboardInterrupt:  # how a user ends it
            end_s = time.monotonic()
            continue
        except queue.Empty:
            raise AgentError(f"the agents on {', '.join(sorted(left))} fell silent") from None
        if isinstance(reply, AgentError):
            raise reply
        yield _report_of(name, reply)
        if silent:
            silent.discard(name)
            if not silent:
                ready()
                end_s = time.monotonic() + for_s
        # What it tells now may be of a look before the end; what it tells a report later is not.
        elif time.monotonic() > end_s + REPORT_S:
            left.discard(name)


def _report_of(host: str, reply: pb.WatchReply) -> Report:
    moved = [Moved(e.here, e.there, e.datagrams, e.sent_bytes, e.received_bytes) for e in reply.moved]
    owners = [Owner(e.here, e.pid, e.name, e.cgroup, e.rank if e.HasField("rank") else None) for e in reply.owners]
    counters = {
        "looks": reply.looks,
        "connections": reply.connections,
        "closed_unseen": reply.closed_unseen,
        "tells_ends": reply.tells_ends,
        "counts_datagrams": not reply.without_datagrams,
        "uncounted_datagrams": reply.uncounted_datagrams,
        "processor_s": reply.cpu_s,
    }
    return Report(host, moved, owners, counters)
