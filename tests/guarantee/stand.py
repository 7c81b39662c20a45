"""Helpers of tests of guarantees in a lab: traffic, agents, and the state of interfaces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gavotte import lab

TRAFFIC = Path(__file__).with_name("traffic.py")


def heard(process: subprocess.Popen[str]) -> str:
    """Return its next line."""
    assert process.stdout is not None
    return process.stdout.readline()


def traffic(cloud: lab.Session, host: str, *words: object, **options: Any) -> subprocess.Popen[Any]:
    return cloud.exec(host, [sys.executable, "-I", "-S", str(TRAFFIC), *map(str, words)], **options)


def address(cloud: lab.Session, host: str) -> str:
    return {each.name: each.address for each in cloud.status().hosts}[host]


def agent_of(cloud: lab.Session, host: str) -> int:
    """Return the process number of a host's agent."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if words[1:2] == ["serve"] and str(cloud.folder / f"{host}.sock") in words:
                return int(folder.name)
    raise AssertionError(f"no agent of {host}")


def qdiscs(cloud: lab.Session, hosts: Sequence[str]) -> str:
    """Return the state of the hosts' interfaces."""
    message = [
        cloud.run(host, ["tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True) for host in hosts
    ]
    return "".join(each.stdout for each in message)
