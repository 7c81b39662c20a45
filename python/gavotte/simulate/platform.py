"""A Topology or a Network as the compiled simulator takes it. None becomes infinity: unlimited."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.errors import GavotteError
from gavotte.formats.network import Network, read_network
from gavotte.formats.topology import Topology, read_topology


@dataclass(frozen=True)
class _Switch:
    name: str
    uplinks: list[tuple[int, float, float]]


@dataclass(frozen=True)
class _Machine:
    name: str
    switch: int
    rate_bps: float
    machine_rate_bps: float


@dataclass(frozen=True)
class _Host:
    name: str
    machine: int
    egress_bps: float
    ingress_bps: float


@dataclass(frozen=True)
class _Group:
    name: str
    members: list[int]
    up_bps: float
    down_bps: float
    parent: int | None


def read_platform(path: str | Path) -> Topology | Network:
    """Reads a Network from a file whose name ends in `.json`, else a Topology.

    Raises:
        FormatError: naming file, field and remedy.
    """
    return read_network(path) if Path(path).suffix == ".json" else read_topology(path)


def host_names(network: Topology | Network) -> list[str]:
    """Names of the hosts, in order."""
    return [host.name for host in network.host] if isinstance(network, Topology) else network.names


def build_platform(network: Topology | Network, payload_share: float, seed: int) -> _core.Platform:
    """Builds the compiled platform.

    Args:
        network: hosts and what joins them.
        payload_share: share of a Topology's rates that carries the flows' bytes.
        seed: decides which of several equal paths each flow takes.

    Raises:
        GavotteError: when something in it makes no sense.
    """
    try:
        if isinstance(network, Topology):
            return _topology(network, payload_share, seed)
        return _network(network)
    except ValueError as error:
        raise GavotteError(str(error)) from None


def _topology(topology: Topology, payload_share: float, seed: int) -> _core.Platform:
    def rate(bps: float | None) -> float:
        return math.inf if bps is None else bps * payload_share

    switch_at = {switch.name: index for index, switch in enumerate(topology.switch)}
    switches = [
        _Switch(s.name, [] if s.parent is None else [(switch_at[s.parent], rate(s.up), rate(s.down_bps))])
        for s in topology.switch
    ]
    machines = [_Machine(m.name, switch_at[m.switch], rate(m.rate), rate(m.machine_rate)) for m in topology.machine]
    machine_at = {machine.name: index for index, machine in enumerate(machines)}
    hosts = []
    for host in topology.host:
        if host.machine is not None:
            machine = machine_at[host.machine]
        else:
            assert host.switch is not None, "the format demands one of the two"
            machine = len(machines)
            machines.append(_Machine(host.name, switch_at[host.switch], rate(host.rate), math.inf))
        hosts.append(_Host(host.name, machine, rate(host.egress), rate(host.ingress)))
    return _core.Platform.topology(switches, machines, hosts, seed)


def _network(network: Network) -> _core.Platform:
    host_at = {name: index for index, name in enumerate(network.names)}
    group_at = {group.name: index for index, group in enumerate(network.groups)}
    # A host without a machine is alone on one: it gets a key that no name can equal.
    machine_at: dict[str | int, int] = {}
    hosts = []
    for index, host in enumerate(network.hosts):
        machine = machine_at.setdefault(index if host.machine is None else host.machine, len(machine_at))
        hosts.append(_Host(host.name, machine, _rate(host.egress_bps), _rate(host.ingress_bps)))
    groups = [
        _Group(
            name=group.name,
            members=[host_at[member] for member in group.members],
            up_bps=_rate(group.up_bps),
            down_bps=_rate(group.down_bps),
            parent=None if group.parent is None else group_at[group.parent],
        )
        for group in network.groups
    ]
    rates = _matrix(network.rate_bps, math.inf)
    return _core.Platform.network(hosts, rates, _matrix(network.latency_s, math.nan), groups, network.sharing)


def _matrix(rows: list[list[float | None]], unknown: float) -> npt.NDArray[np.float64]:
    return np.array([[unknown if value is None else value for value in row] for row in rows], dtype=np.float64)


def _rate(bps: float | None) -> float:
    return math.inf if bps is None else bps
