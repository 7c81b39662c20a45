"""Machines as `ansible-inventory --list` lists them, from any inventory that Ansible reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gavotte.agents.sources.listings.machine import Machine, text_at
from gavotte.errors import FormatError

META = "_meta"


def of_ansible(document: Any, path: str) -> list[Machine]:
    """Return the hosts of all groups, in the order of their first mention."""
    hostvars = document.get(META, {}).get("hostvars", {}) if isinstance(document.get(META, {}), Mapping) else {}
    if not isinstance(hostvars, Mapping):
        raise FormatError(path, "_meta.hostvars", "is not a table", "use the output of `ansible-inventory --list`")
    names: dict[str, None] = {}
    for name, group in document.items():
        hosts = group.get("hosts", []) if isinstance(group, Mapping) and name != META else []
        if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
            raise FormatError(path, f"{name}.hosts", "is not a list of names", "use `ansible-inventory --list`")
        names |= dict.fromkeys(hosts)
    names |= dict.fromkeys(str(name) for name in hostvars)
    return [_machine(name, hostvars.get(name), path) for name in names]


def _machine(name: str, variables: Any, path: str) -> Machine:
    port = variables.get("ansible_port") if isinstance(variables, Mapping) else None
    if port is not None and not (str(port).isdecimal() and 0 < int(port) <= 65535):
        raise FormatError(path, f"_meta.hostvars.{name}.ansible_port", f"`{port}` is not a port", "use 1 to 65535")
    local = text_at(variables, "ansible_connection") == "local"
    return Machine(
        ident=name,
        name=name,
        where=f"host {name}",
        private=(text_at(variables, "ansible_host", "ansible_ssh_host") or name,),
        user=text_at(variables, "ansible_user", "ansible_ssh_user"),
        port=None if port is None else int(port),
        absent="not reached by SSH" if local else "",
    )
