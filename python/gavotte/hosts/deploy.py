"""Install the agent on every SSH host before a run, so that the run itself starts immediately."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gavotte.agents import reaching
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.routes import SshRoute


@dataclass(frozen=True)
class Deployment:
    """Outcome for one host.

    Attributes:
        name: the host.
        installed: whether the host can run the agent now, its checksum verified.
        copied: whether it had to be copied.
        verdict: the outcome in one line.
    """

    name: str
    installed: bool
    copied: bool
    verdict: str

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return dataclasses.asdict(self)


def deploy(inventory: Inventory) -> list[Deployment]:
    """Copy the agent to the hosts that lack it, and start nothing.

    Hosts that are not reached over SSH get nothing; their result says so.

    Raises:
        GavotteError: when the controller itself lacks something.
    """
    over_ssh = [host for host in inventory.host if isinstance(host.route, SshRoute)]
    if not over_ssh:
        return [Deployment(host.name, False, False, "not reached over SSH") for host in inventory.host]
    with reaching(inventory.model_copy(update={"host": over_ssh}), start=False) as reach:
        missing = dict(reach.missing)
        tunnels = dict(reach.tunnels)
    result = []
    for host in inventory.host:
        if host.name in missing:
            result.append(Deployment(host.name, False, False, missing[host.name]))
        elif host.name in tunnels:
            tunnel = tunnels[host.name]
            words = ["copied" if tunnel.copied else "already installed"]
            if tunnel.in_memory:
                words = ["not kept: each run copies the agent again"]
            words += [tunnel.place] if tunnel.place else []
            result.append(Deployment(host.name, True, tunnel.copied, "; ".join(words)))
        else:
            result.append(Deployment(host.name, False, False, "not reached over SSH"))
    return result
