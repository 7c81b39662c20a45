"""Firewalls of lab hosts, as nftables rules in the host's own network namespace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from gavotte import lab

TABLE = "inet gavotte_test"

NO_UDP_IN = ("input meta l4proto udp drop",)
NO_TCP_IN = ("input tcp dport != 22 ct state new drop",)
NO_UDP_OUT = ("output meta l4proto udp drop",)
TCP_REJECTED = ("input tcp dport 7411 reject with tcp reset",)
ONLY_SSH = (
    "input ct state established,related accept",
    "input tcp dport 22 accept",
    "input iifname lo accept",
    "input drop",
)
"""Traffic that security groups of a cloud allow when no port was opened for the application."""


def lacking() -> str:
    """The reason why hosts cannot have firewalls on this machine; empty if they can."""
    return "" if shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") else "nftables is not installed"


def udp_from(address: str) -> tuple[str, ...]:
    """Rules of a host that accepts no UDP from one other."""
    return (f"input ip saddr {address} meta l4proto udp drop",)


def tcp_from(address: str) -> tuple[str, ...]:
    """Rules of a host that accepts no TCP connection from one other."""
    return (f"input ip saddr {address} tcp dport != 22 ct state new drop",)


@contextmanager
def walled(cloud: lab.Session, host: str, rules: tuple[str, ...]) -> Iterator[None]:
    """Give a host a firewall of these rules, each `input ...` or `output ...`, for the length of a block."""
    lines = [f"add table {TABLE}"]
    lines += [f"add chain {TABLE} {chain} {{ type filter hook {chain} priority 0; }}" for chain in ("input", "output")]
    lines += [f"add rule {TABLE} {rule}" for rule in rules]
    _nft(cloud, host, "\n".join(lines))
    try:
        yield
    finally:
        _nft(cloud, host, f"delete table {TABLE}")


def _nft(cloud: lab.Session, host: str, script: str) -> None:
    done = cloud.run(host, ["nft", "-f", "-"], input=script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
