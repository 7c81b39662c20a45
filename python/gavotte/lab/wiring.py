"""Builds a layout's namespaces and cables in the kernel. Runs inside the keeper only."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

from gavotte.errors import UnsupportedError
from gavotte.lab import namespaces, netlink
from gavotte.lab.layout import LOOPBACK_INDEX, Kind, Layout, Node
from gavotte.lab.netlink import Channel

SYSTEM = Path("/proc/sys/net")
"""Shows the settings of the reader's own network namespace."""

SETTINGS: dict[Kind, dict[str, str]] = {
    "host": {
        "ipv4/tcp_congestion_control": "cubic",  # what most clouds' images have; the machine's own may be another
        "ipv4/tcp_no_metrics_save": "1",  # a connection must not remember the last one's path
    },
    "switch": {
        "ipv4/icmp_ratelimit": "0",  # traceroute hears every router
        "ipv4/icmp_msgs_per_sec": "1000000",
        "ipv4/conf/all/rp_filter": "0",
        "ipv4/conf/default/rp_filter": "0",
    },
    "machine": {},
}
"""Settings that a lab works without, should the kernel not offer one."""


def build(layout: Layout, folder: Path, still_wanted: Callable[[], None]) -> None:
    """Makes every namespace, cable, address, route and shaper of a layout.

    Args:
        layout: what to build.
        folder: where the namespaces' files go: `NAME.net`, and `NAME.uts` for hosts and switches.
        still_wanted: called between steps; raises to stop.

    Raises:
        UnsupportedError: when the kernel lacks a piece.
        GavotteError: when it refuses.
    """
    home = {kind: os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for kind, name in _FILES.items()}
    opened: list[int] = []
    channels: list[Channel] = []
    (folder / "machines").mkdir()
    try:
        with Channel() as channel:
            for node in layout.nodes:
                still_wanted()
                opened.append(_make_namespace(node, folder))
                channels.append(Channel())
            for kind, descriptor in home.items():
                namespaces.enter(descriptor, kind)
            channel.send(
                netlink.cable(left, opened[left.node], right, opened[right.node]) for left, right in layout.cables
            )
        for node, channel in zip(layout.nodes, channels, strict=True):
            still_wanted()
            _furnish(node, channel)
        for node, channel in zip(layout.nodes, channels, strict=True):
            for interface in node.interfaces:
                channel.settle(interface.name)
    finally:
        for channel in channels:
            channel.__exit__()
        for descriptor in (*opened, *home.values()):
            os.close(descriptor)


def step_into(folder: Path, name: str) -> None:
    """Moves this process into a host's namespaces."""
    for kind, suffix in _FILES.items():
        descriptor = os.open(folder / f"{name}.{suffix}", os.O_RDONLY)
        try:
            namespaces.enter(descriptor, kind)
        finally:
            os.close(descriptor)


_FILES = {namespaces.NEW_NET: "net", namespaces.NEW_UTS: "uts"}


def _make_namespace(node: Node, folder: Path) -> int:
    """Enters a fresh namespace, sets it up and gives it a file; returns the network namespace, open."""
    if node.kind == "machine":
        namespaces.unshare(namespaces.NEW_NET)
    else:
        namespaces.unshare(namespaces.NEW_NET | namespaces.NEW_UTS)
        socket.sethostname(node.name)
        _give_file("uts", folder / f"{node.name}.uts")
    _give_file("net", folder / f"{node.name}.net")
    _settle(node)
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _give_file(kind: str, path: Path) -> None:
    path.touch(mode=0o400)
    namespaces.mount_over(f"/proc/self/ns/{kind}", path)


def _settle(node: Node) -> None:
    """Applies kernel settings; all interfaces come later and inherit them."""
    if node.kind == "switch":
        try:
            (SYSTEM / "ipv4/ip_forward").write_text("1")
        except OSError as error:
            raise UnsupportedError(
                f"cannot let a namespace route: {SYSTEM}/ipv4/ip_forward: {error.strerror}",
                hint="the lab needs a writable /proc/sys",
            ) from None
    quiet = {"ipv6/conf/default/disable_ipv6": "1"}
    for setting, value in (quiet | SETTINGS[node.kind]).items():
        with contextlib.suppress(OSError):
            (SYSTEM / setting).write_text(value)


def _furnish(node: Node, channel: Channel) -> None:
    messages = [netlink.loopback(LOOPBACK_INDEX)]
    for interface in node.interfaces:
        messages.extend(netlink.interface(interface))
    messages.extend(netlink.route(route) for route in node.routes)
    channel.send(messages)
