"""Nodes as `kubectl get nodes -o json` lists them, or the agents on them as `kubectl get pods -o json` does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from gavotte.agents.binary import AGENT
from gavotte.agents.sources.listings.machine import Machine
from gavotte.errors import FormatError
from gavotte.formats.files.reading import Emitted, validate
from gavotte.formats.parts.routes import CONTROL_PORT, TlsRoute

PLACES = (
    "topology.kubernetes.io/",
    "topology.k8s.aws/",
    "cloud.google.com/gce-topology",
    "oci.oraclecloud.com/host.",
    "oci.oraclecloud.com/rdma.",
    "fabric.topograph.run/",
    "accelerator.topograph.run/",
    "network.topology.nvidia.com/",
)
"""Beginnings of the labels with which providers say where a node is."""

APP = "app.kubernetes.io/name"
"""Label of the agents' pods. Its value is also the name of their container, and the one in their certificate."""


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
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class _NodeSpec(Emitted):
    unschedulable: bool = False


class _Node(Emitted):
    metadata: _Metadata
    spec: _NodeSpec = _NodeSpec()
    status: _Status


class _Nodes(Emitted):
    items: list[_Node]


class _Port(Emitted):
    name: str = ""
    port: int = Field(alias="containerPort", ge=1, le=65535)


class _Container(Emitted):
    name: str
    ports: list[_Port] = []


class _PodSpec(Emitted):
    node: str = Field(alias="nodeName", default="")
    containers: list[_Container] = []


class _PodStatus(Emitted):
    address: str = Field(alias="podIP", default="")
    conditions: list[_Condition] = []


class _Pod(Emitted):
    metadata: _Metadata
    spec: _PodSpec
    status: _PodStatus


class _Pods(Emitted):
    items: list[_Pod]


def of_kubernetes(document: Any, path: str) -> list[Machine]:
    """Return the machines of a list of nodes. A node that is not ready, or takes no pods, is absent.

    Cores and memory are those that pods may use.

    Raises:
        FormatError: when the list is damaged.
    """
    machines = []
    for i, node in enumerate(validate(_Nodes, document, path).items):
        of_kind = {kind: [each.address for each in node.status.addresses if each.kind == kind] for kind in _KINDS}
        ready = next((each.status for each in node.status.conditions if each.kind == "Ready"), "True")
        amounts = node.status.capacity | node.status.allocatable
        memory_bytes = _amount(amounts, "memory", path, f"items[{i}]")
        labels = {key: value for key, value in node.metadata.labels.items() if key.startswith(PLACES)}
        machines.append(
            Machine(
                ident=node.metadata.name,
                name=node.metadata.name,
                where=f"items[{i}]",
                private=tuple(of_kind["InternalIP"]),
                public=next(iter(of_kind["ExternalIP"]), ""),
                labels=labels,
                cpus=_amount(amounts, "cpu", path, f"items[{i}]"),
                memory_bytes=None if memory_bytes is None else int(memory_bytes),
                absent="not ready" if ready != "True" else "unschedulable" if node.spec.unschedulable else "",
            )
        )
    return machines


def lists_pods(document: Any) -> bool:
    """Return whether a list of Kubernetes is one of pods."""
    first = document["items"][0] if document["items"] else None
    return document["kind"] == "PodList" or (isinstance(first, dict) and first.get("kind") == "Pod")


def of_agents(document: Any, path: str) -> list[Machine]:
    """Return the nodes on which agents run, of a list of pods. An agent that is not ready is absent.

    Raises:
        FormatError: when no pod is an agent's, or two are on one node.
    """
    machines: dict[str, Machine] = {}
    for i, pod in enumerate(validate(_Pods, document, path).items):
        if pod.metadata.labels.get(APP) != AGENT or not pod.spec.node:
            continue
        where = f"items[{i}]"
        if pod.spec.node in machines:
            raise FormatError(path, where, f"is another agent on `{pod.spec.node}`", "list one namespace: kubectl -n")
        ports = {port.name: port.port for each in pod.spec.containers if each.name == AGENT for port in each.ports}
        route = TlsRoute(pod.status.address, ports.get("control", CONTROL_PORT), AGENT)
        ready = next((each.status for each in pod.status.conditions if each.kind == "Ready"), "False")
        machines[pod.spec.node] = Machine(
            ident=pod.spec.node,
            name=pod.spec.node,
            where=where,
            private=(pod.status.address,) if pod.status.address else (),
            agent=route if pod.status.address else None,
            absent="" if ready == "True" else "its agent is not ready",
        )
    if not machines:
        raise FormatError(path, "items", f"has no pod with {APP}={AGENT} on a node", "list the pods of the agents")
    return list(machines.values())


def _amount(amounts: Mapping[str, str], name: str, path: str, where: str) -> float | None:
    """Return a quantity such as `3920m` or `16Gi` in its base unit; None = there is none, or it is 0.

    Raises:
        FormatError: when it is not a quantity.
    """
    if name not in amounts:
        return None
    match = _QUANTITY.fullmatch(amounts[name])
    if not match:
        raise FormatError(path, where, f"{name} `{amounts[name][:40]}` is not a quantity", "use e.g. 3920m or 16Gi")
    return float(match[1]) * _UNITS[match[2] or ""] or None


_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,2})?)([KMGTPE]i|[numkMGTPE])?")
"""A quantity of Kubernetes. A number that ends in `E` without digits is in units of 10^18."""

_UNITS = (
    {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3}
    | {letter: 1000.0**power for power, letter in enumerate("kMGTPE", 1)}
    | {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}
)

_KINDS = ("InternalIP", "ExternalIP")
