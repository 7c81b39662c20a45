"""Machines that Terraform or OpenTofu made: of its state, or of an output that names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gavotte.agents.sources.listings.machine import Machine, text_at
from gavotte.errors import FormatError


@dataclass(frozen=True)
class Attributes:
    """Where a type of resource has the facts of a machine: paths, the best one first.

    Attributes:
        names: its name.
        private: the address at which other machines reach it.
        public: the address at which it is reached from elsewhere.
    """

    names: tuple[str, ...]
    private: tuple[str, ...]
    public: tuple[str, ...] = ()


MACHINES = {
    "aws_instance": Attributes(("tags.Name",), ("private_ip",), ("public_ip",)),
    "azurerm_linux_virtual_machine": Attributes(("name",), ("private_ip_address",), ("public_ip_address",)),
    "digitalocean_droplet": Attributes(("name",), ("ipv4_address_private", "ipv4_address"), ("ipv4_address",)),
    "google_compute_instance": Attributes(
        ("name",), ("network_interface.0.network_ip",), ("network_interface.0.access_config.0.nat_ip",)
    ),
    "hcloud_server": Attributes(("name",), ("network.0.ip", "ipv4_address"), ("ipv4_address",)),
    "linode_instance": Attributes(("label",), ("private_ip_address", "ip_address"), ("ip_address",)),
    "oci_core_instance": Attributes(("display_name",), ("private_ip",), ("public_ip",)),
    "openstack_compute_instance_v2": Attributes(("name",), ("access_ip_v4", "network.0.fixed_ip_v4")),
}
"""Types of resources that are machines."""

ANY = Attributes(
    ("name", "hostname", "tags.Name"), ("private_ip", "private_ip_address", "address", "ip"), ("public_ip",)
)
"""Names that people give to these facts in outputs of their own."""


def of_state(document: Any, path: str) -> list[Machine]:
    """Return the machines of `terraform show -json`."""
    machines = []
    for resource in _resources(document.get("values", {}).get("root_module")):
        kind = MACHINES.get(text_at(resource, "type"))
        if kind is None or resource.get("mode") == "data":
            continue
        values = resource.get("values")
        index = resource.get("index")
        own = text_at(resource, "name") + ("" if index is None else f"-{index}")
        private, public = text_at(values, *kind.private), text_at(values, *kind.public)
        machines.append(
            Machine(
                ident=own,
                name=text_at(values, *kind.names),
                where=text_at(resource, "address") or own,
                private=(private,) if private else (),
                public=public,
            )
        )
    if not machines:
        known = ", ".join(sorted(MACHINES))
        raise FormatError(
            path, "", "has no resource that is known as a machine", f"write an output with addresses; known: {known}"
        )
    return machines


def of_outputs(document: Any, path: str) -> list[Machine]:
    """Return the machines of `terraform output -json`: of its one output that names them."""
    named = {name: _of_value(output["value"]) for name, output in document.items()}
    candidates = {name: machines for name, machines in named.items() if machines}
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    if candidates:
        names = sorted(candidates)
        raise FormatError(
            path,
            "",
            f"has {len(candidates)} outputs with addresses: {', '.join(names)}",
            f"choose one: `terraform output -json {names[0]}`",
        )
    raise FormatError(path, "", "has no output with addresses", "write one, or use `terraform show -json`")


def of_output(document: Any, path: str) -> list[Machine]:
    """Return the machines of `terraform output -json NAME`."""
    if machines := _of_value(document):
        return machines
    raise FormatError(path, "", "has no addresses", 'use e.g. {"web1": "10.0.0.1", "web2": "10.0.0.2"}')


def _of_value(value: Any) -> list[Machine]:
    """Return the machines of an output: addresses, names with addresses, or objects with these."""
    entries = enumerate(value, 1) if isinstance(value, list) else value.items() if isinstance(value, Mapping) else ()
    machines = []
    for key, entry in entries:
        own = "" if isinstance(key, int) else str(key)
        if isinstance(entry, Mapping):
            name = text_at(entry, *ANY.names) or own
            private, public = text_at(entry, *ANY.private), text_at(entry, *ANY.public)
        elif isinstance(entry, str):
            name, private, public = own or entry, entry, ""
        else:
            return []
        if not (private or public):
            return []
        machines.append(
            Machine(
                ident=own or private or public,
                name=name,
                where=own or f"entry {key}",
                private=(private,) if private else (),
                public=public,
            )
        )
    return machines


def _resources(module: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of a module and of those below it."""
    left = [module]
    while left:
        here = left.pop()
        if not isinstance(here, Mapping):
            continue
        yield from (each for each in here.get("resources") or () if isinstance(each, Mapping))
        left += reversed(here.get("child_modules") or [])
