"""Ask every host of an inventory for its state, and test which other hosts its data plane reaches."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gavotte.agents import Fleet, reaching
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.greetings import narrow_path_warnings
from gavotte.agents.neighbours import STANDING, introduced
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.routes import SshRoute
from gavotte.hosts.firewall import needed_rules
from gavotte.hosts.paths import OK, Path, try_paths

READY = "ready"

MOST_STOLEN = 0.1
"""A larger share of stolen time is worth a warning."""

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
        user: the run's owner.
        purpose: what it is for.
        exclusive: whether no other run may measure meanwhile.
        age_s: seconds since it began.
        left_s: how long it lasts at most.
        lease_left_s: how long it lasts unless its controller renews it.
        bytes_sent: payload bytes sent or set aside.
        jobs: id, kind and state (`connecting`, `ready`, `running`) of its jobs.
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
        """Convert an agent's report."""
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
            return f"run {self.run_id} ({introduced(self.purpose, self.user)}; active until it is cleared)"
        lasts = f"{self.left_s:.0f} s left at most, {self.lease_left_s:.0f} s if its controller is gone"
        return f"run {self.run_id} ({introduced(self.purpose, self.user)}; {doing}; {lasts})"


@dataclass(frozen=True)
class HostState:
    """One host, as seen from the controller.

    Attributes:
        name: its name in the inventory.
        address: IP address at which other hosts reach it.
        address_name: the DNS name in the inventory that has this address; empty if the inventory has the address.
        agent: how its agent is reached.
        reachable: whether an agent of this protocol answers.
        usable: whether it answers and no run holds it exclusively.
        verdict: `ready`, with the runs that share it; otherwise the reason, in one line.
        version: the agent's version.
        kernel: kernel release.
        cpus: what tasks may use: the inventory's value, else the agent's; None = unknown.
        memory_bytes: likewise; 0 = unknown.
        congestion: the kernel's default TCP congestion control.
        data_port: port of the agent's data plane; 0 = unknown.
        holds: the runs that hold it, and their jobs.
        inside_address: address at which its SSH server accepted the connection, as the host sees it; empty without SSH.
        place: the agent's folder and why it is not the user's cache folder; empty if it is.
        lacking: privileges that the agent lacks, each with the consequence.
        cpu_quota: processors that the agent's cgroups allow; 0 = no quota.
        stolen: share of the processors' time since the host's start that its hypervisor gave to others, 0 to 1.
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
    place: str = ""
    lacking: tuple[str, ...] = ()
    address_name: str = ""
    cpu_quota: float = 0.0
    stolen: float = 0.0

    @property
    def warnings(self) -> list[str]:
        """Why other hosts may not reach it, or see its processors instead of the network, one line each."""
        warnings = []
        if self.inside_address and self.inside_address != self.address:
            warnings.append(
                f"its SSH server answers at {self.inside_address}, but the inventory says {self.address}; if other "
                "hosts cannot reach it, change its `address`"
            )
        if 0 < self.cpu_quota < 1:
            warnings.append(
                f"its cgroup's quota allows {self.cpu_quota:g} of a processor; fast paths may show it, so raise it"
            )
        if self.stolen > MOST_STOLEN:
            warnings.append(
                f"its hypervisor gave {100 * self.stolen:.0f} % of its processors' time to others; fast paths may show "
                "that, so use a host with processors of its own"
            )
        return warnings

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Check:
    """Result of a check.

    Attributes:
        hosts: in the inventory's order.
        inventory: the inventory, with missing cpus and memory filled in from the agents.
        paths: pairs whose data plane was tested. Hosts that another run holds exclusively are not tested.
        rules: missing firewall rules, one line each.
        untested: why paths were not tested, one line each.
    """

    hosts: tuple[HostState, ...]
    inventory: Inventory
    paths: tuple[Path, ...] = ()
    rules: tuple[str, ...] = ()
    untested: list[str] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """Problems that may keep runs from using hosts, or slow them down, one line each."""
        own = [f"{host.name}: {warning}" for host in self.hosts for warning in host.warnings]
        narrow = {(path.source, path.target): path.mtu_bytes for path in self.paths if path.mtu_bytes}
        return [*self.untested, *own, *narrow_path_warnings(narrow)]

    @property
    def usable(self) -> int:
        """Number of hosts that a run could use now."""
        return sum(host.usable for host in self.hosts)

    @property
    def unusable_paths(self) -> int:
        """Number of tested pairs that a run could not use."""
        return sum(not path.usable for path in self.paths)

    @property
    def sampled(self) -> bool:
        """Whether only some pairs were tested, because there was no time for all of many hosts."""
        hosts = {host for path in self.paths for host in (path.source, path.target)}
        tested = Counter(path.source for path in self.paths)
        return max(tested.values(), default=0) < len(hosts) - 1


def check(inventory: Inventory) -> Check:
    """Reach all hosts at once, ask their agents for their state, and let them greet each other over TCP and UDP.

    Over SSH this installs the agent where it is missing, starts it and ends it again.

    Raises:
        GavotteError: when the controller itself lacks something: keys, the ssh client, the agent to copy.
    """
    with reaching(inventory) as reach:
        fleet = Fleet(inventory, reach, purpose="check", shared=True)
        fleet.check()
        status = fleet.status()
        paths, untested = try_paths(fleet, [name for name, health in fleet.health.items() if not health.run_id])
        tunnels = dict(reach.tunnels)
    states = []
    written = {host.name: host.address for host in inventory.host}
    for host in fleet.inventory.host:
        health = fleet.health.get(host.name)
        state = HostState(
            name=host.name,
            address=host.address,
            agent=host.agent,
            reachable=health is not None,
            usable=health is not None and not health.run_id,
            verdict=fleet.missing.get(host.name, READY),
            inside_address=tunnels[host.name].inside_address if host.name in tunnels else "",
            place=tunnels[host.name].place if host.name in tunnels else "",
            address_name=written[host.name] if written[host.name] != host.address else "",
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
                lacking=tuple(health.lacking),
                cpu_quota=health.cpu_quota,
                stolen=health.stolen,
            )
        states.append(state)
    return Check(tuple(states), fleet.inventory, paths, tuple(_rules(fleet.inventory, paths)), untested)


def _rules(inventory: Inventory, paths: tuple[Path, ...]) -> list[str]:
    rules = needed_rules(paths)
    none_pass = all(OK not in (path.tcp, path.udp) for path in paths)
    if paths and none_pass and all(isinstance(host.route, SshRoute) for host in inventory.host):
        rules = [f"agents answer over SSH, but none reaches another's data port; {rule}" for rule in rules]
    return rules


def _verdict(health: pb.HealthReply, holds: tuple[HoldState, ...]) -> str:
    if health.run_id:
        return "held by " + next((str(hold) for hold in holds if hold.exclusive), f"run {health.run_id}")
    return "; ".join([READY, *(f"shared with {hold}" for hold in holds)])
