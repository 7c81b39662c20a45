"""Endpoints on existing hosts: the agents of an inventory, reached as usual, and shells by the user's own `ssh`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from gavotte.agents import Reach, reaching, resolve_hosts, with_addresses
from gavotte.agents.reach.client import config_file, ssh_line
from gavotte.campaign.drivers.endpoints import Endpoints
from gavotte.errors import GavotteError
from gavotte.formats.campaign import Campaign
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.names import known_as, unknown_host
from gavotte.formats.parts.routes import SshRoute, UnixRoute


class HostEndpoints(Endpoints):
    """Hosts of an inventory. A host's labels `machine` and `tenant` give its position in OSMeF's tree."""

    kind = "ssh"

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._stack = ExitStack()
        self._reach = self._stack.enter_context(reaching(inventory))
        for name, reason in self._reach.missing.items():
            self.close()
            raise GavotteError(f"host {name} cannot be reached: {reason}")

    @property
    def reach(self) -> Reach:
        """Connections to the agents, open until `close`."""
        return self._reach

    def close(self) -> None:
        """Close the connections to the agents."""
        self._stack.close()

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs a program on a host by `ssh`, or locally if the host's agent is local.

        Raises:
            GavotteError: when the host is reached over TLS.
        """
        route = next(each.route for each in self.inventory.host if each.name == host)
        if isinstance(route, SshRoute):
            return [*ssh_line(route, self.inventory.ssh_config or config_file()), shlex.join(argv)]
        if isinstance(route, UnixRoute):
            return list(argv)
        raise GavotteError(
            f"host {host} is reached over TLS, where no program can be run",
            hint="reach it by ssh://, or use engine own",
        )

    def ask(self, host: str, script: str) -> str:
        """Return the output of a shell script on a host; empty if the host is reached over TLS or is too slow."""
        route = next(each.route for each in self.inventory.host if each.name == host)
        return "" if not isinstance(route, SshRoute | UnixRoute) else super().ask(host, script)

    def distance(self, source: str, target: str) -> int | None:
        """Return the number of edges between two hosts in OSMeF's tree by their labels; see `label_distance`."""
        labels = {host.name: host.labels for host in self.inventory.host}
        return label_distance(labels[source], labels[target]) if source != target else 0

    def mend(self) -> None:
        """Reconnect, which restarts agents that have ended."""
        self._stack.close()
        self._reach = self._stack.enter_context(reaching(self.inventory))


def label_distance(one: dict[str, str], other: dict[str, str]) -> int | None:
    """Return the number of edges between two hosts in OSMeF's tree: 0, 2 or 4; None = not known.

    4 between tenants, else 2 between machines, 0 within one.
    None if the hosts share a tenant and one lacks the label `machine`.
    """
    if one.get("tenant") != other.get("tenant"):
        return 4
    if "machine" not in one or "machine" not in other:
        return None
    return 0 if one["machine"] == other["machine"] else 2


@contextmanager
def over_ssh(campaign: Campaign) -> Iterator[HostEndpoints]:
    """Connect to the agents of the campaign's hosts for the length of a `with` block."""
    assert campaign.driver.hosts is not None
    whole = with_addresses(resolve_hosts(campaign.driver.hosts))
    for name in campaign.endpoints:
        if known_as(name, whole.names) not in whole.names:
            raise unknown_host(name, whole.names, "the inventory")
    hosts = [host.model_copy(update={"name": known_as(host.name, campaign.endpoints)}) for host in whole.host]
    named = [host for host in hosts if host.name in campaign.endpoints]
    endpoints = HostEndpoints(whole.model_copy(update={"host": named}))
    try:
        yield endpoints
    finally:
        endpoints.close()
