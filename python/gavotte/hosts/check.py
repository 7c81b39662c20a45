"""Asks every host of an inventory how it is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gavotte.agents import Fleet, reaching
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.neighbours import STANDING, introduced
from gavotte.formats.inventory import Inventory

READY = "ready"

_STATES = {
    pb.JOB_STATE_CONNECTING: "connecting",
    pb.JOB_STATE_READY: "ready",
    pb.JOB_STATE_RUNNING: "running",
}


@dataclass(frozen=True)
class HoldState:
    """One run's hold on a host.

    Attributes:
        run_id: the run.
        user: whose it is.
        purpose: what it is for.
        exclusive: whether no other run may measure meanwhile.
        age_s: since when.
        left_s: how long it lasts at most.
        lease_left_s: how long it lasts unless its controller renews it.
        bytes_sent: payload bytes sent or set aside.
        jobs: id, kind and state (`connecting`, `ready`, `running`) of what it has under way.
    """

    run_id: str
    user: str
    purpose: str
    exclusive: bool
    age_s: float
    left_s: float
    lease_left_s: float
    bytes_sent: int
    jobs: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, hold: pb.HoldStatus) -> HoldState:
        """Reads what an agent says."""
        return cls(
            hold.run_id,
            hold.user,
            hold.purpose,
            hold.mode == pb.MODE_EXCLUSIVE,
            hold.age_s,
            hold.left_s,
            hold.lease_left_s,
            hold.bytes_sent,
            tuple((job.id, job.kind, _STATES[job.state]) for job in hold.jobs),
        )

    def __str__(self) -> str:
        doing = ", ".join(f"{kind} {state}" for _, kind, state in self.jobs) or "idle"
        if any(kind == STANDING for _, kind, _ in self.jobs):
            return f"run {self.run_id} ({introduced(self.purpose, self.user)}; stands until it is cleared)"
        lasts = f"{self.left_s:.0f} s left at most, {self.lease_left_s:.0f} s if its controller is gone"
        return f"run {self.run_id} ({introduced(self.purpose, self.user)}; {doing}; {lasts})"


@dataclass(frozen=True)
class HostState:
    """One host, as seen from the controller.

    Attributes:
        name: in the inventory.
        address: where the inventory says that other hosts reach it.
        agent: how its agent is reached.
        reachable: whether an agent of this protocol answers.
        usable: whether it answers and no run holds it exclusively.
        verdict: `ready`, with the runs that share it, or in one line why not.
        version: of the agent.
        kernel: release.
        cpus: what tasks may use: the inventory's, else what the agent found; None = unknown.
        memory_bytes: likewise; 0 = unknown.
        congestion: the kernel's default TCP congestion control.
        data_port: of the agent's data plane; 0 = unknown.
        holds: who holds it, and what runs there.
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
    holds: tuple[HoldState, ...] = ()
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
        status = fleet.status()
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
            holds = tuple(HoldState.of(hold) for hold in status[host.name].holds) if host.name in status else ()
            state = dataclasses.replace(
                state,
                holds=holds,
                verdict=_verdict(health, holds),
                version=health.version,
                kernel=health.kernel,
                cpus=host.cpus,
                memory_bytes=host.memory_bytes,
                congestion=health.congestion,
                data_port=health.data_port,
            )
        states.append(state)
    return Check(tuple(states), fleet.inventory)


def _verdict(health: pb.HealthReply, holds: tuple[HoldState, ...]) -> str:
    if health.run_id:
        return "held by " + next((str(hold) for hold in holds if hold.exclusive), f"run {health.run_id}")
    return "; ".join([READY, *(f"shared with {hold}" for hold in holds)])
