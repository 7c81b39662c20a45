"""Other runs on the same hosts, and what runs tell agents of themselves."""

from __future__ import annotations

import getpass
import os
import socket
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from gavotte.agents import agent_pb2 as pb

REPLAYING = "run "
"""Begins the purpose of a run that replays applications; their names follow."""

STANDING = "guarantee"
"""The kind of job that goes on until it is cleared: nobody waits for its end."""


@dataclass(frozen=True)
class Neighbour:
    """Another run that was busy on the same hosts.

    Attributes:
        run_id: its name.
        user: whose it is.
        purpose: what it is for.
        kind: of its job, as "transfer".
        hosts: where.
    """

    run_id: str
    user: str
    purpose: str
    kind: str
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return f"run {self.run_id} ({introduced(self.purpose, self.user)}) on {', '.join(self.hosts)}"

    @property
    def deed(self) -> str:
        """What it did meanwhile: a guarantee need not have moved anything, but it limits."""
        return "whose guarantees stood meanwhile" if self.kind == STANDING else "which moved bytes meanwhile"

    @property
    def apps(self) -> tuple[str, ...]:
        """The applications that it replays, as its purpose tells."""
        return tuple(self.purpose.removeprefix(REPLAYING).split(", ")) if self.purpose.startswith(REPLAYING) else ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def introduced(purpose: str, user: str) -> str:
    """A run's purpose and user, as far as it tells."""
    return ", by ".join(filter(None, (purpose, user))) or "purpose unknown"


def neighbours(seen: Iterable[tuple[str, pb.HoldStatus | pb.Neighbour, str]]) -> list[Neighbour]:
    """Joins what was seen of each run at each host.

    Args:
        seen: host, run, kind of job.
    """
    hosts: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for host, run, kind in seen:
        where = hosts[run.run_id, run.user, run.purpose, kind]
        if host not in where:
            where.append(host)
    return [Neighbour(*run, tuple(names)) for run, names in sorted(hosts.items())]


def this_user() -> str:
    """Whose run it is, as agents are told."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
