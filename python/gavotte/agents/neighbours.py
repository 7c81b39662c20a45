"""Other runs on the same hosts, and how a run introduces itself to agents."""

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
"""Start of the purpose of a run that replays applications; their names follow."""

STANDING = "guarantee"
"""Kind of a job that lasts until it is cleared. No run waits for its end."""


@dataclass(frozen=True)
class Neighbour:
    """Another run that was busy on the same hosts.

    Attributes:
        run_id: its name.
        user: its owner.
        purpose: what it is for.
        kind: the kind of its job, such as "transfer".
        hosts: where the job ran.
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
        """Clause on what the other run did meanwhile. A guarantee need not have moved anything, but it limits rates."""
        return "whose guarantees were active meanwhile" if self.kind == STANDING else "which moved bytes meanwhile"

    def warning(self, consequence: str) -> str:
        """Return the warning of a measurement that ran at the same time, and what follows from that."""
        return f"measured at the same time as {self}, {self.deed}: {consequence}"

    @property
    def apps(self) -> tuple[str, ...]:
        """Names of the applications that the run replays, according to its purpose."""
        return tuple(self.purpose.removeprefix(REPLAYING).split(", ")) if self.purpose.startswith(REPLAYING) else ()

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return asdict(self)


def introduced(purpose: str, user: str) -> str:
    """Return a run's purpose and user, as far as they are known."""
    return ", by ".join(filter(None, (purpose, user))) or "purpose unknown"


def neighbours(seen: Iterable[tuple[str, pb.HoldStatus | pb.Neighbour, str]]) -> list[Neighbour]:
    """Join the observations of each run at each host.

    Args:
        seen: (host, run, kind of job) of each observation.
    """
    hosts: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for host, run, kind in seen:
        where = hosts[run.run_id, run.user, run.purpose, kind]
        if host not in where:
            where.append(host)
    return [Neighbour(*run, tuple(names)) for run, names in sorted(hosts.items())]


def this_user() -> str:
    """Return this run's user, as reported to agents."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        name = str(os.getuid())
    return f"{name}@{socket.gethostname()}"
