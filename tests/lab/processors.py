"""Agents of a lab with fewer processors: a cgroup's quota, or one processor for some of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.guarantee.stand import agent_of

from gavotte import lab

PERIOD_US = 100_000
VERSION_1, UNIFIED = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


@contextmanager
def quota(session: lab.Session, host: str, cpus: float) -> Iterator[None]:
    """Allow the agent of one host only this share of a processor. Skip the test where no cgroup can be made.

    Args:
        session: the lab.
        host: name of the host.
        cpus: quota in processors.
    """
    mount = VERSION_1 if (VERSION_1 / "cpu.cfs_quota_us").exists() else UNIFIED
    group, pid = mount / f"gavotte-test-{secrets.token_hex(4)}", agent_of(session, host)
    kind = ":cpu:" if mount == VERSION_1 else "::"
    own = next(line for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines() if kind in line or "cpu," in line)
    home = mount / own.split(":", 2)[2].lstrip("/")
    try:
        if mount == UNIFIED:
            (mount / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
    except OSError as error:
        pytest.skip(f"cgroups cannot be made here: {error}")
    try:
        if mount == UNIFIED:
            (group / "cpu.max").write_text(f"{cpus * PERIOD_US:.0f} {PERIOD_US}")
        else:
            (group / "cpu.cfs_quota_us").write_text(f"{cpus * PERIOD_US:.0f}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            (home / "cgroup.procs").write_text(left)
        group.rmdir()


def pin(session: lab.Session, host: str, processor: int) -> None:
    """Let the agent of one host, with all its threads, run on one processor only."""
    for thread in Path(f"/proc/{agent_of(session, host)}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {processor})
