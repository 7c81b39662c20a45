"""A path whose MTU shrinks while packets cross it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import builders

from gavotte import lab
from gavotte.formats.topology import Topology

WIRE_BPS = 50e6
WIDE_BYTES, NARROW_BYTES = 1500, 1400
SIZES = ((1500, 1400), (9000, 1500), (9000, 1280))
"""MTUs before and after."""

_LOOK_S = 0.01
_LIMIT_S = 20.0


def cloud(*, icmp: bool, wide_bytes: int = WIDE_BYTES, **keys: Any) -> Topology:
    """Return x behind a switch of its own, and y and z at the core, with 50 Mbit/s.

    Args:
        icmp: whether routers report packets that are too long.
        wide_bytes: MTU of all links.
        **keys: more keys of the Topology.
    """
    hosts = [
        {"name": name, "switch": switch, "egress": "50mbit", "cpus": 2, "mtu": wide_bytes}
        for name, switch in (("x", "near"), ("y", "core"), ("z", "core"))
    ]
    switches = [{"name": "core", "icmp": icmp}, {"name": "near", "icmp": icmp}]
    return builders.topology(hosts, switches=switches, **keys)


@contextmanager
def narrowing(session: lab.Session, after_bytes: int, mtu_bytes: int = NARROW_BYTES) -> Iterator[threading.Event]:
    """Shrink the link between `near` and `core` as soon as x has sent this many bytes from now on.

    Yields:
        an event that is set when the link has shrunk.
    """
    done, over = threading.Event(), threading.Event()
    begin = _sent_bytes(session)

    def watch() -> None:
        waits = 0
        while not over.wait(_LOOK_S) and waits < _LIMIT_S / _LOOK_S:
            waits += 1
            if _sent_bytes(session) - begin >= after_bytes:
                narrow(session, mtu_bytes)
                done.set()
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield done
    finally:
        over.set()
        watching.join()


def narrow(session: lab.Session, mtu_bytes: int) -> None:
    """Shrink both ends of the link between `near` and `core`."""
    for switch, interface in (("near", "up"), ("core", "s0")):
        line = ["ip", "link", "set", "dev", interface, "mtu", str(mtu_bytes)]
        assert session.run(switch, line).returncode == 0


def _sent_bytes(session: lab.Session) -> int:
    counts = session.run("x", ["cat", "/proc/net/dev"], capture_output=True, text=True).stdout
    own = next(line.partition(":")[2] for line in counts.splitlines() if line.strip().startswith("eth0:"))
    return int(own.split()[8])
