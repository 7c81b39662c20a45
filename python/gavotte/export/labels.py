"""Write the switches above each host as labels: for Topograph's clients, for Kubernetes and for Ray."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

from gavotte.errors import GavotteError
from gavotte.export.tree import fitting, tiers, tree_of
from gavotte.formats.network import Network

LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
"""Value of a label in Kubernetes that is not empty."""

RAY_VALUE = re.compile(rf"(?!0$){LABEL_VALUE.pattern}")
"""Value of a label in Ray, other than 0.

Ray drops resources of value 0. Its version 2.60 keeps such labels; others were not tried.
"""

RAY_HOST = "gavotte.io/host"
"""Label of a node of Ray with the host's name in the Network."""

NODE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
"""Name of a node in Kubernetes."""


@dataclass(frozen=True)
class Keys:
    """Names of the labels that describe where a node is.

    Attributes:
        domain: label of hosts that communicate without the network.
        sub_domain: label of hosts that are nearer to each other within such a domain; empty = none.
        named: labels of the switches above a node, nearest first; empty = `numbered`, without an end.
        numbered: prefix of labels whose number is the tier, 0 for the nearest switch.
    """

    domain: str
    named: tuple[str, ...] = ()
    numbered: str = ""
    sub_domain: str = ""

    def of_tiers(self, count: int) -> list[str]:
        """Return the labels of that many tiers, nearest first.

        Raises:
            GavotteError: when there are more tiers than names.
        """
        if not self.named:
            return [f"{self.numbered}{tier}" for tier in range(count)]
        if count > len(self.named):
            raise GavotteError(
                f"the network has {count} tiers of switches, and the older labels have {len(self.named)}",
                hint="leave out --older-labels, or remove groups",
            )
        return list(self.named[:count])


CURRENT = Keys(
    "accelerator.topograph.run/domain",
    numbered="fabric.topograph.run/tier-",
    sub_domain="accelerator.topograph.run/sub-domain",
)
"""Labels of Topograph 1.0."""

_OLDER = "network.topology.nvidia.com/"
OLDER = Keys(f"{_OLDER}accelerator", named=(f"{_OLDER}leaf", f"{_OLDER}spine", f"{_OLDER}core"))
"""Labels of Topograph 0.3 to 0.5."""


def graph(network: Network, keys: Keys) -> str:
    """Return the JSON of Topograph's `graph` engine: `{"instances": [{"id", "network_layers", "labels"}]}`.

    Raises:
        GavotteError: when the groups form no tree.
    """
    domains = _domains(network, keys)
    layers = tiers(tree_of(network))
    instances = [
        {"id": host, "network_layers": layers[host]} | ({"labels": domains[host]} if host in domains else {})
        for host in sorted(layers)
    ]
    return json.dumps({"instances": instances}, indent=2, ensure_ascii=False) + "\n"


def kubectl(network: Network, keys: Keys) -> str:
    """Return a `kubectl label` command for each node.

    Raises:
        GavotteError: when the groups form no tree, or a host cannot be a node.
    """
    check_nodes(network)
    lines = [
        " ".join(["kubectl label --overwrite node", host, *(f"{key}={value}" for key, value in labels.items())])
        for host, labels in labels_of(network, keys, LABEL_VALUE).items()
    ]
    return "".join(f"{line}\n" for line in lines)


def ray_start(network: Network, keys: Keys) -> str:
    """Return a command that starts Ray on each host with its labels; `ray.io/gpu-domain` is its nearest switch.

    `gavotte.io/host` is the host itself, by which the bundles of a Placement know their nodes.

    Raises:
        GavotteError: when the groups form no tree.
    """
    lines = []
    for host, labels in labels_of(network, keys, RAY_VALUE).items():
        own = {"ray.io/gpu-domain": labels[keys.of_tiers(1)[0]], RAY_HOST: fitting(host, RAY_VALUE)}
        listed = ",".join(f"{key}={value}" for key, value in (own | labels).items())
        lines.append(f'ssh -n {host} ray start --address="$RAY_HEAD" --labels={listed}')
    return "".join(f"{line}\n" for line in lines)


def labels_of(network: Network, keys: Keys, fits: re.Pattern[str]) -> dict[str, dict[str, str]]:
    """Return the labels of each host, in the Network's order.

    Args:
        network: the hosts and their groups.
        keys: names of the labels.
        fits: values that may be written; others are replaced, as `fitting` says.

    Raises:
        GavotteError: when the groups form no tree, or have more tiers than the labels.
    """
    root = tree_of(network)
    above, names, domains = tiers(root), keys.of_tiers(root.height), _domains(network, keys)
    result = {}
    for host in network.names:
        labels = dict(zip(names, (fitting(name, fits) for name in above[host]), strict=True))
        labels.update((key, fitting(value, fits)) for key, value in domains.get(host, {}).items())
        result[host] = labels
    return result


def check_nodes(network: Network) -> None:
    """Refuse a host whose name no node of Kubernetes can have.

    Raises:
        GavotteError: naming the first such host.
    """
    for host in network.names:
        check_node(host)


def check_node(host: str) -> None:
    """Refuse the name of a host that no node of Kubernetes can have.

    Raises:
        GavotteError: naming the host.
    """
    if not NODE_NAME.fullmatch(host):
        raise GavotteError(
            f"host `{host}` cannot be a node of Kubernetes, whose names have lower-case letters, digits, - and .",
            hint="measure the nodes by the names that `kubectl get nodes` shows",
        )


def _domains(network: Network, keys: Keys) -> dict[str, dict[str, str]]:
    """Return the labels of each host that shares its machine with another one.

    1. Its domain is the machine.
    2. Its sub-domain is the smallest group of several hosts of the machine that are not all of its hosts.
    """
    machines = {host.name: host.machine for host in network.hosts if host.machine is not None}
    counts = Counter(machines.values())
    labels = {name: {keys.domain: machine} for name, machine in machines.items() if counts[machine] > 1}
    if keys.sub_domain:
        for group in sorted(network.groups, key=lambda group: -len(group.members)):
            around = {machines.get(host) for host in group.members}
            (machine, *others) = around
            if not others and machine is not None and 1 < len(group.members) < counts[machine]:
                for host in group.members:
                    labels[host][keys.sub_domain] = group.name
    return labels
