"""Topology: a described network, for lab and simulator alike (`*.topology.toml`).

A tree of switches, machines under them, and hosts (VMs) on machines. Rates are wire rates as a shaper counts
them; `GOODPUT_PER_WIRE` of them is what TCP delivers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gavotte.formats.names import MOST_HOSTS, HostName, check_known, check_tree, check_unique
from gavotte.formats.rates import Rate, Size
from gavotte.formats.reading import Written, parse_toml, problem, read_noun

FORMAT = "gavotte/topology/1"
DEFAULT_BURST_BYTES = 32 * 1024


class Switch(Written):
    """A switch of the tree; the one without a parent is the root.

    Attributes:
        name: unique among switches, machines and hosts.
        parent: the switch above.
        up: wire rate towards the parent in bit/s, None = unlimited.
        down: wire rate from the parent in bit/s; `up` if left out.
        queue: bytes that wait before each of the two shapers, None = 50 ms worth.
    """

    name: HostName
    parent: HostName | None = None
    up: Rate | None = None
    down: Rate | None = None
    queue: Size | None = None

    @property
    def down_bps(self) -> float | None:
        """Rate from the parent, bit/s."""
        return self.up if self.down is None else self.down


class Machine(Written):
    """A physical machine that holds one or more hosts.

    Attributes:
        name: unique among switches, machines and hosts.
        switch: the top-of-rack switch it hangs on.
        rate: wire rate of its NIC, each way, in bit/s, None = unlimited.
        machine_rate: wire rate between two hosts inside it, in bit/s, None = unlimited.
    """

    name: HostName
    switch: HostName
    rate: Rate | None = None
    machine_rate: Rate | None = None


class Host(Written):
    """A host (VM) as its tenant sees it.

    Attributes:
        name: unique among switches, machines and hosts; also its hostname.
        machine: the machine it runs on; or, on a machine of its own:
        switch: the top-of-rack switch, and
        rate: the wire rate of its NIC, each way, in bit/s.
        egress: cap on what it sends to other machines (hose), wire bit/s.
        ingress: cap on what it receives from other machines, wire bit/s.
        burst: token bucket depth of its caps, bytes.
        queue: bytes that wait before each cap, None = 50 ms worth.
        cpus: cores that tasks may use.
        memory_bytes: memory that tasks may use.
        storage_bytes: room on disk that tasks may use.
    """

    name: HostName
    machine: HostName | None = None
    switch: HostName | None = None
    rate: Rate | None = None
    egress: Rate | None = None
    ingress: Rate | None = None
    burst: Size = DEFAULT_BURST_BYTES
    queue: Size | None = None
    cpus: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    memory_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0
    storage_bytes: Annotated[int, Field(ge=0, le=1 << 60)] = 0


class Topology(Written):
    """The whole description. Every reference resolves and the switches form one tree."""

    format: Literal["gavotte/topology/1"]
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
            check_unique(kind, names, field="name")
            for index, name in enumerate(names):
                if name in taken:
                    raise problem(
                        f"`{name}` already names a {taken[name]}",
                        "use different names",
                        field=f"{kind}[{index}].name",
                    )
            taken.update(dict.fromkeys(names, kind))
        switches = set(kinds["switch"])
        machines = set(kinds["machine"])
        for index, switch in enumerate(self.switch):
            if switch.parent is not None:
                check_known(switch.parent, switches, field=f"switch[{index}].parent", what="switch")
            elif switch.up is not None or switch.down is not None:
                raise problem("has a rate but no parent to send to", "remove up/down", field=f"switch[{index}]")
        check_tree("switch", {s.name: s.parent for s in self.switch}, single_root=True)
        for index, machine in enumerate(self.machine):
            check_known(machine.switch, switches, field=f"machine[{index}].switch", what="switch")
        for index, host in enumerate(self.host):
            self._check_host(index, host, switches, machines)
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
                raise problem("is the machine's to set", "move it to the machine", field=f"{here}.rate")
        if host.switch is not None:
            check_known(host.switch, switches, field=f"{here}.switch", what="switch")


def read_topology(path: str | Path) -> Topology:
    """Reads a `*.topology.toml`.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_noun(Topology, path, parse_toml)
