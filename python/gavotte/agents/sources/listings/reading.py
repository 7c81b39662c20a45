"""Recognise listings by their content, and make an Inventory of their machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gavotte.agents.sources.assembly import Found, assemble, host_name
from gavotte.agents.sources.listings.ansible import META, of_ansible
from gavotte.agents.sources.listings.clouds import (
    of_aws,
    of_aws_topology,
    of_azure,
    of_azure_addresses,
    of_google,
    of_openstack,
)
from gavotte.agents.sources.listings.kubernetes import lists_pods, of_agents, of_kubernetes
from gavotte.agents.sources.listings.machine import Machine, at
from gavotte.agents.sources.listings.terraform import of_output, of_outputs, of_state
from gavotte.errors import FormatError
from gavotte.formats.files.reading import parse_json, read_text
from gavotte.formats.inventory import MOST_ADDRESSES, Inventory
from gavotte.formats.parts.names import not_a_host_name
from gavotte.formats.parts.routes import SshRoute

STDIN = "-"
"""Name of standard input as a listing."""

KNOWN = (
    "aws ec2 describe-instances",
    "gcloud compute instances list --format=json",
    "az vm list --show-details",
    "openstack server list -f json",
    "kubectl get nodes -o json",
    "kubectl get pods -o json",
    "ansible-inventory --list",
    "terraform show -json",
)
"""Commands whose output is a listing."""

Reader = Callable[[Any, str], list[Machine]]


@dataclass(frozen=True)
class Listing:
    """Hosts of listings.

    Attributes:
        inventory: the hosts that can be used.
        absent: host to reason, for those that do not run.
    """

    inventory: Inventory
    absent: Mapping[str, str]


def from_listings(
    paths: Sequence[str | Path], *, match: str = "*", user: str | None = None, public: bool = False
) -> Listing:
    """Read listings, and put together what they know of each machine.

    Args:
        paths: the files; `-` is standard input.
        match: patterns of names with commas between them; others are left out.
        user: login name for hosts without one.
        public: connect to agents at public addresses. Hosts always use their private addresses among themselves.

    Raises:
        FormatError: naming the file, the place and a remedy.
    """
    machines: dict[str, Machine] = {}
    for path in paths:
        source = "stdin" if str(path) == STDIN else str(path)
        document = parse_json(read_text("/dev/stdin" if str(path) == STDIN else path), source)
        for machine in _reader(document, source)(document, source):
            known = machines.get(machine.ident)
            machines[machine.ident] = machine if known is None else known.with_more(machine)
    source = ", ".join("stdin" if str(path) == STDIN else str(path) for path in paths)
    return of_machines(machines, source, match=match, user=user, public=public)


def of_machines(
    machines: Mapping[str, Machine], source: str, *, match: str = "*", user: str | None = None, public: bool = False
) -> Listing:
    """Return the hosts of the machines that run.

    Args:
        machines: identifier to machine.
        source: where they are listed, for errors.
        match: patterns of names with commas between them; others are left out.
        user: login name for hosts without one.
        public: connect to agents at public addresses.

    Raises:
        FormatError: when there is no such host, or one has no address.
    """
    if any(machine.agent for machine in machines.values()):
        # Where pods are the agents, nodes are listed for their labels.
        machines = {
            ident: each if each.agent or each.absent else replace(each, absent="no agent runs there")
            for ident, each in machines.items()
        }
    named = _named(list(machines.values()))
    chosen = {name: each for name, each in named.items() if any(fnmatchcase(name, part) for part in match.split(","))}
    if named and not chosen:
        raise FormatError(source, "", f"no host matches `{match}`", f"its hosts are e.g. {', '.join(list(named)[:3])}")
    absent = {name: machine.absent for name, machine in chosen.items() if machine.absent}
    if chosen and len(absent) == len(chosen):
        first = next(iter(absent))
        raise FormatError(source, "", f"no host runs; {first}: {absent[first]}", "start them, and list them again")
    hosts = [_found(name, each, source, user, public) for name, each in chosen.items() if name not in absent]
    return Listing(assemble(source, hosts), absent)


def _reader(document: Any, path: str) -> Reader:
    """Return what reads a document.

    Raises:
        FormatError: when the document is not a known listing.
    """
    readers = {
        "Reservations": of_aws,
        "Instances": of_aws_topology,
        META: of_ansible,
    }
    if isinstance(document, Mapping):
        if reader := next((reader for key, reader in readers.items() if key in document), None):
            return reader
        if document.get("kind") in ("List", "NodeList", "PodList") and isinstance(document.get("items"), list):
            return of_agents if lists_pods(document) else of_kubernetes
        if "format_version" in document and isinstance(document.get("values"), Mapping):
            return of_state
        if document and all(isinstance(each, Mapping) and "sensitive" in each for each in document.values()):
            return of_outputs
    first = document[0] if isinstance(document, list) and document else None
    if isinstance(first, Mapping):
        columns = {
            "virtualMachine": of_azure_addresses,
            "privateIps": of_azure,
            "networkInterfaces": of_google,
            "Networks": of_openstack,
        }
        if reader := next((reader for key, reader in columns.items() if key in first), None):
            return reader
        if at(first, "networkProfile.networkInterfaces") is not None:
            raise FormatError(path, "", "lists machines without addresses", "use `az vm list --show-details`")
    if isinstance(document, (list, Mapping)) and document:
        values = list(document.values()) if isinstance(document, Mapping) else document
        if all(isinstance(each, (str, Mapping)) for each in values):
            return of_output
    commands = ", ".join(f"`{command}`" for command in KNOWN)
    raise FormatError(path, "", "is not a known listing of hosts", f"use the output of one of {commands}")


def _named(machines: Sequence[Machine]) -> dict[str, Machine]:
    """Return machines by the names of hosts: their own if it is fit and unique, else their identifier."""
    wished = [host_name(machine.name) for machine in machines]
    times = Counter(wished)
    return {
        name if times[name] == 1 and not not_a_host_name(name) else host_name(machine.ident): machine
        for name, machine in zip(wished, machines, strict=True)
    }


def _found(name: str, machine: Machine, source: str, user: str | None, public: bool) -> Found:
    address = next(iter(machine.private), machine.public)
    reached = (machine.public or address) if public else address
    if not address:
        raise FormatError(
            source, machine.where, f"`{name}` has no address", "list it with its addresses, or leave it out by --match"
        )
    return Found(
        name,
        address,
        machine.where,
        route=machine.agent or SshRoute(reached, machine.user or user, machine.port),
        addresses=machine.private[1 : 1 + MOST_ADDRESSES],
        labels=machine.labels,
        cpus=machine.cpus,
        memory_bytes=machine.memory_bytes,
    )
