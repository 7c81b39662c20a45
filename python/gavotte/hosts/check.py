"""Asks every host of an inventory how it is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gavotte.agents import Fleet, reaching
from gavotte.formats.inventory import Inventory

READY = "ready"


@dataclass(frozen=True)
class HostState:
    """One host, as seen from the controller.

    Attributes:
        name: in the inventory.
        address: where the inventory says that other hosts reach it.
        agent: how its agent is reached.
        reachable: whether an agent of this protocol answers.
        usable: whether it answers and no run holds it.
        verdict: `ready`, or in one line why not.
        version: of the agent.
        kernel: release.
        cpus: what tasks may use: the inventory's, else what the agent found; None = unknown.
        memory_bytes: likewise; 0 = unknown.
        congestion: the kernel's default TCP congestion control.
        data_port: of the agent's data plane; 0 = unknown.
        inside_address: where its SSH server took the connection, as the host sees it; empty without SSH.
    """

    name: str
    address: str
    agent: str
    reachable: bool
    usable: bool
    verdict: str
    version: str = ""
    kernel: str = ""
    cpus: float | None = None
    memory_bytes: int = 0
    congestion: str = ""
    data_port: int = 0
    inside_address: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Check:
    """What a check found.

    Attributes:
        hosts: in the inventory's order.
        inventory: with the cpus and memory that it left out, where agents told them.
    """

    hosts: tuple[HostState, ...]
    inventory: Inventory

    @property
    def usable(self) -> int:
        """How many hosts a run could use now."""
        return sum(host.usable for host in self.hosts)


def check(inventory: Inventory) -> Check:
    """Reaches all hosts at once and asks their agents how they are.

    Over SSH that installs the agent where it is missing, starts it and ends it again.

    Raises:
        GavotteError: when the controller itself lacks something: keys, the ssh client, the agent to copy.
    """
    with reaching(inventory) as reach:
        fleet = Fleet(inventory, reach)
        fleet.check()
        inside = {name: tunnel.inside_address for name, tunnel in reach.tunnels.items()}
    states = []
    for host in fleet.inventory.host:
        health = fleet.health.get(host.name)
        state = HostState(
            name=host.name,
            address=host.address,
            agent=host.agent,
            reachable=health is not None,
            usable=health is not None and not health.run_id,
            verdict=fleet.missing.get(host.name, READY),
            inside_address=inside.get(host.name, ""),
        )
        if health is not None:
            state = dataclasses.replace(
                state,
                verdict=f"held by run {health.run_id}" if health.run_id else READY,
                version=health.version,
                kernel=health.kernel,
                cpus=host.cpus,
                memory_bytes=host.memory_bytes,
                congestion=health.congestion,
                data_port=health.data_port,
            )
        states.append(state)
    return Check(tuple(states), fleet.inventory)
