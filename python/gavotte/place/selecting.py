"""Selection of hosts for tasks by labels and patterns, as the command line accepts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gavotte.errors import GavotteError
from gavotte.formats.app import App
from gavotte.formats.network import Network
from gavotte.formats.parts.names import known_as, meant, unknown_host
from gavotte.place.merge import task_keys

if TYPE_CHECKING:
    from gavotte.formats.inventory import Inventory


def select_hosts(
    network: Network,
    apps: Sequence[App],
    *,
    only: Iterable[tuple[str, Sequence[str]]] = (),
    labels: Iterable[tuple[str, str, str]] = (),
) -> dict[str, list[str]]:
    """Return the hosts that each task may use, for `place(allowed=...)`. Tasks that no pattern matches are left out.

    A host must meet all demands on its task.

    Args:
        network: has the hosts and their labels.
        apps: applications whose tasks the patterns match.
        only: (task pattern, host patterns), as `("map-*", ["vm1", "vm2"])`.
        labels: (task pattern, label, value), as `("map-*", "zone", "a")`.

    Raises:
        GavotteError: when a pattern matches no task, or leaves a task without a host.
    """
    keys = list(task_keys(apps))
    chosen: dict[str, list[str]] = {}

    def narrow(pattern: str, hosts: Sequence[str], why: str) -> None:
        tasks = [key for key in keys if fnmatchcase(key, pattern)]
        if not tasks:
            raise GavotteError(f"`{pattern}` matches no task", hint=meant(pattern, keys))
        for task in tasks:
            chosen[task] = [host for host in chosen.get(task, network.names) if host in hosts]
            if not chosen[task]:
                raise GavotteError(f"{why} leaves no host for task `{task}`", hint="allow more hosts")

    for pattern, wanted in only:
        for each in wanted:
            if not any(_names_host(each, name) for name in network.names):
                raise unknown_host(each, network.names, "the network")
        hosts = [name for name in network.names if any(_names_host(each, name) for each in wanted)]
        narrow(pattern, hosts, f"`{pattern}={','.join(wanted)}`")
    for pattern, label, value in labels:
        hosts = [host.name for host in network.hosts if host.labels.get(label) == value]
        narrow(pattern, hosts, f"the label `{label}={value}`")
    return chosen


def with_inventory(network: Network, inventory: Inventory) -> Network:
    """Return the Network with labels, resources, core speeds and storage of its hosts from an Inventory.

    A Network that was measured has none of these. Labels and resources are added to those of the Network.

    Raises:
        GavotteError: when the Inventory lacks a host of the Network.
    """
    known = {host.name: host for host in inventory.host}
    hosts = []
    for host in network.hosts:
        name = known_as(host.name, known)
        if name not in known:
            raise unknown_host(host.name, known, "the Inventory")
        own = known[name]
        changes: dict[str, object] = {
            "labels": host.labels | own.labels,
            "resources": host.resources | own.resources,
            "storage_bytes": own.storage_bytes or host.storage_bytes,
        }
        if "core_speed" in own.model_fields_set:
            changes["core_speed"] = own.core_speed
        hosts.append(host.model_copy(update=changes))
    return network.model_copy(update={"hosts": hosts})


def _names_host(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a host's name; hosts' names are compared without regard to case."""
    return fnmatchcase(name.lower(), pattern.lower())
