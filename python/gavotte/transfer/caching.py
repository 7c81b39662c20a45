"""Caches of blocks on hosts: equal blocks of several objects are stored once, and not sent again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError, GavotteError

HOST = "{host}"
"""Placeholder for the host's name in the path of its cache."""

BLOCK_BYTES = 256 << 10
"""Size of blocks where caches are used. It is fixed, so that two versions share blocks although their sizes differ."""

READ_S = 600.0
"""Longest time that the source may take to read its object."""

MOST_BYTES = 10_000_000_000
"""Default limit of a cache."""


@dataclass(frozen=True)
class HostCache:
    """Folder in which each host keeps blocks. Those used least recently are removed first.

    Attributes:
        path: absolute path, with `{host}` for the host's name. It is made if it is missing.
        most_bytes: most bytes that a host keeps there.
    """

    path: str
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        where = PurePosixPath(self.path)
        if not where.is_absolute() or ".." in where.parts:
            raise GavotteError(
                f"the cache `{self.path}` is not the absolute path of a folder",
                hint="give one, as `/var/cache/gavotte`",
            )
        if self.most_bytes < BLOCK_BYTES:
            raise GavotteError(f"a cache of {self.most_bytes} bytes holds no block", hint="use 1MB or more")

    def on(self, host: str) -> str:
        """Return the path on a host."""
        return self.path.replace(HOST, host)


def cut_for_caches(fleet: Fleet, source: str, path: str) -> pb.ManifestReply:
    """Return the manifest of an object, in blocks of the size of caches unless there would be too many.

    Raises:
        AgentError: when the source cannot read it.
    """
    try:
        return fleet.manifest(source, path, block_bytes=BLOCK_BYTES, deadline_s=READ_S)
    except AgentError as error:
        if "more than" not in error.message:
            raise
    return fleet.manifest(source, path, deadline_s=READ_S)
