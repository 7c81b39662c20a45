"""Machines as the command lines of AWS, Google Cloud, Azure and OpenStack list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from gavotte.agents.sources.listings.machine import ZONE, Machine
from gavotte.formats.files.reading import Emitted, validate

LAYER = "topology.k8s.aws/network-node-layer-{}"
"""Labels of the network nodes above an EC2 instance, from the top."""

GOOGLE = {level: f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host")}
"""Labels of the places of a Compute Engine instance."""


class _Tag(Emitted):
    key: str = Field(alias="Key")
    value: str = Field("", alias="Value")


class _State(Emitted):
    name: str = Field(alias="Name")


class _Placement(Emitted):
    zone: str | None = Field(None, alias="AvailabilityZone")


class _Instance(Emitted):
    ident: str = Field(alias="InstanceId")
    private: str | None = Field(None, alias="PrivateIpAddress")
    ipv6: str | None = Field(None, alias="Ipv6Address")
    public: str | None = Field(None, alias="PublicIpAddress")
    state: _State | None = Field(None, alias="State")
    placement: _Placement | None = Field(None, alias="Placement")
    tags: list[_Tag] | None = Field(None, alias="Tags")


class _Reservation(Emitted):
    instances: list[_Instance] = Field([], alias="Instances")


class _Reservations(Emitted):
    reservations: list[_Reservation] = Field(alias="Reservations")


class _Placed(Emitted):
    ident: str = Field(alias="InstanceId")
    nodes: list[str] | None = Field(None, alias="NetworkNodes")
    zone: str | None = Field(None, alias="AvailabilityZone")


class _Topology(Emitted):
    instances: list[_Placed] = Field(alias="Instances")


def of_aws(document: Any, path: str) -> list[Machine]:
    """Return the machines of `aws ec2 describe-instances`."""
    machines = []
    for i, reservation in enumerate(validate(_Reservations, document, path).reservations):
        for j, instance in enumerate(reservation.instances):
            state = "running" if instance.state is None else instance.state.name
            zone = instance.placement.zone if instance.placement else None
            machines.append(
                Machine(
                    ident=instance.ident,
                    name=next((tag.value for tag in instance.tags or () if tag.key == "Name"), ""),
                    where=f"Reservations[{i}].Instances[{j}]",
                    private=tuple(filter(None, (instance.private, instance.ipv6))),
                    public=instance.public or "",
                    labels={ZONE: zone} if zone else {},
                    absent="" if state == "running" else state,
                )
            )
    return machines


def of_aws_topology(document: Any, path: str) -> list[Machine]:
    """Return what `aws ec2 describe-instance-topology` knows of machines: where they are."""
    machines = []
    for i, instance in enumerate(validate(_Topology, document, path).instances):
        labels = {LAYER.format(layer): node for layer, node in enumerate(instance.nodes or (), 1)}
        labels |= {ZONE: instance.zone} if instance.zone else {}
        machines.append(Machine(ident=instance.ident, where=f"Instances[{i}]", labels=labels))
    return machines


class _AccessConfig(Emitted):
    public: str | None = Field(None, alias="natIP")


class _GoogleInterface(Emitted):
    private: str | None = Field(None, alias="networkIP")
    access: list[_AccessConfig] | None = Field(None, alias="accessConfigs")


class _GoogleStatus(Emitted):
    places: dict[str, Any] | None = Field(None, alias="physicalHostTopology")


class _GoogleInstance(Emitted):
    name: str
    status: str = "RUNNING"
    zone: str = ""
    interfaces: list[_GoogleInterface] = Field([], alias="networkInterfaces")
    resources: _GoogleStatus | None = Field(None, alias="resourceStatus")


class _GoogleInstances(Emitted):
    instance: list[_GoogleInstance]


def of_google(document: Any, path: str) -> list[Machine]:
    """Return the machines of `gcloud compute instances list --format=json`."""
    machines = []
    for i, instance in enumerate(validate(_GoogleInstances, {"instance": document}, path).instance):
        zone = instance.zone.rpartition("/")[2]
        places = (instance.resources.places if instance.resources else None) or {}
        labels = {GOOGLE[level]: str(places[level]) for level in GOOGLE if places.get(level)}
        public = [access.public for each in instance.interfaces for access in each.access or () if access.public]
        machines.append(
            Machine(
                ident=f"{instance.name}.{zone}" if zone else instance.name,
                name=instance.name,
                where=f"instance {i + 1}",
                private=tuple(each.private for each in instance.interfaces if each.private),
                public=next(iter(public), ""),
                labels={ZONE: zone, **labels} if zone else labels,
                absent="" if instance.status == "RUNNING" else instance.status.lower(),
            )
        )
    return machines


class _AzureMachine(Emitted):
    ident: str = Field("", alias="id")
    name: str
    private: str | None = Field(None, alias="privateIps")
    public: str | None = Field(None, alias="publicIps")
    state: str | None = Field(None, alias="powerState")
    zones: list[str] | None = None
    location: str | None = None


class _AzureMachines(Emitted):
    machine: list[_AzureMachine]


class _AzurePublic(Emitted):
    address: str | None = Field(None, alias="ipAddress")


class _AzureNetwork(Emitted):
    private: list[str] = Field([], alias="privateIpAddresses")
    public: list[_AzurePublic] = Field([], alias="publicIpAddresses")


class _AzureNamed(Emitted):
    name: str
    group: str = Field("", alias="resourceGroup")
    network: _AzureNetwork


class _AzureAddress(Emitted):
    machine: _AzureNamed = Field(alias="virtualMachine")


class _AzureAddresses(Emitted):
    machine: list[_AzureAddress]


def of_azure(document: Any, path: str) -> list[Machine]:
    """Return the machines of `az vm list --show-details`."""
    machines = []
    for i, each in enumerate(validate(_AzureMachines, {"machine": document}, path).machine):
        zone = f"{each.location}-{each.zones[0]}" if each.zones and each.location else ""
        state = (each.state or "VM running").removeprefix("VM ")
        machines.append(
            Machine(
                ident=each.ident or each.name,
                name=each.name,
                where=f"machine {i + 1}",
                private=_listed(each.private),
                public=next(iter(_listed(each.public)), ""),
                labels={ZONE: zone} if zone else {},
                absent="" if state == "running" else state,
            )
        )
    return machines


def of_azure_addresses(document: Any, path: str) -> list[Machine]:
    """Return the machines of `az vm list-ip-addresses`."""
    machines = []
    for i, entry in enumerate(validate(_AzureAddresses, {"machine": document}, path).machine):
        each = entry.machine
        public = [place.address for place in each.network.public if place.address]
        machines.append(
            Machine(
                ident=f"{each.group}/{each.name}",
                name=each.name,
                where=f"machine {i + 1}",
                private=tuple(each.network.private),
                public=next(iter(public), ""),
            )
        )
    return machines


class _Server(Emitted):
    ident: str = Field(alias="ID")
    name: str = Field("", alias="Name")
    status: str = Field("ACTIVE", alias="Status")
    networks: dict[str, list[str]] | str = Field(alias="Networks")
    zone: str | None = Field(None, alias="Availability Zone")


class _Servers(Emitted):
    server: list[_Server]


def of_openstack(document: Any, path: str) -> list[Machine]:
    """Return the machines of `openstack server list -f json`.

    Others reach a server at its first network, and from elsewhere at the floating address that follows there. Older
    clients write all networks as one text: `private=10.0.0.4, 172.24.4.8; storage=10.1.0.4`.
    """
    machines = []
    for i, server in enumerate(validate(_Servers, {"server": document}, path).server):
        networks = server.networks if isinstance(server.networks, Mapping) else _networks(server.networks)
        addresses = [address for each in networks.values() for address in each]
        fixed_and_floating = [address for address in next(iter(networks.values()), []) if ":" not in address]
        machines.append(
            Machine(
                ident=server.ident,
                name=server.name,
                where=f"server {i + 1}",
                private=tuple(addresses),
                public=fixed_and_floating[-1] if len(fixed_and_floating) > 1 else "",
                labels={ZONE: server.zone} if server.zone else {},
                absent="" if server.status == "ACTIVE" else server.status.lower(),
            )
        )
    return machines


def _networks(text: str) -> dict[str, list[str]]:
    parts = (part.partition("=") for part in text.split(";"))
    return {name.strip(): list(_listed(addresses)) for name, mark, addresses in parts if mark}


def _listed(text: str | None) -> tuple[str, ...]:
    """Return the parts of a text with commas between them."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
