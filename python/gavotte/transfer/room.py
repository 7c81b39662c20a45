"""Refuse an object that the receivers' disks cannot hold, before its source reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.errors import AgentError
from gavotte.formats.parts.rates import format_bytes
from gavotte.transfer.outcome import SHOWN


def check_room(fleet: Fleet, source: str, content: str, paths: Mapping[str, str]) -> None:
    """Ask all receivers for the free space on their disks, if the size of the object is known.

    If only some of them lack the space, the others may get the object: agents refuse the copies that do not fit. What
    an agent does not report is unknown, and nothing follows from it.

    Args:
        fleet: enrolled agents.
        source: the host that has the object.
        content: absolute path of the object there.
        paths: receiver to the absolute path of its copy, for the receivers that take part.

    Raises:
        AgentError: when no receiver has space for its copy. It names hosts, folders, needed and free bytes.
    """
    replies = fleet.space(paths, source=(source, content))
    about = replies[source]
    if isinstance(about, AgentError) or not paths:
        return
    lacking = []
    for name, path in paths.items():
        reply = replies[name]
        if isinstance(reply, AgentError) or not lacks(about, reply):
            return
        folder, needed = PurePosixPath(path).parent, about.bytes - reply.stored_bytes
        lacking.append(f"{name} needs {_exact(needed)} in {folder}, where {_exact(reply.free_bytes)} are free")
    shown, more = lacking[:SHOWN], len(lacking) - SHOWN
    raise AgentError(
        f"no space for the copy of {content}: {'; '.join(shown)}{f'; and {more} more' * (more > 0)}",
        hint="free space there, or give -o a folder on a larger disk",
        failure=pb.FAILURE_FILE,
    )


def lacks(about: pb.SpaceReply, at_receiver: pb.SpaceReply) -> bool:
    """Return whether a receiver has too little space for its copy.

    Args:
        about: the source's report on the object.
        at_receiver: the report of the receiver. A folder that it has already is never written again.
    """
    if about.folder and at_receiver.folder:
        return False
    return about.bytes > at_receiver.stored_bytes + at_receiver.free_bytes


def _exact(size_bytes: int) -> str:
    return f"{size_bytes} bytes ({format_bytes(size_bytes)})" if size_bytes >= 1000 else f"{size_bytes} bytes"
