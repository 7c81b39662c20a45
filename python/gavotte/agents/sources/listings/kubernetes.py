"""Machines as `kubectl get nodes -o json` lists them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gavotte.agents.sources.listings.machine import Machine
from gavotte.formats.files.reading import Emitted, validate

PLACES = (
    "topology.kubernetes.io/",
    "topology.k8s.aws/",
    "cloud.google.com/gce-topology",
    "oci.oraclecloud.com/host.",
    "fabric.topograph.run/",
    "accelerator.topograph.run/",
    "network.topology.nvidia.com/",
)
"""Beginnings of the labels with which providers say where a node is."""


class _Metadata(Emitted):
    name: str
    labels: dict[str, str] = {}


class _Address(Emitted):
    kind: str = Field(alias="type")
    address: str


class _Condition(Emitted):
    kind: str = Field(alias="type")
    status: str


class _Status(Emitted):
    addresses: list[_Address] = []
    conditions: list[_Condition] = []


class _Node(Emitted):
    metadata: _Metadata
    status: _Status


class _Nodes(Emitted):
    items: list[_Node]


def of_kubernetes(document: Any, path: str) -> list[Machine]:
    """Return the machines of a list of nodes. A node that is not ready is absent."""
    machines = []
    for i, node in enumerate(validate(_Nodes, document, path).items):
        of_kind = {kind: [each.address for each in node.status.addresses if each.kind == kind] for kind in _KINDS}
        ready = next((each.status for each in node.status.conditions if each.kind == "Ready"), "True")
        labels = {key: value for key, value in node.metadata.labels.items() if key.startswith(PLACES)}
        machines.append(
            Machine(
                ident=node.metadata.name,
                name=node.metadata.name,
                where=f"items[{i}]",
                private=tuple(of_kind["InternalIP"]),
                public=next(iter(of_kind["ExternalIP"]), ""),
                labels=labels,
                absent="" if ready == "True" else "not ready",
            )
        )
    return machines


_KINDS = ("InternalIP", "ExternalIP")
