"""Build a layout's namespaces and cables in the kernel. Only the keeper runs this code."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

from gavotte.errors import UnsupportedError
from gavotte.lab import namespaces, netlink
from gavotte.lab.addressing import IPV4, IPV6
from gavotte.lab.layout import ELEMENT, LOOPBACK_INDEX, Kind, Layout, Node
from gavotte.lab.netlink import Channel

SYSTEM = Path("/proc/sys/net")
"""Folder with the settings of the network namespace of the process that reads it."""

SETTINGS: dict[Kind, dict[str, str]] = {
    "host": {
        "ipv4/tcp_congestion_control": "cubic",  # most clouds' images have it; the machine's own may differ
        "ipv4/tcp_no_metrics_save": "1",  # a connection must not remember the last one's path
    },
    "switch": {
        "ipv4/icmp_ratelimit": "0",  # traceroute sees every router
        "ipv4/icmp_msgs_per_sec": "1000000",
        "ipv4/conf/all/rp_filter": "0",
        "ipv4/conf/default/rp_filter": "0",
        "ipv4/fib_multipath_hash_policy": "1",  # equal links are chosen by addresses and ports
        "ipv6/fib_multipath_hash_policy": "1",
        "ipv6/icmp/ratelimit": "0",
    },
    "machine": {},
    "element": {},
}
"""Settings without which a lab still works, should the kernel not offer one."""

IPV6_SETTINGS = {
    "accept_dad": "0",  # addresses can be used at once
    "dad_transmits": "0",
    "accept_ra": "0",
    "autoconf": "0",
    "accept_redirects": "0",
}
"""Settings of interfaces with IPv6 addresses: they have only the addresses that the lab gives them."""


def build(layout: Layout, folder: Path, still_wanted: Callable[[], None]) -> None:
    """Make every namespace, cable, address, route and shaper of a layout.

    Args:
        layout: what to build.
        folder: folder for the namespaces' files: `NAME.net`, and `NAME.uts` for hosts and switches.
        still_wanted: called between steps; raises to stop.

    Raises:
        UnsupportedError: when the kernel lacks a feature.
        GavotteError: when it refuses.
    """
    if IPV6 in layout.versions and not (SYSTEM / "ipv6").is_dir():
        raise UnsupportedError(
            "this kernel has no IPv6", hint='boot it with IPv6 enabled, or use addresses = "ipv4" in the topology'
        )
    home = {kind: os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for kind, name in _FILES.items()}
    opened: list[int] = []
    channels: list[Channel] = []
    for subfolder in ("machines", Path(ELEMENT).parent):
        (folder / subfolder).mkdir()
    try:
        with Channel() as channel:
            for node in layout.nodes:
                still_wanted()
                opened.append(_make_namespace(node, folder, layout.versions))
                channels.append(Channel())
            for kind, descriptor in home.items():
                namespaces.enter(descriptor, kind)
            channel.send(
                netlink.cable(left, opened[left.node], right, opened[right.node]) for left, right in layout.cables
            )
        for node, channel in zip(layout.nodes, channels, strict=True):
            still_wanted()
            _furnish(node, channel, layout.versions)
        for node, channel in zip(layout.nodes, channels, strict=True):
            for interface in node.interfaces:
                channel.settle(interface.name)
    finally:
        for channel in channels:
            channel.__exit__()
        for descriptor in (*opened, *home.values()):
            os.close(descriptor)


def step_into(folder: Path, name: str) -> None:
    """Move this process into a node's own namespaces."""
    for kind, suffix in _FILES.items():
        try:
            descriptor = os.open(folder / f"{name}.{suffix}", os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            namespaces.enter(descriptor, kind)
        finally:
            os.close(descriptor)


_FILES = {namespaces.NEW_NET: "net", namespaces.NEW_UTS: "uts"}


def _make_namespace(node: Node, folder: Path, versions: tuple[int, ...]) -> int:
    """Enter a fresh namespace, set it up and give it a file; return the network namespace, open."""
    if node.kind in ("machine", "element"):
        namespaces.unshare(namespaces.NEW_NET)
    else:
        namespaces.unshare(namespaces.NEW_NET | namespaces.NEW_UTS)
        socket.sethostname(node.name)
        _give_file("uts", folder / f"{node.name}.uts")
    _give_file("net", folder / f"{node.name}.net")
    _settle(node, versions)
    return os.open("/proc/self/ns/net", os.O_RDONLY)


def _give_file(kind: str, path: Path) -> None:
    path.touch(mode=0o400)
    namespaces.mount_over(f"/proc/self/ns/{kind}", path)


def _settle(node: Node, versions: tuple[int, ...]) -> None:
    """Apply kernel settings; all interfaces come later and inherit them."""
    if node.kind == "switch":
        for version in versions:
            _let_route("ipv4/ip_forward" if version == IPV4 else "ipv6/conf/all/forwarding")
    settings = dict(SETTINGS[node.kind])
    if IPV6 in versions and node.kind in ("host", "switch"):
        settings |= {f"ipv6/conf/default/{name}": value for name, value in IPV6_SETTINGS.items()}
    else:
        settings["ipv6/conf/default/disable_ipv6"] = "1"
    for setting, value in settings.items():
        with contextlib.suppress(OSError):
            (SYSTEM / setting).write_text(value)


def _let_route(setting: str) -> None:
    try:
        (SYSTEM / setting).write_text("1")
    except OSError as error:
        raise UnsupportedError(
            f"cannot let a namespace route: {SYSTEM}/{setting}: {error.strerror}",
            hint="the lab needs a writable /proc/sys",
        ) from None


def _furnish(node: Node, channel: Channel, versions: tuple[int, ...]) -> None:
    messages = [netlink.loopback(LOOPBACK_INDEX)]
    for interface in node.interfaces:
        messages.extend(netlink.interface(interface))
    messages.extend(netlink.route(route) for route in node.routes)
    if node.drops_icmp:
        messages.extend(netlink.icmp_sink(version) for version in versions)
    channel.send(messages)
    for interface in node.interfaces:
        if interface.whole == "tcp":
            channel.keep_only_tcp(interface.name)
