"""Watch the bytes that sockets send and receive, as the kernel counts them: on this machine or an inventory's hosts."""

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
"""Time between two looks at the sockets. Ten looks a second cost 1 % of a core with a hundred connections."""
REPORT_S = 0.5
"""Time between two reports of an agent."""
SLACK_S = 30.0
"""Time that a watch through agents may last beyond its own end, and longest silence of an agent."""
_CONTAINER = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")


class Moved(NamedTuple):
    """Payload between a socket and its peer since the last report.

    Attributes:
        here: the socket's own address and port, as `canonical_address` writes them.
        peer: the peer's address and port.
        datagrams: True for UDP, False for TCP.
        sent_bytes: payload from the socket to the peer.
        received_bytes: payload from the peer to the socket.
    """

    here: str
    peer: str
    datagrams: bool
    sent_bytes: int
    received_bytes: int


class Owner(NamedTuple):
    """Process that holds a socket.

    Attributes:
        here: the socket's own address and port.
        pid: the process's number.
        name: the process's name, as `ps -o comm` shows it.
        cgroup: path of the process's cgroup.
        rank: the process's rank if a launcher of MPI programs or torchrun started it, else None.
    """

    here: str
    pid: int
    name: str
    cgroup: str
    rank: int | None

    @property
    def container(self) -> str:
        """First twelve digits of the container ID in the cgroup's path; empty without one."""
        digits = _CONTAINER.search(self.cgroup)
        return digits[1] if digits else ""


class Report(NamedTuple):
    """Report of one host on its sockets.

    Attributes:
        host: the host's name; empty for this machine.
        moved: payload of each socket since the host's last report.
        owners: processes of sockets that the host has not reported before.
        counters: counters of the watch itself, from its begin.
    """

    host: str
    moved: Sequence[Moved]
    owners: Sequence[Owner]
    counters: Mapping[str, int | float | bool]


def _never() -> bool:
    return False


def watch_here(for_s: float, ready: Callable[[], None], ended: Callable[[], bool] | None = None) -> Iterator[Report]:
    """Watch the sockets in this machine's network namespace, until the time is up or Ctrl-C, and yield reports.

    Args:
        for_s: how long to watch, in seconds.
        ready: called once the watch has begun.
        ended: returns whether to stop before the time is up.

    Raises:
        UnsupportedError: when the kernel does not report the bytes of sockets.
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
        while (left_s := end_s - time.monotonic()) > 0 and not (ended or _never)():
            time.sleep(min(LOOK_S, left_s))
            watch.look()
            yield report()
    except KeyboardInterrupt:  # how a user ends it
        watch.look()
        yield report()


def watch_hosts(
    inventory: Inventory, for_s: float, ready: Callable[[], None], ended: Callable[[], bool] | None = None
) -> Iterator[Report]:
    """Watch the sockets of an inventory's hosts through their agents, until the time is up or Ctrl-C.

    Other runs may use the hosts at the same time.

    Args:
        inventory: the hosts.
        for_s: how long to watch, in seconds.
        ready: called once all hosts watch.
        ended: returns whether to stop before the time is up.

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
            yield from _until(arrivals, set(requests), for_s, ready, ended or _never)
        finally:
            over.set()


def _until(
    arrivals: queue.SimpleQueue[tuple[str, pb.WatchReply | AgentError]],
    hosts: set[str],
    for_s: float,
    ready: Callable[[], None],
    ended: Callable[[], bool],
) -> Iterator[Report]:
    """Yield the reports of all hosts, and stop after each host has sent one that covers the whole time."""
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
        elif time.monotonic() < end_s and ended():
            end_s = time.monotonic()
        # A report that arrives now may be of a look before the end. A report one REPORT_S later is not.
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
