"""Write hosts in the formats of other tools: Ansible, ssh, Open MPI, MPICH and Terraform."""

from __future__ import annotations

import json
from collections.abc import Callable

from gavotte.errors import GavotteError
from gavotte.formats.inventory import Host, Inventory
from gavotte.formats.parts.routes import SshRoute

GROUP = "gavotte"
"""Group of the hosts in an Ansible inventory."""

VARIABLE = "gavotte_hosts"
"""Variable of Terraform that has the hosts: `variable "gavotte_hosts" { type = map(string) }`."""


def exported(inventory: Inventory, form: str) -> str:
    """Return the text of a file that another tool reads.

    Args:
        inventory: the hosts. Hosts whose agents are not reached by SSH get their own addresses.
        form: one of `FORMS`.

    Raises:
        GavotteError: for an unknown form.
    """
    if form not in FORMS:
        raise GavotteError(f"unknown format `{form}`", hint=f"use one of {', '.join(FORMS)}")
    return FORMS[form](inventory)


def _route(host: Host) -> SshRoute:
    return host.route if isinstance(host.route, SshRoute) else SshRoute(host.address)


def _ansible(inventory: Inventory) -> str:
    """Return an inventory in Ansible's INI format."""
    lines = [f"[{GROUP}]"]
    for host in inventory.host:
        route = _route(host)
        words = [host.name, f"ansible_host={route.host}"]
        words += [f"ansible_user={route.user}"] if route.user else []
        words += [f"ansible_port={route.port}"] if route.port else []
        lines.append(" ".join(words))
    return "\n".join(lines) + "\n"


def _ssh_config(inventory: Inventory) -> str:
    """Return an ssh client's configuration."""
    lines = []
    for host in inventory.host:
        route = _route(host)
        lines += [f"Host {host.name}", f"    HostName {route.host}"]
        lines += [f"    User {route.user}"] if route.user else []
        lines += [f"    Port {route.port}"] if route.port else []
    return "\n".join(lines) + "\n"


def _slots(host: Host) -> int:
    """Return the number of whole cores that tasks may use; 0 = it was never stated."""
    return max(1, int(host.cpus)) if "cpus" in host.model_fields_set else 0


def _open_mpi(inventory: Inventory) -> str:
    """Return a hostfile of Open MPI."""
    return "".join(
        _route(host).host + (f" slots={slots}" if (slots := _slots(host)) else "") + "\n" for host in inventory.host
    )


def _mpich(inventory: Inventory) -> str:
    """Return a hostfile of MPICH and Intel MPI."""
    return "".join(
        _route(host).host + (f":{slots}" if (slots := _slots(host)) else "") + "\n" for host in inventory.host
    )


def _terraform(inventory: Inventory) -> str:
    """Return values of Terraform's variables, a `*.tfvars.json`: the address of each host by its name.

    The address is the one at which the other hosts reach the host, and not the one for ssh.
    """
    return json.dumps({VARIABLE: {host.name: host.address for host in inventory.host}}, indent=2) + "\n"


FORMS: dict[str, Callable[[Inventory], str]] = {
    "ansible": _ansible,
    "ssh-config": _ssh_config,
    "openmpi": _open_mpi,
    "mpich": _mpich,
    "terraform": _terraform,
}
"""Names of the formats."""
