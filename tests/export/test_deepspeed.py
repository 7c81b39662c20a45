"""The line of the guide that makes a host file for DeepSpeed, read by DeepSpeed's rules."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests import builders

from gavotte.place import order_ranks, read_pattern

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "schedulers" / "host-files.md"


def hosts_of(text: str) -> dict[str, int]:
    """Return the slots of each host as `_parse_hostfile` of `deepspeed/launcher/runner.py` does (048b0d505481)."""
    slots: dict[str, int] = {}
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith("#"):
            continue
        match = re.search(r"^(\S+)\s+slots=(\d+)", line)
        assert match is not None, f"a bad entry: {line}"
        assert match[1] not in slots, f"several entries for {match[1]}"
        slots[match[1]] = int(match[2])
    assert slots, "empty"
    return slots


def host_file(folder: Path, hosts: list[str]) -> str:
    """Run the line of the guide on an order of hosts."""
    (line,) = re.findall(r"^sed .* order > hostfile$", GUIDE.read_text("utf-8"), re.MULTILINE)
    (folder / "order").write_text("".join(f"{host}\n" for host in hosts))
    subprocess.run(["sh", "-ec", line], cwd=folder, check=True)
    return (folder / "hostfile").read_text()


def test_deepspeed_reads_the_hosts_in_their_order(tmp_path: Path) -> None:
    rates = [[0.0 if m == n else 1e9 if m % 2 == n % 2 else 1e8 for n in range(4)] for m in range(4)]
    order = order_ranks(builders.network(["n10", "n9", "n2", "n1"], rates), read_pattern("ring").application(4)).hosts
    assert order != sorted(order)
    slots = hosts_of(host_file(tmp_path, order))
    assert list(slots) == order
    assert set(slots.values()) == {8}


def test_deepspeed_refuses_an_order_of_processes(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="several entries for b"):
        hosts_of(host_file(tmp_path, ["b", "a", "b"]))
