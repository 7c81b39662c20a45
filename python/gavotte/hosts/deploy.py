"""Installs the agent on every SSH host ahead of a run, so that the run itself starts at once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gavotte.agents import reaching
from gavotte.formats.inventory import Inventory
from gavotte.formats.routes import SshRoute


@dataclass(frozen=True)
class Deployment:
    """What became of one host.

    Attributes:
        name: the host.
        installed: whether the agent is there now, its checksum verified.
        copied: whether it had to be copied.
        verdict: in one line.
    """

    name: str
    installed: bool
    copied: bool
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


def deploy(inventory: Inventory) -> list[Deployment]:
    """Copies the agent to the hosts that lack it; starts nothing.

    Hosts that are not reached over SSH are told so and left alone.

    Raises:
        GavotteError: when the controller itself lacks something.
    """
    over_ssh = [host for host in inventory.host if isinstance(host.route, SshRoute)]
    if not over_ssh:
        return [Deployment(host.name, False, False, "not reached over SSH") for host in inventory.host]
    with reaching(inventory.model_copy(update={"host": over_ssh}), start=False) as reach:
        missing = dict(reach.missing)
        copied = {name: tunnel.copied for name, tunnel in reach.tunnels.items()}
    result = []
    for host in inventory.host:
        if host.name in missing:
            result.append(Deployment(host.name, False, False, missing[host.name]))
        elif host.name in copied:
            done = copied[host.name]
            result.append(Deployment(host.name, True, done, "copied" if done else "was there"))
        else:
            result.append(Deployment(host.name, False, False, "not reached over SSH"))
    return result
