"""Topology: a described network, for lab and simulator alike (`*.topology.toml`).

A tree of switches, machines under them, and hosts (VMs) on machines. Rates are wire rates as a shaper counts them. TCP
delivers `GOODPUT_PER_WIRE` of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from gavotte.formats.files.reading import Written, parse_toml, problem, read_noun
from gavotte.formats.parts.durations import Duration
from gavotte.formats.parts.names import MOST_HOSTS, NodeName, check_known, check_tree, check_unique_hosts
from gavotte.formats.parts.rate_fields import Rate, Size

FORMAT = "gavotte/topology/1"
DEFAULT_BURST_BYTES = 32 * 1024
DEFAULT_MTU_BYTES = 1500

Mtu = Annotated[int, Field(ge=1280, le=9216)]
"""Bytes of IP that fit a frame: IPv6 needs 1280, and most switches end at 9216."""

Loss = Annotated[float, Field(ge=0, le=1)]
"""Share of packets, 0 to 1, that are lost at random."""


Uplinks = Annotated[int, Field(ge=1, le=64)]
"""Equal links between a switch and its parent."""


class Switch(Written):
    """A switch of the tree; the one without a parent is the root.

    Attributes:
        name: unique among switches, machines and hosts.
        parent: the switch above.
        uplinks: equal links to the parent. All other attributes apply to each link, and each flow takes one of them.
        up: wire rate towards the parent in bit/s, of each link; None = unlimited.
        down: wire rate from the parent in bit/s; `up` if left out.
        queue: bytes that wait before each of the two shapers, None = as many as pass in 50 ms.
        mtu: MTU of the link to the parent, None = it carries whatever hosts send.
        icmp: False if the switch drops every ICMP packet, its own and others'. Hosts then never receive
            "fragmentation needed".
        latency: delay of the link to the parent, each way, in seconds.
        jitter: largest random addition to this latency, in seconds; packets keep their order.
        loss: share of packets that the link to the parent loses, each way.
    """

    name: NodeName
    parent: NodeName | None = None
    uplinks: Uplinks = 1
    up: Rate | None = None
    down: Rate | None = None
    queue: Size | None = None
    mtu: Mtu | None = None
    icmp: bool = True
    latency: Duration = 0.0
    jitter: Duration = 0.0
    loss: Loss = 0.0

    @property
    def down_bps(self) -> float | None:
        """Rate from the parent, bit/s."""
        return self.up if self.down is None else self.down

    @property
    def mean_latency_s(self) -> float:
        """Mean delay of the link to the parent, jitter included, each way."""
        return self.latency + self.jitter / 2


class Machine(Written):
    """A physical machine that holds one or more hosts.

    Attributes:
        name: unique among switches, machines and hosts.
        switch: the top-of-rack switch that it is connected to.
        rate: wire rate of its NIC, each way, in bit/s, None = unlimited.
        machine_rate: wire rate between two hosts inside it, in bit/s, None = unlimited.
    """

    name: NodeName
    switch: NodeName
    rate: Rate | None = None
    machine_rate: Rate | None = None


class Host(Written):
    """A host (VM) as its tenant sees it.

    Attributes:
        name: unique among switches, machines and hosts; also its hostname.
        machine: the machine that it runs on. A host on a machine of its own has `switch` instead.
        switch: the top-of-rack switch of a host on a machine of its own.
        rate: the wire rate of that host's NIC, each way, in bit/s.
        egress: cap on what it sends to other machines (hose), wire bit/s.
        ingress: cap on what it receives from other machines, wire bit/s.
        burst: token bucket depth of its caps, bytes.
        queue: bytes that wait before each cap, None = as many as pass in 50 ms.
        mtu: MTU of its interface and of all links up to its switch; hosts of one machine have the same.
        policer: whether its caps drop what exceeds them instead of letting it wait.
        latency: delay of what it sends to, and of what it receives from, other machines, in seconds.
        jitter: largest random addition to this latency, in seconds; packets keep their order.
        loss: share of packets lost on the way to, and on the way from, other machines.
        cpus: cores that tasks may use.
        memory_bytes: memory that tasks may use.
        storage_bytes: disk space that tasks may use.
    """

    name: NodeName
    machine: NodeName | None = None
    switch: NodeName | None = None
    rate: Rate | None = None
    egress: Rate | None = None
    ingress: Rate | None = None
    burst: Size = DEFAULT_BURST_BYTES
    queue: Size | None = None
    mtu: Mtu = DEFAULT_MTU_BYTES
    policer: bool = False
    latency: Duration = 0.0
    jitter: Duration = 0.0
    loss: Loss = 0.0
    cpus: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    memory_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    storage_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0

    @property
    def mean_latency_s(self) -> float:
        """Mean delay to and from other machines, jitter included, each way."""
        return self.latency + self.jitter / 2


class Topology(Written):
    """The whole description. Every reference resolves and the switches form one tree.

    Attributes:
        format: version of the format.
        addresses: address family of hosts in a lab: `ipv4`, `ipv6`, or `dual` for both.
        switch: the switches.
        machine: the machines.
        host: the hosts.
    """

    format: Literal["gavotte/topology/1"]
    addresses: Literal["ipv4", "ipv6", "dual"] = "ipv4"
    switch: Annotated[list[Switch], Field(min_length=1, max_length=MOST_HOSTS)]
    machine: Annotated[list[Machine], Field(max_length=MOST_HOSTS)] = []
    host: Annotated[list[Host], Field(min_length=1, max_length=MOST_HOSTS)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kinds: dict[str, list[str]] = {
            "switch": [s.name for s in self.switch],
            "machine": [m.name for m in self.machine],
            "host": [h.name for h in self.host],
        }
        taken: dict[str, str] = {}
        for kind, names in kinds.items():
            check_unique_hosts(kind, names, field="name")
            for index, name in enumerate(names):
                if name.lower() in taken:
                    raise problem(
                        f"`{name}` already names a {taken[name.lower()]}",
                        "use different names",
                        field=f"{kind}[{index}].name",
                    )
            taken.update(dict.fromkeys((name.lower() for name in names), kind))
        switches = set(kinds["switch"])
        machines = set(kinds["machine"])
        for index, switch in enumerate(self.switch):
            if switch.parent is not None:
                check_known(switch.parent, switches, field=f"switch[{index}].parent", what="switch")
            elif switch.up is not None or switch.down is not None:
                raise problem("has a rate but no parent to send to", "remove up/down", field=f"switch[{index}]")
            elif switch.uplinks != 1:
                raise problem("has uplinks but no parent", "remove uplinks", field=f"switch[{index}]")
            elif switch.mtu is not None:
                raise problem("has an MTU but no parent to send to", "remove mtu", field=f"switch[{index}]")
            elif switch.latency or switch.jitter or switch.loss:
                remedy = "remove latency, jitter and loss, or set them on the switches below"
                raise problem(
                    "has no link to a parent that could delay or lose packets", remedy, field=f"switch[{index}]"
                )
        check_tree("switch", {s.name: s.parent for s in self.switch}, single_root=True)
        for index, machine in enumerate(self.machine):
            check_known(machine.switch, switches, field=f"machine[{index}].switch", what="switch")
        mtus: dict[str, int] = {}
        for index, host in enumerate(self.host):
            self._check_host(index, host, switches, machines)
            if host.machine is not None and mtus.setdefault(host.machine, host.mtu) != host.mtu:
                raise problem(
                    f"is {host.mtu}, but {mtus[host.machine]} for another host of machine `{host.machine}`",
                    "hosts of one machine meet on its bridge: give them the same `mtu`",
                    field=f"host[{index}].mtu",
                )
        return self

    @staticmethod
    def _check_host(index: int, host: Host, switches: set[str], machines: set[str]) -> None:
        here = f"host[{index}]"
        if (host.machine is None) == (host.switch is None):
            raise problem(
                "needs exactly one of `machine` and `switch`",
                'write machine = "..." or switch = "..."',
                field=here,
            )
        if host.machine is not None:
            check_known(host.machine, machines, field=f"{here}.machine", what="machine")
            if host.rate is not None:
                raise problem("belongs to the machine", "move it to the machine", field=f"{here}.rate")
        if host.switch is not None:
            check_known(host.switch, switches, field=f"{here}.switch", what="switch")
        if host.policer and host.egress is None and host.ingress is None:
            raise problem("has no cap to enforce", "set egress or ingress, or remove policer", field=f"{here}.policer")
        if host.policer and host.queue is not None:
            raise problem("has no effect with a policer", "remove queue or policer", field=f"{here}.queue")


def read_topology(path: str | Path) -> Topology:
    """Read a `*.topology.toml`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_noun(Topology, path, parse_toml)
