"""Install the agent on every SSH host before a run, replace older versions of it, and remove it again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gavotte.agents import reaching
from gavotte.agents.binary import agent_binaries
from gavotte.agents.reach.client import config_file, ssh_program
from gavotte.agents.reach.copies import Copy, ask_copies
from gavotte.errors import AgentError
from gavotte.formats.inventory import Host, Inventory
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.routes import SshRoute

NO_SSH = "not reached over SSH"

AT_ONCE = 32
"""Most hosts that are asked at one time."""


@dataclass(frozen=True)
class Installation:
    """Outcome for one host.

    Attributes:
        name: the host.
        installed: whether the host has this version of the agent now, its checksum verified.
        copied: whether it had to be copied.
        verdict: the outcome in one line.
        copies: all copies of the agent that the host has, or had.
        ok: whether what was asked for is done.
    """

    name: str
    installed: bool
    copied: bool
    verdict: str
    copies: tuple[Copy, ...] = ()
    ok: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return dataclasses.asdict(self)


def install(inventory: Inventory) -> list[Installation]:
    """Copy the agent to the hosts that lack it, remove its other versions, and start nothing.

    Hosts that are not reached over SSH get nothing; their result says so.

    Raises:
        GavotteError: when the controller itself lacks something.
    """
    over_ssh = [host for host in inventory.host if isinstance(host.route, SshRoute)]
    if not over_ssh:
        return [Installation(host.name, False, False, NO_SSH, ok=False) for host in inventory.host]
    with reaching(inventory.model_copy(update={"host": over_ssh}), start=False) as reach:
        missing, tunnels = dict(reach.missing), dict(reach.tunnels)
    names = {binary.file_name for binary in agent_binaries().values()}

    def judge(host: Host) -> Installation:
        if host.name in missing:
            return Installation(host.name, False, False, missing[host.name], ok=False)
        tunnel = tunnels[host.name]
        copies = tuple(_copies(host, inventory, names))
        words = ["copied" if tunnel.copied else "already installed"]
        if tunnel.in_memory:
            words = ["not kept: each run copies the agent again"]
        words += _told(copies)
        words += [tunnel.place] if tunnel.place else []
        return Installation(host.name, True, tunnel.copied, "; ".join(words), copies)

    return _each(inventory, judge)


def installed(inventory: Inventory) -> list[Installation]:
    """Return which versions of the agent each host has, and change nothing."""
    names = {binary.file_name for binary in agent_binaries().values()}

    def judge(host: Host) -> Installation:
        copies = tuple(_copies(host, inventory, None))
        has = any(copy.path.rpartition("/")[2] in names for copy in copies)
        others = [
            copy.version or "one that does not run" for copy in copies if copy.path.rpartition("/")[2] not in names
        ]
        words = ["this version" if has else "not this version", *(f"also {other}" for other in others)]
        return Installation(host.name, has, False, "; ".join(words) if copies else "no agent", copies)

    return _each(inventory, judge)


def remove(inventory: Inventory) -> list[Installation]:
    """Remove all copies of the agent from the hosts. Agents that run continue until their controllers end."""

    def judge(host: Host) -> Installation:
        copies = tuple(_copies(host, inventory, ()))
        ok = all(copy.state == "removed" for copy in copies)
        return Installation(host.name, False, False, "; ".join(_told(copies)) or "no agent", copies, ok)

    return _each(inventory, judge)


def _each(inventory: Inventory, judge: Callable[[Host], Installation]) -> list[Installation]:
    """Judge all hosts that are reached over SSH, many at a time."""
    ssh_program()

    def attempt(host: Host) -> Installation:
        if not isinstance(host.route, SshRoute):
            return Installation(host.name, False, False, NO_SSH, ok=False)
        try:
            return judge(host)
        except AgentError as error:
            return Installation(host.name, False, False, str(error), ok=False)

    with ThreadPoolExecutor(min(AT_ONCE, len(inventory.host))) as pool:
        return list(pool.map(attempt, inventory.host))


def _copies(host: Host, inventory: Inventory, keep: Collection[str] | None) -> list[Copy]:
    assert isinstance(host.route, SshRoute)
    return ask_copies(host.route, inventory.ssh_config or config_file(), keep)


def _told(copies: Collection[Copy]) -> list[str]:
    """Return what became of the copies that were not to be kept, in words."""
    gone = [copy.version or "one that does not run" for copy in copies if copy.state == "removed"]
    stuck = [copy.path for copy in copies if copy.state == "stuck"]
    words = [f"{', '.join(sorted(set(gone)))} removed" + (f" ({counted(len(gone), 'file')})" if len(gone) > 1 else "")]
    return (words if gone else []) + [f"{path} could not be removed" for path in stuck]
