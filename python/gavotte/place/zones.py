"""Zones of hosts, by which constraints count tasks: hosts, machines, racks, or the values of a label."""

from __future__ import annotations

from collections.abc import Mapping

from gavotte.errors import GavotteError
from gavotte.formats.network import Network

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "zone": ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    "rack": ("topology.kubernetes.io/rack",),
}
"""Keys of labels that mean the same as a short one."""


def zones_by(network: Network, by: str) -> list[str]:
    """Return the zone of each host.

    Args:
        network: the hosts, with their machines, groups and labels.
        by: `host`, `machine`, `rack`, or the key of a label. A rack is the label `rack` or, if no host has it, the
            innermost group of a host. A host of no known machine or group is a zone of its own.

    Raises:
        GavotteError: when a host lacks the label, or no racks are known.
    """
    names = network.names
    if by == "host":
        return names
    if by == "machine":
        return [f"host {host.name}" if host.machine is None else f"machine {host.machine}" for host in network.hosts]
    keys = (by, *SYNONYMS.get(by, ()))
    values = [next((host.labels[key] for key in keys if key in host.labels), None) for host in network.hosts]
    if by == "rack" and not any(values):
        return _by_group(network)
    for name, value in zip(names, values, strict=True):
        if value is None:
            raise GavotteError(
                f"host `{name}` has no label `{by}`, by which a constraint counts tasks",
                hint="label all hosts, or use `host`, `machine` or `rack`",
            )
    return [f"{by} {value}" for value in values]


def _by_group(network: Network) -> list[str]:
    if not network.groups:
        raise GavotteError(
            "the network has no racks, by which a constraint counts tasks",
            hint="label hosts with `rack`, or measure the network's groups",
        )
    zone = [f"host {name}" for name in network.names]
    size = [len(network.hosts) + 1] * len(zone)
    at = {name: index for index, name in enumerate(network.names)}
    for group in network.groups:
        for member in group.members:
            if len(group.members) < size[at[member]]:
                zone[at[member]], size[at[member]] = f"group {group.name}", len(group.members)
    return zone
