"""The hosts of a launch: those that answer, and how a command line starts on them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gavotte import lab
from gavotte.agents import Fleet, reaching, resolve_hosts
from gavotte.agents.reach.client import config_file, ssh_line
from gavotte.agents.runtime import lab_hosts_file
from gavotte.errors import GavotteError
from gavotte.formats.inventory import Inventory, without_zone
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.routes import SshRoute
from gavotte.launch.nodes import over_ssh
from gavotte.launch.question import LaunchQuestion, LaunchSession

SHOWN = 3
"""Number of hosts that a warning names."""


@dataclass(frozen=True)
class Places:
    """The hosts of a launch.

    Attributes:
        names: their names, in the order in which the launcher fills them.
        cpus: cores of each; empty = nothing says how many.
        inventory: the hosts, to measure them; None = they cannot be measured.
        cloud: the lab that the hosts are in, seen from outside; None = the launcher starts where this process runs.
        since_s: Unix time before which no measurement of these hosts counts.
        named: all hosts that were named, whether they answer or not; None = only a Network is known.
        inside: the lab that the hosts and this process are in; None = no such lab.
    """

    names: Sequence[str]
    cpus: Mapping[str, float] = field(default_factory=dict)
    inventory: Inventory | None = None
    cloud: lab.Session | None = None
    since_s: float = 0.0
    named: Inventory | None = None
    inside: lab.Session | None = None

    @property
    def addresses(self) -> dict[str, str]:
        """Address or DNS name of each host, as other hosts reach it."""
        hosts = [] if self.named is None else self.named.host
        return {host.name: without_zone(host.address) for host in hosts}

    def reach(self, host: str) -> Callable[[Sequence[str]], list[str]]:
        """Return how to run a command line on a host: it makes a command line of this machine.

        Raises:
            GavotteError: when no way is known.
        """
        if running := self.cloud or self.inside:
            return lambda words: running.command(host, words)
        if self.named is None:
            raise GavotteError("the hosts cannot be reached by a Network alone", hint="name them by --hosts, too")
        route = next(each.route for each in self.named.host if each.name == host)
        if isinstance(route, SshRoute):
            return over_ssh(ssh_line(route, self.named.ssh_config or config_file()))
        raise GavotteError(
            f"programs on {host} are started over SSH, and its agent is not",
            hint="name the hosts with `ssh://` agents, or as --hosts a,b,c",
        )

    @property
    def python(self) -> str:
        """Python on the hosts."""
        return "python3" if self.cloud is None and self.inside is None else sys.executable

    def command(self, words: Sequence[str]) -> list[str]:
        """Return the command line that starts a launcher: in a lab, on its first host."""
        return list(words) if self.cloud is None else self.cloud.command(self.names[0], words)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the launcher."""
        return dict(os.environ) if self.cloud is None else self.cloud.environment()


def places_of(question: LaunchQuestion, session: LaunchSession) -> Places:
    """Return the hosts that a job may use. All but a dry run asks each agent whether it answers.

    Raises:
        GavotteError: when no host is named.
    """
    hosts = question.hosts
    if hosts is None and os.environ.get("SLURM_JOB_ID") and question.network is None:
        hosts = "slurm"
    if hosts is None:
        if question.network is None:
            raise GavotteError("the hosts are unknown", hint="name them by --hosts, or a Network by --network")
        network = question.network
        return Places(network.names, {host.name: host.cpus for host in network.hosts})
    inventory = resolve_hosts(hosts)
    cloud, inside, since_s = None, None, 0.0
    if hosts == "lab" or _is_lab(hosts):
        running = lab.current()
        cloud, inside = (None, running) if running.inside else (running, None)
        since_s = running.since_s
    stated = {host.name: host.cpus for host in inventory.host if "cpus" in host.model_fields_set}
    if question.dry:
        return Places(inventory.names, stated, inventory, cloud, since_s, inventory, inside)
    answering = _answering(inventory, session)
    if not answering.host:
        # The launcher has ways of its own to its hosts.
        return Places(inventory.names, stated, None, cloud, since_s, inventory, inside)
    cpus = {host.name: host.cpus for host in answering.host}
    return Places(answering.names, cpus, answering, cloud, since_s, inventory, inside)


def _is_lab(hosts: str) -> bool:
    """Return whether a file is the inventory of the running lab."""
    path = lab_hosts_file()
    return Path(hosts).exists() and path.exists() and Path(hosts).samefile(path)


def _answering(inventory: Inventory, session: LaunchSession) -> Inventory:
    """Return the hosts whose agents answer, with their cores. The others are named."""
    with reaching(inventory) as reach:
        fleet = Fleet(inventory, reach, purpose="launch", shared=True)
        fleet.check()
    if missing := fleet.missing:
        reason = next(iter(missing.values()))
        shown = ", ".join(list(missing)[:SHOWN]) + ", ..." * (len(missing) > SHOWN)
        some = f"{counted(len(missing), 'host')} left out, without an answer"
        what = some if fleet.hosts else "no agent answers, so nothing is measured"
        session.complain(f"{what}: {shown} ({reason}); `gavotte hosts check` names the causes")
    present = {host.name for host in fleet.hosts}
    return fleet.inventory.model_copy(update={"host": [host for host in fleet.inventory.host if host.name in present]})
