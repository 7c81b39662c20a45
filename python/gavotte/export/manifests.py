"""Write the switches of a Network as objects of Kubernetes, for Kueue and Volcano.

A real API server accepts the objects with the projects' own definitions (`tests/export/test_crds_in_cluster.py`).
"""

from __future__ import annotations

import json
import re

from gavotte.export.labels import NODE_NAME, Keys, check_nodes
from gavotte.export.tree import fitting, tree_of
from gavotte.formats.network import Network

OBJECT_NAME = re.compile(rf"(?=.{{1,253}}$){NODE_NAME.pattern}")
"""Name of an object in Kubernetes."""


def kueue(network: Network, keys: Keys) -> str:
    """Return a Topology of Kueue, `gavotte`: the labels of all tiers, outermost first, then the host itself.

    Raises:
        GavotteError: when the groups form no tree, or have more tiers than the labels.
    """
    levels = [*reversed(keys.of_tiers(tree_of(network).height)), "kubernetes.io/hostname"]
    lines = [
        "apiVersion: kueue.x-k8s.io/v1beta2",
        "kind: Topology",
        "metadata:",
        "  name: gavotte",
        "spec:",
        "  levels:",
    ]
    lines += [f"  - nodeLabel: {level}" for level in levels]
    return "".join(f"{line}\n" for line in lines)


def volcano(network: Network, _: Keys) -> str:
    """Return a HyperNode of Volcano for each switch. Switches of hosts have tier 1, those around them higher ones.

    Raises:
        GavotteError: when the groups form no tree, or a host cannot be a node.
    """
    check_nodes(network)
    root = tree_of(network)
    lines: list[str] = []
    ways = [(root, root.height)]
    while ways:
        switch, tier = ways.pop()
        kind = "HyperNode" if switch.children else "Node"
        lines += ["---", "apiVersion: topology.volcano.sh/v1alpha1", "kind: HyperNode", "metadata:"]
        lines += [f"  name: {json.dumps(fitting(switch.name, OBJECT_NAME))}", "  labels:"]
        lines += ["    app.kubernetes.io/managed-by: gavotte", "spec:"]
        lines += [f"  tier: {tier if switch.children else 1}", "  members:"]
        members = [fitting(child.name, OBJECT_NAME) for child in switch.children] or switch.hosts
        for member in members:
            lines += [f"  - type: {kind}", "    selector:", "      exactMatch:", f"        name: {json.dumps(member)}"]
        ways += [(child, tier - 1) for child in reversed(switch.children)]
    return "".join(f"{line}\n" for line in lines)
